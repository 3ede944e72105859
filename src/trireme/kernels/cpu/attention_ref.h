// Slow fp64 attention that stores everything. Test only.
#pragma once

#include "trireme/kernels/cpu/attention.h"
#include "trireme/kernels/cpu/test_support.h"

namespace trireme::kernels {

/// Dropout factor of one probability, from the scalar generator of base/.
[[nodiscard]] inline double probability_factor_ref(const AttentionShape& shape,
                                                   const DropoutSite& site, std::int64_t sample_row,
                                                   std::int64_t head, std::int64_t query,
                                                   std::int64_t key) {
  if (site.p == 0) return 1;
  const auto sample = static_cast<std::uint64_t>(site.samples[sample_row]);
  const auto global_head = static_cast<std::uint32_t>(shape.first_head + head);
  const PhiloxBlock bits =
      philox(site.key, {static_cast<std::uint32_t>(query / 64 * 16 + query % 16),
                        static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(sample),
                        (static_cast<std::uint32_t>(sample >> 32) << 16) | global_head});
  const float uniform = uniform_from_bits(bits[static_cast<std::size_t>(query / 16 % 4)]);
  return uniform >= site.p ? 1.0 / (1.0 - static_cast<double>(site.p)) : 0.0;
}

struct AttentionInputs {
  Doubles q, k, v;
};
struct AttentionRef {
  Doubles o, lse;
};
struct AttentionGradRef {
  Doubles dq, dk, dv;
};

/// Walks every (sample, head, query): body(query row of q, kv row of key 0, position, lse index,
/// o index).
struct QueryAt {
  std::int64_t sample, head, t, q_at, kv_at, o_at, row, position;
};
inline void for_each_query(const AttentionShape& s,
                           const std::function<void(const QueryAt&)>& body) {
  for (std::int64_t b = 0; b < s.batch; ++b) {
    for (std::int64_t h = 0; h < s.heads; ++h) {
      for (std::int64_t t = 0; t < s.seq_len; ++t) {
        const std::int64_t row = (b * s.heads + h) * s.seq_len + t;
        const std::int64_t kv_head = h / (s.heads / s.kv_heads);
        body({b, h, t, row * s.head_dim, (b * s.kv_heads + kv_head) * s.cache_rows * s.head_dim,
              ((b * s.seq_len + t) * s.heads + h) * s.head_dim, row, s.queries.position(t)});
      }
    }
  }
}

inline double& at(Doubles& values, std::int64_t index) {
  return values[static_cast<std::size_t>(index)];
}
inline double at(const Doubles& values, std::int64_t index) {
  return values[static_cast<std::size_t>(index)];
}

/// Softmax probabilities of one query over the keys that it sees, and their log denominator.
[[nodiscard]] inline Doubles probabilities_ref(const AttentionShape& s, const AttentionInputs& in,
                                               const QueryAt& query, double* lse) {
  Doubles scores;
  const std::int64_t num_keys = std::min(s.kv_len, query.position + 1);
  for (std::int64_t key = 0; key < num_keys; ++key) {
    double score = 0;
    for (std::int64_t d = 0; d < s.head_dim; ++d) {
      score += at(in.q, query.q_at + d) * at(in.k, query.kv_at + key * s.head_dim + d);
    }
    scores.push_back(score / std::sqrt(static_cast<double>(s.head_dim)));
  }
  double sum = 0;
  for (const double score : scores) sum += std::exp(score);
  for (double& score : scores) score = std::exp(score) / sum;
  *lse = std::log(sum);
  return scores;
}

[[nodiscard]] inline AttentionRef attention_forward_ref(const AttentionShape& s,
                                                        const AttentionInputs& in,
                                                        const DropoutSite& site) {
  AttentionRef ref = {Doubles(in.q.size()),
                      Doubles(in.q.size() / static_cast<std::size_t>(s.head_dim))};
  for_each_query(s, [&](const QueryAt& query) {
    const Doubles probs = probabilities_ref(s, in, query, &at(ref.lse, query.row));
    for (std::int64_t key = 0; key < static_cast<std::int64_t>(probs.size()); ++key) {
      const double prob = at(probs, key) * probability_factor_ref(s, site, query.sample, query.head,
                                                                  query.position, key);
      for (std::int64_t d = 0; d < s.head_dim; ++d) {
        at(ref.o, query.o_at + d) += prob * at(in.v, query.kv_at + key * s.head_dim + d);
      }
    }
  });
  return ref;
}

[[nodiscard]] inline AttentionGradRef attention_backward_ref(const AttentionShape& s,
                                                             const AttentionInputs& in,
                                                             const Doubles& d_o,
                                                             const DropoutSite& site) {
  AttentionGradRef ref = {Doubles(in.q.size()), Doubles(in.k.size()), Doubles(in.v.size())};
  const double scale = 1 / std::sqrt(static_cast<double>(s.head_dim));
  for_each_query(s, [&](const QueryAt& query) {
    double lse = 0;
    const Doubles probs = probabilities_ref(s, in, query, &lse);
    Doubles d_probs(probs.size());
    double weighted = 0;
    for (std::int64_t key = 0; key < static_cast<std::int64_t>(probs.size()); ++key) {
      const double factor =
          probability_factor_ref(s, site, query.sample, query.head, query.position, key);
      const std::int64_t row = query.kv_at + key * s.head_dim;
      for (std::int64_t d = 0; d < s.head_dim; ++d) {
        at(d_probs, key) += factor * at(d_o, query.o_at + d) * at(in.v, row + d);
        at(ref.dv, row + d) += factor * at(probs, key) * at(d_o, query.o_at + d);
      }
      weighted += at(d_probs, key) * at(probs, key);
    }
    for (std::int64_t key = 0; key < static_cast<std::int64_t>(probs.size()); ++key) {
      const double d_score = at(probs, key) * (at(d_probs, key) - weighted) * scale;
      const std::int64_t row = query.kv_at + key * s.head_dim;
      for (std::int64_t d = 0; d < s.head_dim; ++d) {
        at(ref.dq, query.q_at + d) += d_score * at(in.k, row + d);
        at(ref.dk, row + d) += d_score * at(in.q, query.q_at + d);
      }
    }
  });
  return ref;
}

}  // namespace trireme::kernels
