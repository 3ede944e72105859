// The parameter table: one row per parameter. Sharding, init, norm, decay, checkpoint, export,
// counts and memory all read this table; nothing is decided by substrings of names.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trireme/model/spec.h"

namespace trireme {

/// Which piece of the model a parameter belongs to.
enum class ParameterRole : std::uint8_t {
  kTokenTable,
  kPositionTable,
  kAttnNormWeight,
  kAttnNormBias,
  kQkvWeight,
  kQkvBias,
  kQNormWeight,
  kKNormWeight,
  kProjWeight,
  kProjBias,
  kMlpNormWeight,
  kMlpNormBias,
  kUpWeight,
  kUpBias,
  kDownWeight,
  kDownBias,
  kFinalNormWeight,
  kFinalNormBias,
  kHeadWeight,
};

/// How a tensor-parallel group of t ranks holds a parameter.
enum class TpSharding : std::uint8_t {
  kReplicated,   ///< the same on each rank, and so is its gradient
  kPartialGrad,  ///< the same on each rank, but under sequence parallelism each has a part of the
                 ///< gradient
  kPartialByHeads,  ///< the same on each rank, but each has its own heads' part of the gradient,
                    ///< with or without sequence parallelism
  kRows,  ///< dim 0 (output features or vocabulary) is split; of a fused root each of q, k, v (also
          ///< of gpt2's c_attn, which is one view) or gate, up on its own
  kColumns,  ///< dim 1 (input features) is split
};

/// Each rank has its own elements.
[[nodiscard]] constexpr bool is_cut(TpSharding sharding) {
  return sharding == TpSharding::kRows || sharding == TpSharding::kColumns;
}

enum class Init : std::uint8_t { kNormal, kOnes, kZeros };

/// A Hugging-Face-named piece of a parameter: `num_rows` rows of the root from `first_row` on.
struct ParameterView {
  std::string name;  ///< as in the Hugging Face checkpoint of the family
  std::int64_t first_row = 0;
  std::int64_t num_rows = 0;
  /// The file holds the transpose, (in, out): GPT-2's Conv1D weights.
  bool transposed_in_file = false;

  bool operator==(const ParameterView&) const = default;
};

struct Parameter {
  std::string name;  ///< global name of the root, e.g. "model.layers.3.self_attn.qkv_proj.weight"
  ParameterRole role{};
  std::optional<std::int64_t> layer;  ///< nothing for embedding, final norm and head
  std::vector<std::int64_t> shape;    ///< (out, in) or (n)
  TpSharding tp_sharding = TpSharding::kReplicated;
  Init init = Init::kNormal;
  float init_std = 0.0F;  ///< for Init::kNormal
  bool decays = false;    ///< weight decay applies (matrices; not norms, not biases)
  bool trainable = true;
  std::vector<ParameterView> views;  ///< cover the rows of the root, in order

  bool operator==(const Parameter&) const = default;
  [[nodiscard]] std::int64_t num_elems() const;
  [[nodiscard]] std::int64_t num_rows() const { return shape.front(); }
  [[nodiscard]] std::int64_t row_elems() const;  ///< elements of one row; 1 for a vector
};

/// Rows in forward order: token table, [position table], layers 0..L-1, final norm, [head].
/// A tied head has no row: it is the token table, see `head_index`.
class ParameterTable {
 public:
  /// `spec` must be resolved, else InternalError.
  explicit ParameterTable(const ModelSpec& spec);

  [[nodiscard]] const std::vector<Parameter>& rows() const& { return rows_; }
  /// By value, so that `for (... : ParameterTable(spec).rows())` does not outlive its table.
  [[nodiscard]] std::vector<Parameter> rows() && { return std::move(rows_); }
  [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(rows_.size()); }
  /// Row index of the parameter with this role (and layer), if the model has it.
  [[nodiscard]] std::optional<std::int64_t> find(ParameterRole role,
                                                 std::optional<std::int64_t> layer = {}) const;
  /// Row of the head's weight: its own, or the token table's when tied.
  [[nodiscard]] std::int64_t head_index() const;
  /// All elements; a tied table counts once.
  [[nodiscard]] std::int64_t num_elems() const;

 private:
  std::vector<Parameter> rows_;
  bool tied_ = false;
};

/// Initial value of elements [first, first + out.size()) of a parameter in root order: a pure
/// function of (seed, HF view name, element index within the view), so the same under every layout
/// and fusion. Matrices: N(0, 0.02); attention output and MLP down: 0.02 / sqrt(2 L); norms 1;
/// biases 0. `out` has room for `num_elems`; InternalError if the range leaves the parameter.
void init_elems(const Parameter& parameter, std::uint64_t seed, std::int64_t first, float* out,
                std::int64_t num_elems);

}  // namespace trireme
