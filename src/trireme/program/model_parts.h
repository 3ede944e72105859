// Expands a model into forward and backward parts of one micro-batch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trireme/program/program.h"

namespace trireme {

/// Sizes of one micro-batch as the kernels see it.
struct TokenShape {
  std::int64_t micro_batch = 1;  ///< B
  std::int64_t seq = 1;          ///< T
  std::int64_t cache = 0;        ///< rows of a key/value cache; 0 = no cache
  [[nodiscard]] std::int64_t tokens() const { return micro_batch * seq; }
};

/// The micro-batch shape that a program's parts work on.
[[nodiscard]] TokenShape token_shape(const Program& program);

/// Appends parts to one template of a program. The program must hold one buffer per parameter
/// (`add_parameter_buffers`). Weights and gradients are used whole and in mode W: accumulation,
/// recomputation and data parallelism are passes of their own.
class ModelBuilder {
 public:
  ModelBuilder(Program& program, int template_index);

  /// EMBED, layers, FINAL_NORM.
  void forward();
  /// Training: the fused head, loss and their gradients, in chunks of tokens.
  void head_backward();
  /// Evaluation: the loss alone.
  void head_loss();
  /// Generation: logits of the last token.
  void logits();
  /// FINAL_NORM, layers in reverse, EMBED.
  void backward();

 private:
  /// What the parts of a layer hand to each other; -1 where a family has no such buffer.
  struct LayerBuffers {
    BufferId h = -1, attn_norm = -1, attn_stats = -1, qkv = -1, q = -1, k = -1, v = -1, o = -1,
             lse = -1;
    BufferId proj = -1, mlp_h = -1, mlp_norm = -1, mlp_stats = -1, up = -1, act = -1, down = -1;
  };
  struct NormBuffers {
    BufferId h, y, stats;
  };

  BufferId activation(const std::string& name, std::int64_t elems, DType dtype = DType::kF32);
  BufferId gradient(const std::string& name, std::int64_t elems);
  [[nodiscard]] Use use(Role role, Access access, BufferId buffer) const;
  [[nodiscard]] Range parameter(ParameterRole role, int layer) const;
  [[nodiscard]] Range parameter_gradient(ParameterRole role, int layer) const;
  [[nodiscard]] bool has(ParameterRole role, int layer) const;
  Instruction& emit(Op op, Part part, int layer, std::vector<Use> uses);
  void add_parameter(Instruction& instruction, Role role, ParameterRole parameter_role);
  void add_gradient(Instruction& instruction, Role role, ParameterRole parameter_role);
  void add_workspace(Instruction& instruction);

  void embed();
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
  ParameterTable table_;
  TokenShape shape_;
  std::vector<LayerBuffers> layers_;
  NormBuffers final_{};
  BufferId stream_ = -1;  ///< residual stream before the next norm
  BufferId delta_ = -1;   ///< branch output that the next norm adds
  BufferId d_stream_ = -1, d_final_ = -1;
};

/// One buffer per parameter, and (for training) per gradient; fills `program.parameters`.
void add_parameter_buffers(Program& program);

/// Roles of a part's weight and bias in the parameter table; nothing where it has none.
[[nodiscard]] std::optional<ParameterRole> weight_role(Part part);
[[nodiscard]] std::optional<ParameterRole> bias_role(Part part);

/// (out, in) features of a linear part: QKV, PROJ, MLP_UP, MLP_DOWN.
struct LinearShape {
  std::int64_t out = 0;
  std::int64_t in = 0;
};
[[nodiscard]] LinearShape linear_shape(const ModelSpec& spec, Part part);

}  // namespace trireme
