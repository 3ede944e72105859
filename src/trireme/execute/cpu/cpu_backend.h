// Instructions on CPU kernels.
#pragma once

#include <memory>
#include <vector>

#include "trireme/execute/backend.h"
#include "trireme/kernels/cpu/head_loss.h"
#include "trireme/kernels/cpu/head_loss_shard.h"
#include "trireme/kernels/cpu/matmul.h"
#include "trireme/program/local_model.h"

namespace trireme {

/// Creates every matrix product at construction. Make it in the rank's thread after its OpenMP
/// thread count is set: the count is part of the products and of the workspace size.
class CpuBackend final : public Backend {
 public:
  /// `program` must outlive the backend.
  CpuBackend(const Program& program, int num_threads);

  [[nodiscard]] std::int64_t workspace_bytes() const override { return workspace_bytes_; }
  void fill_constant(const Buffer& buffer, std::byte* bytes) override;
  void run(const Call& call, int index, Operands operands, const StepContext& context) override;

 private:
  /// The prepared product of an instruction, if it has one.
  struct Bound {
    kernels::Matmul* matmul = nullptr;
    kernels::HeadLoss* head = nullptr;
    kernels::HeadLossShard* head_shard = nullptr;
  };
  void bind_head(Part part, Bound& bound);
  void bind(const Instruction& instruction, Bound& bound);
  kernels::Matmul* product(const kernels::MatmulShape& shape);
  void need_workspace(std::int64_t bytes);
  [[nodiscard]] std::int64_t scratch_bytes(const Instruction& instruction) const;

  const Program& program_;
  LocalModel model_;
  int num_threads_;
  std::vector<bool> decays_;               ///< by row of the parameter table
  std::vector<std::vector<Bound>> bound_;  ///< [template][instruction]
  std::vector<std::unique_ptr<kernels::Matmul>> products_;
  std::unique_ptr<kernels::HeadLoss> head_;
  std::unique_ptr<kernels::HeadLossShard> head_shard_;
  std::int64_t workspace_bytes_ = 0;
};

}  // namespace trireme
