// Activations of the feed-forward part. Letters: N tokens, F ffn; T is float or Bf16.
#pragma once

#include <cstdint>

#include "trireme/kernels/cpu/isa.h"

namespace trireme::kernels {

struct ActivationShape {
  std::int64_t num_tokens = 0;
  std::int64_t ffn = 0;
};

/// act[N,F] = silu(gate) * up, gate_up [N,2F] with the gate first (Shazeer 2020, arXiv:2002.05202,
/// eq. 6).
template <typename T>
void swiglu_forward(const ActivationShape& shape, const T* gate_up, T* act,
                    const IsaKernels& isa = isa_kernels());
/// d_gate_up[N,2F] from d_act[N,F]; may be gate_up itself.
template <typename T>
void swiglu_backward(const ActivationShape& shape, const T* gate_up, const T* d_act, T* d_gate_up,
                     const IsaKernels& isa = isa_kernels());

/// act[N,F] = gelu(x), tanh form: x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))) (Hendrycks,
/// Gimpel 2016, arXiv:1606.08415, §2).
template <typename T>
void gelu_forward(const ActivationShape& shape, const T* x, T* act,
                  const IsaKernels& isa = isa_kernels());
/// dx[N,F] from d_act[N,F]; may be x or d_act.
template <typename T>
void gelu_backward(const ActivationShape& shape, const T* x, const T* d_act, T* dx,
                   const IsaKernels& isa = isa_kernels());

}  // namespace trireme::kernels
