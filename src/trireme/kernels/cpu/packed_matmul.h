// Matrix products of our own: operands are copied block by block into packed fp32 panels, from fp32
// or bf16, and multiplied in registers (Goto, van de Geijn 2008, doi 10.1145/1356052.1356053).
// Private to this layer: use Matmul.
#pragma once

#include <cstdint>

#include "trireme/kernels/cpu/isa.h"
#include "trireme/kernels/cpu/matmul.h"

namespace trireme::kernels {

/// An element of the result adds its products in ascending order within runs of 256, and the runs
/// in ascending order: its bits depend on its own row and column alone, not on sizes or threads.
class PackedMatmul {
 public:
  /// `num_threads`: of the team that will run it.
  PackedMatmul(const MatmulShape& shape, int num_threads, const IsaKernels& isa);

  [[nodiscard]] std::int64_t scratch_bytes() const;
  /// As Matmul::run.
  void run(const void* a, const void* b, const void* bias, void* out, void* scratch) const;

 private:
  /// out[rows, columns] = sum over depth; also a place in it.
  struct Sizes {
    std::int64_t rows = 0;
    std::int64_t columns = 0;
    std::int64_t depth = 0;
  };
  struct Scratch;
  template <typename T>
  struct Operands;

  [[nodiscard]] bool is_a_transposed() const { return shape_.kind == MatmulKind::kWeightGrad; }
  /// The result is bf16.
  [[nodiscard]] bool is_narrow() const {
    return shape_.dtype == DType::kBf16 && shape_.kind != MatmulKind::kWeightGrad;
  }
  [[nodiscard]] bool has_partial() const;
  [[nodiscard]] Scratch cut(void* scratch) const;
  template <typename T>
  void run_rows(const Operands<T>& operands, const Scratch& scratch, std::int64_t origin,
                std::int64_t end) const;
  template <typename T>
  void run_as(const Operands<T>& operands, const Scratch& scratch) const;
  /// Packs B from `at` on, by all threads of the team.
  template <typename T>
  void pack(const Operands<T>& operands, const Sizes& at, const Scratch& scratch) const;
  /// Multiplies rows [at.rows, last_row) of A by the packed B; `origin` is the first row of the
  /// partial sums.
  template <typename T>
  void multiply(const Operands<T>& operands, const Sizes& at, std::int64_t last_row,
                std::int64_t origin, const Scratch& scratch) const;

  MatmulShape shape_;
  Sizes sizes_;
  int num_threads_;
  const IsaKernels& isa_;
  std::int64_t block_rows_;
};

}  // namespace trireme::kernels
