// Matrix products of a linear layer. Letters: M tokens, N outputs, K inputs.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "trireme/base/dtype.h"

namespace trireme::kernels {

enum class MatmulKind : std::uint8_t {
  kForward,     ///< y[M,N] = x[M,K] * w[N,K]^T (+ bias[N]); a = x, b = w
  kInputGrad,   ///< dx[M,K] = dy[M,N] * w[N,K];             a = dy, b = w
  kWeightGrad,  ///< dw[N,K] = dy[M,N]^T * x[M,K];           a = dy, b = x
};

/// M, N and K name the linear layer's sizes, the same for its three products.
struct MatmulShape {
  MatmulKind kind = MatmulKind::kForward;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  bool accumulate = false;  ///< out += product; other numerics than a write onto zero
  bool bias = false;        ///< kForward only
  /// kF32, or kBf16: all but the weight gradient, which is fp32. Sums are fp32.
  DType dtype = DType::kF32;

  bool operator==(const MatmulShape&) const = default;
};

/// Who multiplies.
enum class MatmulEngine : std::uint8_t {
  kBest,     ///< oneDNN, but packed for bf16 where !has_bf16_products()
  kLibrary,  ///< oneDNN; bf16 where has_bf16_products()
  kPacked,   ///< packed_matmul.h: fp32 arithmetic, bf16 is widened on the way in
};

/// One matrix product of fixed shape over dense row-major operands. Create it at load, in the
/// rank's thread, after its OpenMP thread count is set: the count is baked in. Bitwise reproducible
/// for equal shape, threads, instruction set and oneDNN version; with oneDNN another thread count
/// may split a sum otherwise (gemm:jit does, for few rows and a long sum). An object belongs to one
/// thread at a time; several objects may run at once, each with its own scratch.
class Matmul {
 public:
  /// Throws UsageError unless all sizes are >= 1 and bias goes with kForward. About 2 ms for a new
  /// shape, 12 us for one that the library has cached.
  explicit Matmul(const MatmulShape& shape, MatmulEngine engine = MatmulEngine::kBest);
  ~Matmul();
  Matmul(const Matmul&) = delete;
  Matmul& operator=(const Matmul&) = delete;
  Matmul(Matmul&&) noexcept;
  Matmul& operator=(Matmul&&) noexcept;

  [[nodiscard]] const MatmulShape& shape() const { return shape_; }
  /// Bytes that `scratch` of run() must have; may be 0. Align the buffer to 64 bytes.
  [[nodiscard]] std::int64_t scratch_bytes() const;
  /// Name of the chosen implementation: "packed:avx2", or oneDNN's, such as "gemm:jit".
  [[nodiscard]] std::string implementation() const;

  /// `bias` is read only when shape().bias, `scratch` only when scratch_bytes() > 0. `out` must not
  /// overlap the inputs. 2*m*n*k FLOPs. Our side allocates nothing; oneDNN itself does.
  void run(const void* a, const void* b, const void* bias, void* out, void* scratch);

  struct Impl;

 private:
  MatmulShape shape_;
  std::unique_ptr<Impl> impl_;
};

/// Creates one primitive. Call it in main before rank threads start: the first creation initialises
/// library state that thread sanitizer otherwise reports as a race.
void warm_up_matmul();

/// Version of oneDNN at run time, such as "oneDNN 2.6.3".
[[nodiscard]] std::string matmul_library_version();

/// oneDNN multiplies bf16 here: there is AMX, or the AVX-512 instructions for it (AMD from Zen 4
/// on, where they do twice the FLOPs of fp32).
[[nodiscard]] bool has_bf16_products();

/// How products of bf16 operands are computed on this machine: "bf16 (AMX)", "bf16 (AVX-512)" or
/// "fp32 (no bf16 instructions)".
[[nodiscard]] std::string bf16_matmul_arithmetic();

/// oneDNN's effective instruction set, such as "avx2" or "avx512_core_amx".
[[nodiscard]] std::string matmul_instruction_set();

}  // namespace trireme::kernels
