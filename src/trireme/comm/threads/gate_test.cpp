#include "trireme/comm/threads/gate.h"

#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "trireme/base/errors.h"
#include "trireme/comm/on_ranks.h"
#include "trireme/comm/threads/thread_world.h"

namespace trireme {
namespace {

TEST(Gate, IsPassedOnceAllHaveArrived) {
  Gate gate(2);
  const std::uint32_t round = gate.arrive();
  EXPECT_EQ(gate.round(), round);
  EXPECT_EQ(gate.arrive(), round);
  EXPECT_TRUE(gate.wait(round, 0));
  EXPECT_NE(gate.round(), round);
}

TEST(Gate, ACompletedRoundStaysCompleteAfterClose) {
  Gate gate(2);
  const std::uint32_t round = gate.arrive();
  gate.arrive();
  gate.close();
  EXPECT_TRUE(gate.wait(round, 0));
}

TEST(Gate, NoRoundCompletesAfterClose) {
  Gate gate(2);
  const std::uint32_t round = gate.arrive();
  gate.close();
  EXPECT_EQ(gate.arrive(), round);
  EXPECT_FALSE(gate.wait(round, 0));
}

TEST(Gate, CloseWakesASleepingMember) {
  Gate gate(2);
  bool has_passed = true;
  std::thread member([&] { has_passed = gate.wait(gate.arrive(), 0); });
  gate.close();
  member.join();
  EXPECT_FALSE(has_passed);
}

TEST(Gate, WakesAWaiterThatIsNoMember) {
  for (int repetition = 0; repetition < 200; ++repetition) {
    Gate gate(1);
    const std::uint32_t round = gate.round();
    bool has_passed = false;
    std::thread waiter([&] { has_passed = gate.wait(round, 0); });
    std::this_thread::yield();
    gate.arrive();
    waiter.join();
    ASSERT_TRUE(has_passed);
  }
}

TEST(Gate, RoundsGoOnWhenTheirNumberWrapsAround) {
  Gate gate(1);
  for (int i = 0; i < (1 << 19) + 3; ++i) {
    const bool is_odd = i % 2 == 1;
    ASSERT_EQ(Gate::is_odd(gate.round()), is_odd) << i;
    ASSERT_TRUE(gate.wait(gate.arrive(), 0)) << i;
  }
  EXPECT_FALSE((gate.close(), gate.wait(gate.arrive(), 0)));
}

TEST(Gate, PublishesWhatMembersWroteBeforeTheyArrived) {
  constexpr int kMembers = 4;
  constexpr int kRounds = 500;
  Gate before(kMembers);
  Gate after(kMembers);
  std::vector<int> written(kMembers, -1);
  std::vector<int> num_wrong(kMembers, 0);
  std::vector<std::thread> members;
  for (std::size_t member = 0; member < kMembers; ++member) {
    members.emplace_back([&, member] {
      for (int round = 0; round < kRounds; ++round) {
        written[member] = round;
        num_wrong[member] += before.wait(before.arrive(), 10) ? 0 : 1;
        for (const int value : written) num_wrong[member] += value == round ? 0 : 1;
        num_wrong[member] += after.wait(after.arrive(), 10) ? 0 : 1;
      }
    });
  }
  for (std::thread& member : members) member.join();
  EXPECT_EQ(num_wrong, std::vector<int>(kMembers, 0));
}

TEST(Gate, RefusesNoMembers) {
  EXPECT_THROW(Gate(0), InternalError);
}

TEST(ThreadWorlds, SpinningWaitersTerminate) {
  ThreadWorld world(2, {.spin_count = 2000});
  on_ranks(world, [](Communicator& comm) {
    for (int call = 0; call < 500; ++call) comm.barrier();
  });
}

}  // namespace
}  // namespace trireme
