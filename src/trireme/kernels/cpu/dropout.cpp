#include "trireme/kernels/cpu/dropout.h"

#include "trireme/kernels/cpu/parallel.h"

namespace trireme::kernels {

void dropout_forward(const DropoutShape& shape, const DropoutSite& site, const float* x, float* out,
                     const IsaKernels& isa) {
  TRI_CHECK(site.p >= 0 && site.p < 1);
  parallel_rows(shape.num_tokens, shape.channels,
                [&](Range tokens) { isa.dropout(shape, site, x, out, tokens); });
}

}  // namespace trireme::kernels
