#include "trireme/kernels/cpu/activation.h"

#include "trireme/kernels/cpu/parallel.h"

namespace trireme::kernels {

void swiglu_forward(const ActivationShape& shape, const float* gate_up, float* act,
                    const IsaKernels& isa) {
  parallel_rows(shape.num_tokens, shape.ffn,
                [&](Range tokens) { isa.swiglu_forward(shape.ffn, gate_up, act, tokens); });
}

void swiglu_backward(const ActivationShape& shape, const float* gate_up, const float* d_act,
                     float* d_gate_up, const IsaKernels& isa) {
  parallel_rows(shape.num_tokens, shape.ffn, [&](Range tokens) {
    isa.swiglu_backward(shape.ffn, gate_up, d_act, d_gate_up, tokens);
  });
}

void gelu_forward(const ActivationShape& shape, const float* x, float* act, const IsaKernels& isa) {
  parallel_ranges(shape.num_tokens * shape.ffn, kElementwiseGrain,
                  [&](Range elems) { isa.gelu_forward(x, act, elems); });
}

void gelu_backward(const ActivationShape& shape, const float* x, const float* d_act, float* dx,
                   const IsaKernels& isa) {
  parallel_ranges(shape.num_tokens * shape.ffn, kElementwiseGrain,
                  [&](Range elems) { isa.gelu_backward(x, d_act, dx, elems); });
}

}  // namespace trireme::kernels
