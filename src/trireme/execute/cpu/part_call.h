// One instruction about to run: its operands by role, and the shapes of its program.
#pragma once

#include <cstdint>

#include "trireme/execute/backend.h"
#include "trireme/kernels/cpu/attention.h"
#include "trireme/kernels/cpu/dropout.h"
#include "trireme/kernels/cpu/embedding.h"
#include "trireme/kernels/cpu/norm.h"
#include "trireme/kernels/cpu/rope.h"
#include "trireme/program/local_model.h"
#include "trireme/program/model_parts.h"

namespace trireme {

/// Read-only view on what a kernel call needs. Lives for one instruction.
class PartCall {
 public:
  PartCall(const Program& program, const LocalModel& model, const Instruction& instruction,
           Operands operands, const StepContext& context)
      : program_(program),
        model_(model),
        instruction_(instruction),
        operands_(operands),
        context_(context) {}

  [[nodiscard]] const Program& program() const { return program_; }
  [[nodiscard]] const LocalModel& model() const { return model_; }
  [[nodiscard]] const Instruction& instruction() const { return instruction_; }
  [[nodiscard]] const StepContext& context() const { return context_; }
  /// Sizes of this rank's share.
  [[nodiscard]] const ModelSpec& spec() const { return model_.spec(); }

  /// Address of the operand with this role; nullptr if the instruction has none.
  template <typename T = float>
  [[nodiscard]] T* at(Role role) const {
    for (std::size_t i = 0; i < instruction_.uses.size(); ++i) {
      if (instruction_.uses[i].role == role) return reinterpret_cast<T*>(operands_[i]);
    }
    return nullptr;
  }
  /// Number of elements of that operand.
  [[nodiscard]] std::int64_t count(Role role) const {
    return num_elems(program_, instruction_.find(role)->range);
  }
  [[nodiscard]] bool accumulates(Role role) const {
    const Use* const use = instruction_.find(role);
    return use != nullptr && use->access == Access::kAccumulate;
  }
  /// Tokens already in the key/value cache; 0 outside of decoding.
  [[nodiscard]] std::int64_t cached_tokens() const;
  /// Random numbers of a dropout site in this step; p = 0 where the instruction has none.
  [[nodiscard]] kernels::DropoutSite dropout() const;

  /// Number of the first of `num_tokens` tokens that this rank's norms work on.
  [[nodiscard]] std::int64_t first_own_token(std::int64_t num_tokens) const {
    return model_.is_sequence_parallel() ? model_.coord().tp * num_tokens : 0;
  }

  [[nodiscard]] kernels::EmbeddingShape embedding_shape() const;
  [[nodiscard]] kernels::NormShape norm_shape() const;
  [[nodiscard]] kernels::DropoutShape dropout_shape() const;
  [[nodiscard]] kernels::HeadsShape heads_shape() const;
  [[nodiscard]] kernels::AttentionShape attention_shape() const;

 private:
  const Program& program_;
  const LocalModel& model_;
  const Instruction& instruction_;
  Operands operands_;
  const StepContext& context_;
};

/// Shapes that do not depend on what is in the cache: for sizing scratch.
[[nodiscard]] kernels::NormShape norm_shape(const Program& program, const ModelSpec& local_spec,
                                            const Instruction& instruction);
[[nodiscard]] kernels::HeadsShape heads_shape(const Program& program, const LocalModel& model);
[[nodiscard]] kernels::AttentionShape attention_shape(const Program& program,
                                                      const LocalModel& model);

}  // namespace trireme
