// Random programs: everything that is built verifies, places well, takes as long as its schedule
// and parses back.
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "trireme/base/sanitized.h"
#include "trireme/program/place.h"
#include "trireme/program/random_programs.h"
#include "trireme/program/test_programs.h"
#include "trireme/program/text.h"
#include "trireme/program/verify.h"

namespace trireme {
namespace {

constexpr unsigned kNumWorlds = kIsSanitized ? 100 : 300;
constexpr unsigned kNumSteps = kIsSanitized ? 60 : 600;

TEST(RandomRequests, CoverSchedulesDegreesAndStrategies) {
  std::set<std::string> schedules;
  std::set<int> pp, cp, tp;
  int num_uneven = 0, num_hybrid = 0, num_at_once = 0, num_gathered = 0, num_sequence_parallel = 0,
      num_tied_across = 0, num_chunked_heads = 0, num_rings = 0, num_gathers = 0;
  for (unsigned seed = 0; seed < 4000; ++seed) {
    Draw draw(seed);
    const BuildRequest request = random_request(draw);
    const Layout& layout = request.layout;
    pp.insert(layout.pp);
    cp.insert(layout.cp);
    tp.insert(layout.tp);
    num_rings += layout.cp > 1 && layout.cp_comm == CpComm::kRing ? 1 : 0;
    num_gathers += layout.cp > 1 && layout.cp_comm == CpComm::kAllGather ? 1 : 0;
    if (layout.pp > 1) schedules.insert(layout.schedule);
    num_uneven += layout.stages.empty() ? 0 : 1;
    num_hybrid += 1 < layout.dp_shard && layout.dp_shard < layout.dp ? 1 : 0;
    num_at_once += layout.dp > 1 && layout.reduce == GradientReduction::kMicroBatch ? 1 : 0;
    num_gathered += layout.dp > 1 && layout.zero == 3 ? 1 : 0;
    num_sequence_parallel += layout.sp ? 1 : 0;
    num_tied_across += request.spec.tied && layout.pp > 1 ? 1 : 0;
    const std::int64_t num_tokens = request.batch.seq * request.batch.micro_batch;
    num_chunked_heads += layout.tp > 1 && num_tokens > 256 ? 1 : 0;
  }
  EXPECT_EQ(schedules.size(), schedule_kinds().size());
  EXPECT_EQ(pp, (std::set<int>{1, 2, 3, 4}));
  EXPECT_EQ(cp, (std::set<int>{1, 2, 3, 4}));
  EXPECT_EQ(tp, (std::set<int>{1, 2, 3, 4}));
  for (const int number : {num_uneven, num_hybrid, num_at_once, num_gathered, num_sequence_parallel,
                           num_tied_across, num_chunked_heads, num_rings, num_gathers})
    EXPECT_GE(number, 30);
}

TEST(RandomPrograms, OfAllRanksVerifyArePlacedAndTakeAsLongAsTheirSchedule) {
  for (unsigned seed = 0; seed < kNumWorlds; ++seed) {
    Draw draw(seed);
    const BuildRequest request = random_request(draw);
    ASSERT_EQ(fault_of_world(request), "") << what(seed, request);
  }
}

TEST(RandomPrograms, OfEvaluationVerify) {
  for (unsigned seed = 0; seed < kNumSteps; ++seed) {
    Draw draw(seed);
    const BuildRequest request = random_request(draw);
    const int num_micro_batches = draw.between(1, 5);
    const auto build = [&](const BuildRequest& of) { return build_eval(of, num_micro_batches); };
    ASSERT_EQ(fault(verify(all_ranks(request, build))), "") << what(seed, request);
  }
}

TEST(RandomPrograms, ArePlacedApartAndWithinATenthOfTheLowerBound) {
  for (unsigned seed = 0; seed < kNumSteps; ++seed) {
    Draw draw(seed);
    BuildRequest request = random_request(draw);
    request.rank = draw.between(0, request.layout.world() - 1);
    SCOPED_TRACE(what(seed, request) + " rank " + std::to_string(request.rank));
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
  for (unsigned seed = 0; seed < kNumSteps; ++seed) {
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
    Draw draw(seed);
    BuildRequest request = random_request(draw);
    request.rank = draw.between(0, request.layout.world() - 1);
    SCOPED_TRACE(what(seed, request) + " rank " + std::to_string(request.rank));
    const Program program = build_train(request);
    const std::vector<Program> parsed = parse_programs(program_text(program));
    ASSERT_EQ(parsed.size(), 1U);
    ASSERT_TRUE(parsed[0] == program);
  }
}

}  // namespace
}  // namespace trireme
