// The inner kernels compiled for one instruction set; CMakeLists.txt gives this file its flags.
// Nothing here may define an inline function with external linkage: the linker could take this
// file's copy for the whole program and so run vector code on a CPU that lacks it.
#include <cstdint>
#include <immintrin.h>

#include "trireme/kernels/cpu/vector/isa_kernels.h"

#define TRI_INLINE [[gnu::always_inline]] inline

namespace trireme::kernels {
namespace {
// The order matters.
// clang-format off
#include "trireme/kernels/cpu/vector/simd_avx2.inc"
#include "trireme/kernels/cpu/vector/kernels.inc"
// clang-format on
}  // namespace

constinit const IsaKernels kAvx2Kernels = kernels_of("avx2");

}  // namespace trireme::kernels
