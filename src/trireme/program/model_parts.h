// Expands a model into forward and backward parts of one micro-batch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trireme/base/token_pieces.h"
#include "trireme/program/local_model.h"
#include "trireme/program/program.h"

namespace trireme {

/// Sizes of one micro-batch as the kernels see it.
struct TokenShape {
  std::int64_t micro_batch = 1;  ///< B
  std::int64_t seq = 1;          ///< T, of this rank
  std::int64_t cache = 0;        ///< rows of a key/value cache; 0 = no cache
  [[nodiscard]] std::int64_t tokens() const { return micro_batch * seq; }
};

/// Tokens of one chunk of a head whose vocabulary is sharded.
inline constexpr std::int64_t kHeadChunkTokens = 256;

/// The micro-batch shape that a program's parts work on.
[[nodiscard]] TokenShape token_shape(const Program& program);
/// Where the rank's tokens lie in their sequence.
[[nodiscard]] TokenPieces token_pieces(const Program& program);

/// The buffers in which a stage takes and leaves the residual stream and its gradient, by name;
/// "" for the one stage of a model that is not cut.
[[nodiscard]] std::string stage_prefix(const Pipeline& pipeline, int stage);
[[nodiscard]] std::string stage_in_name(const Pipeline& pipeline, int stage);
[[nodiscard]] std::string stage_out_name(const Pipeline& pipeline, int stage);
/// The gradient is taken at the end of the stage and left at its start, in place.
[[nodiscard]] std::string stream_gradient_name(const Pipeline& pipeline, int stage);

/// Appends the parts of one stage to one template of a program. The program must hold one buffer
/// per parameter of the rank (`add_parameter_buffers`). Weights and gradients are used whole and in
/// mode W: accumulation, recomputation and every kind of parallelism are passes of their own.
class ModelBuilder {
 public:
  /// `model` and `program` outlive the builder.
  ModelBuilder(Program& program, int template_index, const LocalModel& model, int stage);

  /// LOAD, if the stage needs tokens, labels or sample numbers.
  void load();
  /// EMBED in the first stage, layers, FINAL_NORM in the last stage, STAGE_OUT in others.
  void forward();
  /// Training: the fused head, loss and their gradients, in chunks of tokens.
  void head_backward();
  /// Evaluation: the loss alone.
  void head_loss();
  /// Generation: logits of the last token.
  void logits();
  /// FINAL_NORM in the last stage, layers in reverse, EMBED in the first stage.
  void backward();

 private:
  struct KeyRanges {
    Range k, v;
  };
  /// What the parts of a layer hand to each other; -1 where a family has no such buffer.
  struct LayerBuffers {
    BufferId h = -1, attn_norm = -1, attn_stats = -1, qkv = -1, q = -1, o = -1, lse = -1;
    KeyRanges keys;
    BufferId proj = -1, mlp_h = -1, mlp_norm = -1, mlp_stats = -1, up = -1, act = -1, down = -1;
  };
  struct NormBuffers {
    BufferId h, y, stats;
  };

  [[nodiscard]] bool is_first() const { return stage_ == 0; }
  [[nodiscard]] bool is_last() const { return model_.pipeline().is_last(stage_); }
  [[nodiscard]] bool has_dropout() const;
  [[nodiscard]] const ModelSpec& spec() const { return model_.spec(); }
  /// Of the type that the step computes in.
  BufferId activation(const std::string& name, std::int64_t elems);
  BufferId activation(const std::string& name, std::int64_t elems, DType dtype);
  BufferId gradient(const std::string& name, std::int64_t elems);
  /// Keys and values (or their gradients), `name`k and `name`v; in one buffer, one behind the
  /// other, where they travel together.
  KeyRanges keys_and_values(const std::string& name);
  [[nodiscard]] Use use(Role role, Access access, BufferId buffer) const;
  [[nodiscard]] const ParameterSlot& slot(ParameterRole role, int layer) const;
  [[nodiscard]] const ParameterSlot& head_slot() const;
  [[nodiscard]] bool has(ParameterRole role, int layer) const;
  Instruction& emit(Op op, Part part, int layer, std::vector<Use> uses);
  void add_parameter(Instruction& instruction, Role role, ParameterRole parameter_role);
  void add_gradient(Instruction& instruction, Role role, ParameterRole parameter_role);
  void add_workspace(Instruction& instruction);

  void embed();
  void stage_out();
  NormBuffers norm(Part part, int layer, BufferId x, BufferId delta);
  BufferId linear(Part part, int layer, BufferId x, std::int64_t width);
  void attention(int layer, LayerBuffers& at);
  void dropout(int layer, Site site, BufferId buffer);
  void layer_forward(int layer);

  void norm_backward(Part part, int layer, BufferId dy, NormBuffers saved);
  BufferId linear_backward(Part part, int layer, BufferId dy, BufferId x, std::int64_t width);
  BufferId dropout_backward(int layer, Site site, BufferId dy);
  BufferId attention_backward(int layer, const LayerBuffers& at, BufferId d_out);
  void layer_backward(int layer);

  Program& program_;
  int template_index_;
  const LocalModel& model_;
  int stage_;
  TokenShape shape_;
  std::string prefix_;
  BufferId tokens_ = -1, labels_ = -1, samples_ = -1;
  std::vector<LayerBuffers> layers_;
  NormBuffers final_{};
  BufferId stream_ = -1;  ///< residual stream before the next norm
  BufferId delta_ = -1;   ///< branch output that the next norm adds
  BufferId d_stream_ = -1, d_final_ = -1;
};

/// One buffer per parameter of the rank, and (for training) per gradient; fills
/// `program.parameters`.
void add_parameter_buffers(Program& program, const LocalModel& model);

/// Roles of a part's weight and bias in the parameter table; nothing where it has none.
[[nodiscard]] std::optional<ParameterRole> weight_role(Part part);
[[nodiscard]] std::optional<ParameterRole> bias_role(Part part);

/// (out, in) features of a linear part: QKV, PROJ, MLP_UP, MLP_DOWN.
struct LinearShape {
  std::int64_t out = 0;
  std::int64_t in = 0;
};
[[nodiscard]] LinearShape linear_shape(const ModelSpec& local_spec, Part part);

}  // namespace trireme
