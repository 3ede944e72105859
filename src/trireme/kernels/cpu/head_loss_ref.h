// Slow reference of the output head and its loss. Test only. Letters: N tokens, C hidden, V vocab.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "trireme/kernels/cpu/head_loss.h"
#include "trireme/kernels/cpu/test_support.h"

namespace trireme::kernels {

struct HeadRef {
  double loss = 0;
  Doubles dx, dw;
};
/// fp64, every logit at once.
[[nodiscard]] inline HeadRef head_ref(const HeadLossShape& s, const Doubles& x, const Doubles& w,
                                      const std::vector<std::int32_t>& labels, double inv_tokens) {
  const auto hidden = static_cast<std::size_t>(s.hidden), vocab = static_cast<std::size_t>(s.vocab);
  HeadRef ref = {0, Doubles(x.size()), Doubles(w.size())};
  for (std::size_t n = 0; n < labels.size(); ++n) {
    if (labels[n] < 0) continue;
    Doubles logits(vocab);
    for (std::size_t j = 0; j < vocab; ++j) {
      for (std::size_t c = 0; c < hidden; ++c) logits[j] += x[n * hidden + c] * w[j * hidden + c];
    }
    const double largest = *std::max_element(logits.begin(), logits.end());
    double sum = 0;
    for (double& logit : logits) sum += std::exp(logit -= largest);
    const auto label = static_cast<std::size_t>(labels[n]);
    ref.loss += std::log(sum) - logits[label];
    for (std::size_t j = 0; j < vocab; ++j) {
      const double gradient = (std::exp(logits[j]) / sum - (j == label ? 1 : 0)) * inv_tokens;
      for (std::size_t c = 0; c < hidden; ++c) {
        ref.dx[n * hidden + c] += gradient * w[j * hidden + c];
        ref.dw[j * hidden + c] += gradient * x[n * hidden + c];
      }
    }
  }
  return ref;
}

}  // namespace trireme::kernels
