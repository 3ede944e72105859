// Random programs: everything that is built verifies, places well and parses back.
#include <random>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "trireme/program/place.h"
#include "trireme/program/test_programs.h"
#include "trireme/program/text.h"
#include "trireme/program/verify.h"

namespace trireme {
namespace {

class Draw {
 public:
  explicit Draw(unsigned seed) : engine_(seed) {}
  template <typename T>
  T one_of(std::vector<T> values) {
    return values[static_cast<std::size_t>(between(0, static_cast<int>(values.size()) - 1))];
  }
  int between(int low, int high) { return std::uniform_int_distribution<int>(low, high)(engine_); }
  bool coin() { return between(0, 1) == 1; }

 private:
  std::mt19937 engine_;
};

/// Odd and tiny sizes on purpose: parameters of 1 and 3 elements, shards of padding only.
ModelSpec random_spec(Draw& draw) {
  ModelSpec spec;
  const bool is_llama = draw.coin();
  spec.family = is_llama ? Family::kLlama : Family::kGpt2;
  spec.layers = draw.between(1, 3);
  spec.vocab = draw.between(1, 40);
  spec.max_seq = draw.between(4, 16);
  if (is_llama) {
    spec.kv_heads = draw.between(1, 2);
    spec.heads = spec.kv_heads * draw.between(1, 3);
    spec.head_dim = 2 * draw.between(1, 3);
    spec.hidden = draw.one_of<int>({1, 3, 5, 8, 12});
    spec.ffn = draw.between(1, 20);
    spec.qk_norm = draw.coin();
    spec.qkv_bias = draw.coin();
    spec.tied = draw.coin();
  } else {
    spec.heads = draw.between(1, 3);
    spec.hidden = spec.heads * draw.between(1, 4);
    spec.tied = true;
    spec.dropout = draw.coin() ? 0.1 : 0.0;
  }
  return resolved(spec);
}

BuildRequest random_request(Draw& draw) {
  const ModelSpec spec = random_spec(draw);
  Layout layout;
  layout.dp = draw.between(1, 8);
  layout.zero = draw.between(0, 1);
  layout.dp_sync = draw.one_of<DpSync>({DpSync::kNaive, DpSync::kBucketed, DpSync::kOverlapped});
  layout.bucket_mib = draw.one_of<double>({1e-6, 1e-4, 1e-3, 25.0});
  layout.recompute =
      draw.one_of<Recompute>({Recompute::kNone, Recompute::kSelective, Recompute::kFull});
  Batch batch{.seq = draw.between(1, static_cast<int>(spec.max_seq)),
              .micro_batch = draw.between(1, 3)};
  batch.global_batch = batch.micro_batch * layout.dp * draw.between(1, 8);
  check_layout(spec, layout, batch);
  return {.spec = spec, .layout = layout, .batch = batch};
}

std::vector<Program> all_ranks(BuildRequest request) {
  std::vector<Program> programs;
  for (int rank = 0; rank < request.layout.world(); ++rank) {
    request.rank = rank;
    programs.push_back(build_train(request));
  }
  return programs;
}

/// Violation text, or "" for none.
std::string fault(const std::optional<Violation>& violation) {
  return violation ? violation->rule + ": " + violation->message : "";
}

// Sanitized builds are many times slower and look for other faults: fewer programs show those as
// well.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr unsigned kNumPrograms = 120;
#else
constexpr unsigned kNumPrograms = 1200;
#endif

TEST(RandomPrograms, OfAllRanksVerify) {
  for (unsigned seed = 0; seed < kNumPrograms; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(seed);
    ASSERT_EQ(fault(verify(all_ranks(random_request(draw)))), "");
  }
}

TEST(RandomPrograms, ArePlacedApartAndWithinATenthOfTheLowerBound) {
  for (unsigned seed = 0; seed < kNumPrograms; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(seed);
    BuildRequest request = random_request(draw);
    request.rank = draw.between(0, request.layout.dp - 1);
    const Program train = build_train(request);
    const Program eval = build_eval(request, draw.between(1, 3), roots_of(train));
    const std::vector<const Program*> both = {&train, &eval};
    const Placement placement = place(both);
    ASSERT_EQ(fault(verify({eval})), "");
    ASSERT_EQ(fault(verify_placement(both, placement)), "");
    ASSERT_LE(static_cast<double>(placement.arena_bytes),
              1.1 * static_cast<double>(placement.lower_bound_bytes));
  }
}

TEST(RandomPrograms, GenerationVerifiesAndSharesAnArena) {
  for (unsigned seed = 0; seed < kNumPrograms; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(seed);
    BuildRequest request = random_request(draw);
    request.layout = {};
    const Program prefill = build_prefill(request), decode = build_decode(request);
    const std::vector<const Program*> both = {&prefill, &decode};
    ASSERT_EQ(fault(verify({prefill})), "");
    ASSERT_EQ(fault(verify({decode})), "");
    ASSERT_EQ(fault(verify_placement(both, place(both))), "");
  }
}

TEST(RandomPrograms, ParseBackToThemselves) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(seed);
    const BuildRequest request = random_request(draw);
    const Program program = build_train(request);
    const std::vector<Program> parsed = parse_programs(program_text(program));
    ASSERT_EQ(parsed.size(), 1U);
    ASSERT_TRUE(parsed[0] == program);
  }
}

}  // namespace
}  // namespace trireme
