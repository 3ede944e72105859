// Attention of the pieces of a sequence that one rank holds: with all ranks' keys at once, and with
// one rank's keys after the other's.
#include <algorithm>
#include <vector>

#include "trireme/base/bf16.h"
#include "trireme/kernels/cpu/attention_ref.h"
#include "trireme/kernels/cpu/test_support.h"

namespace trireme::kernels {
namespace {

constexpr std::int64_t kSamples[] = {7, 0x100000003};

struct PiecesCase {
  std::int64_t seq_len;
  int num_ranks;
  float dropout;
};

Floats rounded(Floats values) {
  for (float& value : values) value = to_float(to_bf16(value));
  return values;
}

/// Values that bf16 holds as they are.
Floats inputs(std::int64_t count, std::uint64_t seed) {
  return rounded(random_floats(count, seed));
}

/// A sequence, its reference, and what each of the ranks holds of it.
class Sequence {
 public:
  explicit Sequence(const PiecesCase& test)
      : num_ranks_(test.num_ranks),
        whole_{.batch = 2,
               .seq_len = test.seq_len,
               .heads = 4,
               .kv_heads = 2,
               .head_dim = 20,
               .cache_rows = test.seq_len,
               .kv_len = test.seq_len,
               .first_head = 3},
        site_{.key = 99, .p = test.dropout, .samples = kSamples},
        q_(inputs(2 * 4 * test.seq_len * 20, 1)),
        k_(inputs(2 * 2 * test.seq_len * 20, 2)),
        v_(inputs(2 * 2 * test.seq_len * 20, 3)),
        d_o_(inputs(2 * 4 * test.seq_len * 20, 4)) {
    const AttentionInputs in{widened(q_), widened(k_), widened(v_)};
    out_ = attention_forward_ref(whole_, in, site_);
    grad_ = attention_backward_ref(whole_, in, widened(d_o_), site_);
    // As in attention_test.cpp: the exponential makes a score's error a probability's.
    const double score = largest_magnitude(in.q) * largest_magnitude(in.k);
    tolerance_ = sum_tolerance(20.0 + static_cast<double>(test.seq_len), 1 + score) *
                 largest_magnitude(in.v);
  }

  [[nodiscard]] int num_ranks() const { return num_ranks_; }
  [[nodiscard]] TokenPieces pieces(int rank) const {
    return zigzag_pieces(whole_.seq_len, num_ranks_, rank);
  }
  /// A rank's queries, and no keys yet.
  [[nodiscard]] AttentionShape shape(int rank) const {
    AttentionShape shape = whole_;
    shape.seq_len = shape.cache_rows = shape.kv_len = whole_.seq_len / num_ranks_;
    shape.queries = pieces(rank);
    return shape;
  }
  [[nodiscard]] Floats q(int rank) const { return rows(q_, rank, whole_.head_dim); }
  [[nodiscard]] Floats k(int rank) const { return rows(k_, rank, whole_.head_dim); }
  [[nodiscard]] Floats v(int rank) const { return rows(v_, rank, whole_.head_dim); }
  [[nodiscard]] Floats d_o(int rank) const { return rows(d_o_, rank, output_width()); }
  [[nodiscard]] const DropoutSite& site() const { return site_; }

  void expect_output(const Floats& o, const Floats& lse, int rank) const {
    expect_near(o, rows(out_.o, rank, output_width()), tolerance_, "o");
    expect_near(lse, rows(out_.lse, rank, 1), 2 * tolerance_, "lse");
  }
  void expect_dq(const Floats& dq, int rank) const { expect(dq, grad_.dq, rank, "dq"); }
  void expect_dk(const Floats& dk, int rank) const { expect(dk, grad_.dk, rank, "dk"); }
  void expect_dv(const Floats& dv, int rank) const { expect(dv, grad_.dv, rank, "dv"); }

 private:
  void expect(const Floats& value, const Doubles& all, int rank, const char* name) const {
    expect_near(value, rows(all, rank, whole_.head_dim),
                2 * tolerance_ * (1 + largest_magnitude(all)), name);
  }
  [[nodiscard]] std::int64_t output_width() const { return whole_.heads * whole_.head_dim; }
  /// A rank's rows of [..., T, width].
  template <typename T>
  [[nodiscard]] std::vector<T> rows(const std::vector<T>& all, int rank, std::int64_t width) const {
    const std::int64_t seq = whole_.seq_len;
    std::vector<T> own;
    for (std::int64_t outer = 0; outer < std::ssize(all) / (seq * width); ++outer) {
      for (std::int64_t t = 0; t < seq / num_ranks_; ++t) {
        const auto row = all.begin() + (outer * seq + pieces(rank).position(t)) * width;
        own.insert(own.end(), row, row + width);
      }
    }
    return own;
  }

  int num_ranks_;
  AttentionShape whole_;
  DropoutSite site_;
  Floats q_, k_, v_, d_o_;
  AttentionRef out_;
  AttentionGradRef grad_;
  double tolerance_ = 0;
};

void add_to(Floats& sum, const Floats& x) {
  for (std::size_t i = 0; i < x.size(); ++i) sum[i] += x[i];
}

/// One array after the other.
Floats joined(const std::vector<Floats>& parts) {
  Floats all;
  for (const Floats& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

std::vector<Bf16> narrowed(const Floats& values) {
  std::vector<Bf16> narrow;
  for (const float value : values) narrow.push_back(to_bf16(value));
  return narrow;
}

class AttentionPieces : public IsaTest {
 protected:
  static std::vector<PiecesCase> cases() {
    return {{8, 2, 0},      {12, 3, 0.3F},   {24, 4, 0},  {264, 2, 0},
            {264, 2, 0.3F}, {420, 3, 0.25F}, {512, 4, 0}, {512, 4, 0.3F}};
  }
};
TRI_FOR_EACH_ISA(AttentionPieces);

TEST_P(AttentionPieces, WithAllRanksKeysEqualTheReference) {
  for (const PiecesCase& test : cases()) {
    SCOPED_TRACE(testing::Message() << test.seq_len << " over " << test.num_ranks);
    const Sequence sequence(test);
    std::vector<Floats> all_k, all_v;
    for (int rank = 0; rank < test.num_ranks; ++rank) {
      all_k.push_back(sequence.k(rank));
      all_v.push_back(sequence.v(rank));
    }
    const Floats k = joined(all_k), v = joined(all_v);
    Floats dk_sum(k.size()), dv_sum(v.size());
    for (int rank = 0; rank < test.num_ranks; ++rank) {
      AttentionShape shape = sequence.shape(rank);
      shape.num_key_ranks = test.num_ranks;
      const Floats q = sequence.q(rank), d_o = sequence.d_o(rank);
      const auto count = static_cast<std::int64_t>(q.size());
      Floats o = unwritten(count), lse = unwritten(count / 20), dq = o;
      Floats dk = unwritten(static_cast<std::int64_t>(k.size())), dv = dk;
      Scratch scratch(attention_backward_scratch_bytes(shape, omp_get_max_threads()) +
                      attention_forward_scratch_bytes(shape, omp_get_max_threads()));
      attention_forward(shape,
                        {.q = q.data(),
                         .k = k.data(),
                         .v = v.data(),
                         .o = o.data(),
                         .lse = lse.data(),
                         .dropout = sequence.site(),
                         .scratch = scratch.at()},
                        isa());
      sequence.expect_output(o, lse, rank);
      attention_backward(shape,
                         {.q = q.data(),
                          .k = k.data(),
                          .v = v.data(),
                          .o = o.data(),
                          .lse = lse.data(),
                          .d_o = d_o.data(),
                          .dq = dq.data(),
                          .dk = dk.data(),
                          .dv = dv.data(),
                          .dropout = sequence.site(),
                          .scratch = scratch.at()},
                         isa());
      sequence.expect_dq(dq, rank);
      add_to(dk_sum, dk);
      add_to(dv_sum, dv);
    }
    const auto shard = static_cast<std::ptrdiff_t>(k.size()) / test.num_ranks;
    for (int rank = 0; rank < test.num_ranks; ++rank) {
      sequence.expect_dk({dk_sum.begin() + rank * shard, dk_sum.begin() + (rank + 1) * shard},
                         rank);
      sequence.expect_dv({dv_sum.begin() + rank * shard, dv_sum.begin() + (rank + 1) * shard},
                         rank);
    }
  }
}

/// What one rank computes from its own keys, then those of the rank before it, and so on.
template <typename T>
struct Ring {
  Ring(const Sequence& sequence, int rank, const IsaKernels& isa, bool rounds_o = false)
      : sequence_(sequence), isa_(isa) {
    shape = sequence.shape(rank);
    q = convert(sequence.q(rank));
    const auto count = static_cast<std::int64_t>(q.size());
    partial = unwritten(count), lse = unwritten(count / 20), dq = partial;
    for (int step = 0; step < sequence.num_ranks(); ++step) forward(source(rank, step), step > 0);
    o = convert(rounds_o ? rounded(partial) : partial), d_o = convert(sequence.d_o(rank));
    dk.resize(static_cast<std::size_t>(sequence.num_ranks()));
    dv.resize(dk.size());
    for (int step = 0; step < sequence.num_ranks(); ++step) backward(source(rank, step), step > 0);
  }

  [[nodiscard]] int source(int rank, int step) const {
    return (rank - step + sequence_.num_ranks()) % sequence_.num_ranks();
  }
  static std::vector<T> convert(const Floats& values) {
    if constexpr (std::is_same_v<T, Bf16>) {
      return narrowed(values);
    } else {
      return values;
    }
  }

  void forward(int source, bool merges) {
    shape.keys = sequence_.pieces(source);
    const std::vector<T> k = convert(sequence_.k(source)), v = convert(sequence_.v(source));
    Scratch scratch(attention_forward_scratch_bytes<T>(shape, omp_get_max_threads()));
    attention_forward<T>(shape,
                         {.q = q.data(),
                          .k = k.data(),
                          .v = v.data(),
                          .lse = lse.data(),
                          .partial = partial.data(),
                          .merges = merges,
                          .dropout = sequence_.site(),
                          .scratch = scratch.at()},
                         isa_);
  }

  void backward(int source, bool accumulates) {
    shape.keys = sequence_.pieces(source);
    const std::vector<T> k = convert(sequence_.k(source)), v = convert(sequence_.v(source));
    Floats& dk_partial = dk[static_cast<std::size_t>(source)];
    Floats& dv_partial = dv[static_cast<std::size_t>(source)];
    dk_partial = dv_partial = unwritten(static_cast<std::int64_t>(k.size()));
    Scratch scratch(attention_backward_scratch_bytes<T>(shape, omp_get_max_threads()));
    attention_backward<T>(shape,
                          {.q = q.data(),
                           .k = k.data(),
                           .v = v.data(),
                           .o = o.data(),
                           .lse = lse.data(),
                           .d_o = d_o.data(),
                           .dq_partial = dq.data(),
                           .dk_partial = dk_partial.data(),
                           .dv_partial = dv_partial.data(),
                           .accumulates_dq = accumulates,
                           .dropout = sequence_.site(),
                           .scratch = scratch.at()},
                          isa_);
  }

  const Sequence& sequence_;
  const IsaKernels& isa_;
  AttentionShape shape;
  std::vector<T> q, o, d_o;
  Floats partial, lse, dq;
  std::vector<Floats> dk, dv;  ///< by source
};

TEST_P(AttentionPieces, WithOneRanksKeysAfterTheOthersEqualTheReference) {
  for (const PiecesCase& test : cases()) {
    SCOPED_TRACE(testing::Message() << test.seq_len << " over " << test.num_ranks);
    const Sequence sequence(test);
    std::vector<Floats> dk(static_cast<std::size_t>(test.num_ranks)), dv = dk;
    for (int rank = 0; rank < test.num_ranks; ++rank) {
      const Ring<float> ring(sequence, rank, isa());
      sequence.expect_output(ring.partial, ring.lse, rank);
      sequence.expect_dq(ring.dq, rank);
      for (std::size_t source = 0; source < dk.size(); ++source) {
        dk[source].resize(ring.dk[source].size());
        dv[source].resize(ring.dv[source].size());
        add_to(dk[source], ring.dk[source]);
        add_to(dv[source], ring.dv[source]);
      }
    }
    for (int rank = 0; rank < test.num_ranks; ++rank) {
      sequence.expect_dk(dk[static_cast<std::size_t>(rank)], rank);
      sequence.expect_dv(dv[static_cast<std::size_t>(rank)], rank);
    }
  }
}

TEST_P(AttentionPieces, OfBf16AreMergedInFp32) {
  const Sequence sequence({420, 3, 0.3F});
  for (int rank = 0; rank < 3; ++rank) {
    const Ring<Bf16> narrow(sequence, rank, isa());
    const Ring<float> wide(sequence, rank, isa(), true);
    expect_same_bits(narrow.partial, wide.partial, "o");
    expect_same_bits(narrow.lse, wide.lse, "lse");
    expect_same_bits(narrow.dq, wide.dq, "dq");
    for (std::size_t source = 0; source < narrow.dk.size(); ++source) {
      expect_same_bits(narrow.dk[source], wide.dk[source], "dk");
      expect_same_bits(narrow.dv[source], wide.dv[source], "dv");
    }
  }
}

}  // namespace
}  // namespace trireme::kernels
