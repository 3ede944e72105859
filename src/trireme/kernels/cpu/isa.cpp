#include "trireme/kernels/cpu/isa.h"

#include "trireme/kernels/cpu/vector/isa_kernels.h"

namespace trireme::kernels {

std::vector<const IsaKernels*> supported_isa_kernels() {
  std::vector<const IsaKernels*> supported = {&kSse2Kernels};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    supported.push_back(&kAvx2Kernels);
  }
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) {
    supported.push_back(&kAvx512Kernels);
  }
  return supported;
}

const IsaKernels& isa_kernels() {
  static const IsaKernels* const best = supported_isa_kernels().back();
  return *best;
}

std::string_view isa_name(const IsaKernels& isa) {
  return isa.name;
}

}  // namespace trireme::kernels
