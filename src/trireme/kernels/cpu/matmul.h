// fp32 matrix products of a linear layer (oneDNN). Letters: M tokens, N outputs, K inputs.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

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

  bool operator==(const MatmulShape&) const = default;
};

/// One matrix product of fixed shape over dense row-major fp32 operands. Create it at load, in the
/// rank's thread, after its OpenMP thread count is set: the count is baked in. Bitwise reproducible
/// for equal shape, threads, instruction set and oneDNN version; another thread count may split a
/// sum otherwise (gemm:jit does, for few rows and a long sum). An object belongs to one thread at
/// a time; several objects may run at once, each with its own scratch.
class Matmul {
 public:
  /// Throws UsageError unless all sizes are >= 1 and bias goes with kForward. About 2 ms for a new
  /// shape, 12 us for one that the library has cached.
  explicit Matmul(const MatmulShape& shape);
  ~Matmul();
  Matmul(const Matmul&) = delete;
  Matmul& operator=(const Matmul&) = delete;
  Matmul(Matmul&&) noexcept;
  Matmul& operator=(Matmul&&) noexcept;

  [[nodiscard]] const MatmulShape& shape() const;
  /// Bytes that `scratch` of run() must have; may be 0. Align the buffer to 64 bytes.
  [[nodiscard]] std::int64_t scratch_bytes() const;
  /// oneDNN's name of the chosen implementation, such as "gemm:jit".
  [[nodiscard]] std::string implementation() const;

  /// `bias` is read only when shape().bias, `scratch` only when scratch_bytes() > 0. `out` must not
  /// overlap the inputs. 2*m*n*k FLOPs. Our side allocates nothing; oneDNN itself does.
  void run(const float* a, const float* b, const float* bias, float* out, void* scratch);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Creates one primitive. Call it in main before rank threads start: the first creation initialises
/// library state that thread sanitizer otherwise reports as a race.
void warm_up_matmul();

/// Version of oneDNN at run time, such as "oneDNN 2.6.3".
[[nodiscard]] std::string matmul_library_version();

/// oneDNN's effective instruction set, such as "avx2" or "avx512_core_amx".
[[nodiscard]] std::string matmul_instruction_set();

}  // namespace trireme::kernels
