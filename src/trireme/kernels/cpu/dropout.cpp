#include "trireme/kernels/cpu/dropout.h"

#include "trireme/kernels/cpu/parallel.h"

namespace trireme::kernels {

template <typename T>
void dropout_forward(const DropoutShape& shape, const DropoutSite& site, const T* x, T* out,
                     const IsaKernels& isa) {
  TRI_CHECK(site.p >= 0 && site.p < 1);
  parallel_rows(shape.num_tokens, shape.channels,
                [&](Range tokens) { isa.typed<T>().dropout(shape, site, x, out, tokens); });
}

template void dropout_forward(const DropoutShape&, const DropoutSite&, const float*, float*,
                              const IsaKernels&);
template void dropout_forward(const DropoutShape&, const DropoutSite&, const Bf16*, Bf16*,
                              const IsaKernels&);

}  // namespace trireme::kernels
