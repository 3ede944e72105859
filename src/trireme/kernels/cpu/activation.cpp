#include "trireme/kernels/cpu/activation.h"

#include "trireme/kernels/cpu/parallel.h"

namespace trireme::kernels {

template <typename T>
void swiglu_forward(const ActivationShape& shape, const T* gate_up, T* act, const IsaKernels& isa) {
  parallel_rows(shape.num_tokens, shape.ffn, [&](Range tokens) {
    isa.typed<T>().swiglu_forward(shape.ffn, gate_up, act, tokens);
  });
}

template <typename T>
void swiglu_backward(const ActivationShape& shape, const T* gate_up, const T* d_act, T* d_gate_up,
                     const IsaKernels& isa) {
  parallel_rows(shape.num_tokens, shape.ffn, [&](Range tokens) {
    isa.typed<T>().swiglu_backward(shape.ffn, gate_up, d_act, d_gate_up, tokens);
  });
}

template <typename T>
void gelu_forward(const ActivationShape& shape, const T* x, T* act, const IsaKernels& isa) {
  parallel_ranges(shape.num_tokens * shape.ffn, kElementwiseGrain,
                  [&](Range elems) { isa.typed<T>().gelu_forward(x, act, elems); });
}

template <typename T>
void gelu_backward(const ActivationShape& shape, const T* x, const T* d_act, T* dx,
                   const IsaKernels& isa) {
  parallel_ranges(shape.num_tokens * shape.ffn, kElementwiseGrain,
                  [&](Range elems) { isa.typed<T>().gelu_backward(x, d_act, dx, elems); });
}

template void swiglu_forward(const ActivationShape&, const float*, float*, const IsaKernels&);
template void swiglu_backward(const ActivationShape&, const float*, const float*, float*,
                              const IsaKernels&);
template void gelu_forward(const ActivationShape&, const float*, float*, const IsaKernels&);
template void gelu_backward(const ActivationShape&, const float*, const float*, float*,
                            const IsaKernels&);
template void swiglu_forward(const ActivationShape&, const Bf16*, Bf16*, const IsaKernels&);
template void swiglu_backward(const ActivationShape&, const Bf16*, const Bf16*, Bf16*,
                              const IsaKernels&);
template void gelu_forward(const ActivationShape&, const Bf16*, Bf16*, const IsaKernels&);
template void gelu_backward(const ActivationShape&, const Bf16*, const Bf16*, Bf16*,
                            const IsaKernels&);

}  // namespace trireme::kernels
