// Which vector instruction set the kernels use. Every kernel that has vector code is compiled once
// per set; the fastest one that this CPU runs is chosen once, by CPUID.
#pragma once

#include <string_view>
#include <vector>

namespace trireme::kernels {

/// One compiled set of inner kernels (the members are in isa_kernels.h, private to this layer).
struct IsaKernels;

/// The best set for this CPU. Never changes within a process. Default of every kernel's `isa`.
[[nodiscard]] const IsaKernels& isa_kernels();

/// Every set that this CPU can run, slowest first, so that tests can compare them.
[[nodiscard]] std::vector<const IsaKernels*> supported_isa_kernels();

/// "sse2", "avx2" or "avx512". Kernel results are bitwise reproducible only within one set.
[[nodiscard]] std::string_view isa_name(const IsaKernels& isa = isa_kernels());

}  // namespace trireme::kernels
