#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "trireme/base/errors.h"
#include "trireme/comm/on_ranks.h"
#include "trireme/comm/threads/thread_world.h"

namespace trireme {
namespace {

std::span<std::byte> bytes(std::vector<float>& values) {
  return std::as_writable_bytes(std::span(values));
}

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

void expect_mismatch(int size, const std::function<void(Communicator&)>& body,
                     const std::string& one_side, const std::string& other_side) {
  // run_ranks rethrows the first cause though every rank has caught its own.
  ThreadWorld world(size);
  std::atomic<int> num_usage_errors{0};
  const std::string first = message_of([&] {
    on_ranks(world, [&](Communicator& comm) {
      try {
        body(comm);
      } catch (const UsageError& error) {
        ++num_usage_errors;
        EXPECT_TRUE(contains(error.what(), one_side)) << error.what();
        EXPECT_TRUE(contains(error.what(), other_side)) << error.what();
      }
    });
  });
  EXPECT_EQ(num_usage_errors.load(), size);
  EXPECT_TRUE(contains(first, one_side)) << first;
}

TEST(Mismatch, OfOperationsThrowsOnEveryMember) {
  expect_mismatch(
      3,
      [](Communicator& comm) {
        std::vector<float> buffer(3);
        comm.rank() == 1 ? comm.broadcast(bytes(buffer), 0) : comm.all_reduce(bytes(buffer), {});
      },
      "rank 0 (world rank 0) called all_reduce sum of f32, 12 bytes",
      "rank 1 (world rank 1) called broadcast, 12 bytes, root 0");
}

TEST(FirstCauses, NameRankAndStep) {
  ThreadWorld world(2);
  EXPECT_EQ(message_of([&] {
              run_ranks(world, [&](int rank) {
                if (rank == 0) return;
                world.begin_step(rank, 4);
                throw UsageError("no good");
              });
            }),
            "no good");
  EXPECT_EQ(text_of(world.first_cause().value()), "rank 1, step 4: no good");
  EXPECT_EQ(text_of({.rank = 1, .message = "no good"}), "rank 1: no good");
}

TEST(Mismatch, OfBytesThrowsOnEveryMember) {
  expect_mismatch(
      4,
      [](Communicator& comm) {
        std::vector<float> buffer(comm.rank() == 3 ? 4 : 5);
        comm.all_reduce(bytes(buffer), {});
      },
      "rank 0 (world rank 0) called all_reduce sum of f32, 20 bytes",
      "rank 3 (world rank 3) called all_reduce sum of f32, 16 bytes");
}

TEST(Mismatch, OfDTypesThrowsOnEveryMember) {
  expect_mismatch(
      2,
      [](Communicator& comm) {
        alignas(8) std::array<std::byte, 16> buffer{};
        comm.all_reduce(buffer, {.dtype = comm.rank() == 0 ? DType::kF32 : DType::kF64});
      },
      "sum of f32, 16 bytes", "sum of f64, 16 bytes");
}

TEST(Mismatch, OfReductionsThrowsOnEveryMember) {
  expect_mismatch(
      2,
      [](Communicator& comm) {
        std::vector<float> buffer(1);
        comm.all_reduce(bytes(buffer), {.op = comm.rank() == 0 ? ReduceOp::kSum : ReduceOp::kMax});
      },
      "all_reduce sum of f32", "all_reduce max of f32");
}

TEST(Mismatch, OfRootsThrowsOnEveryMember) {
  expect_mismatch(
      2,
      [](Communicator& comm) {
        std::vector<float> buffer(1);
        comm.broadcast(bytes(buffer), comm.rank());
      },
      "root 0", "root 1");
}

TEST(Mismatch, OfMessageSizesThrowsOnBothSides) {
  expect_mismatch(
      2,
      [](Communicator& comm) {
        std::vector<float> buffer(comm.rank() == 0 ? 2 : 3);
        comm.rank() == 0 ? comm.send(bytes(buffer), 1, 5) : comm.recv(bytes(buffer), 0, 5);
      },
      "rank 0 (world rank 0) sends 8 bytes with tag 5",
      "rank 1 (world rank 1) receives 12 bytes with tag 5");
}

TEST(Mismatch, OfTagsThrowsOnBothSides) {
  expect_mismatch(
      2,
      [](Communicator& comm) {
        std::vector<float> buffer(2);
        comm.rank() == 0 ? comm.send(bytes(buffer), 1, 5) : comm.recv(bytes(buffer), 0, 6);
      },
      "8 bytes with tag 5", "8 bytes with tag 6");
}

TEST(Mismatch, WakesTheRestOfALargerExchange) {
  // Rank 0 and 1 disagree; rank 0 also waits for rank 2, which waits for a third message of 0.
  const std::string message = message_of([] {
    on_ranks(3, [](Communicator& comm) {
      std::vector<float> one(1);
      std::vector<float> two(2);
      if (comm.rank() == 0) {
        const std::vector<Transfer> transfers{{.peer = 2, .tag = 0, .incoming = bytes(one)},
                                              {.peer = 1, .tag = 0, .incoming = bytes(two)}};
        comm.exchange(transfers);
      } else if (comm.rank() == 1) {
        comm.send(bytes(one), 0, 0);
      } else {
        comm.recv(bytes(one), 0, 0);
      }
    });
  });
  EXPECT_TRUE(contains(message, "sends 4 bytes")) << message;
}

TEST(Abort, WakesBlockedPeersWithTheFirstCause) {
  const std::vector<std::string> errors = [] {
    ThreadWorld world(4);
    std::vector<std::string> caught(4);
    EXPECT_THROW(on_ranks(world,
                          [&](Communicator& comm) {
                            comm.barrier();  // All have their communicators.
                            if (comm.rank() == 2) throw std::runtime_error("the disk is full");
                            caught[static_cast<std::size_t>(comm.rank())] =
                                message_of([&] { comm.barrier(); });
                          }),
                 std::runtime_error);
    return caught;
  }();
  for (const std::size_t rank : {0U, 1U, 3U}) {
    EXPECT_TRUE(contains(errors[rank], "rank 2 failed first, with: the disk is full"))
        << errors[rank];
  }
}

TEST(Abort, WakesBlockedSendersAndReceivers) {
  EXPECT_THROW(on_ranks(3,
                        [](Communicator& comm) {
                          std::vector<float> buffer(1);
                          if (comm.rank() == 0) comm.recv(bytes(buffer), 2, 0);
                          if (comm.rank() == 1) comm.send(bytes(buffer), 2, 0);
                          if (comm.rank() == 2) throw std::logic_error("broken");
                        }),
               std::logic_error);
}

TEST(Abort, WakesTheOtherStreamOfTheSameRank) {
  ThreadWorld world(2);
  const auto comm = world.communicator(0, all_ranks(world), "reduce");
  std::string error;
  std::thread stream([&] { error = message_of([&] { comm->barrier(); }); });
  world.abort(0, "compute failed");
  stream.join();
  EXPECT_TRUE(contains(error, "rank 0 failed first, with: compute failed")) << error;
}

TEST(Abort, RefusesLaterCallsAndCommunicators) {
  ThreadWorld world(2);
  const std::vector<int> both{0, 1};
  const auto comm = world.communicator(0, both, "dp");
  world.abort(1, "stopped");
  EXPECT_THROW(comm->barrier(), PeerLost);
  EXPECT_THROW(comm->barrier(), PeerLost);
  EXPECT_THROW((void)world.communicator(1, both, "dp"), PeerLost);
}

TEST(Abort, RefusesLaterCallsOfAGroupOfOne) {
  ThreadWorld world(2);
  const std::vector<int> own{0};
  const auto comm = world.communicator(0, own, "dp");
  comm->barrier();
  world.abort(1, "stopped");
  EXPECT_THROW(comm->barrier(), PeerLost);
}

TEST(Abort, KeepsTheFirstCauseOnly) {
  ThreadWorld world(3);
  EXPECT_FALSE(world.first_cause().has_value());
  world.abort(2, "first");
  world.abort(1, "second");
  ASSERT_TRUE(world.first_cause().has_value());
  EXPECT_EQ(world.first_cause()->rank, 2);
  EXPECT_EQ(world.first_cause()->message, "first");
}

TEST(Abort, InTheMiddleOfTrafficNeverTouchesFreedBuffers) {
  // The buffers die with the call that is aborted: asan and tsan watch the peers.
  for (int seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    ThreadWorld world(4);
    EXPECT_THROW(on_ranks(world,
                          [&](Communicator& comm) {
                            for (int call = 0;; ++call) {
                              std::vector<float> buffer(2000, 1.0F);
                              if (comm.rank() == seed % 4 && call == seed) {
                                throw std::runtime_error("stop");
                              }
                              comm.all_reduce(bytes(buffer), {});
                            }
                          }),
                 std::runtime_error);
  }
}

TEST(Abort, FromOutsideNeverTouchesFreedBuffers) {
  for (int seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    ThreadWorld world(3);
    std::atomic<int> num_calls{0};
    std::thread outsider([&] {
      while (num_calls.load() < 5 * seed) std::this_thread::yield();
      world.abort(0, "stop");
    });
    EXPECT_THROW(on_ranks(world,
                          [&](Communicator& comm) {
                            const int next = (comm.rank() + 1) % 3;
                            const int previous = (comm.rank() + 2) % 3;
                            for (;; ++num_calls) {
                              std::vector<float> out(500, 1.0F);
                              std::vector<float> in(500);
                              const std::vector<Transfer> ring{
                                  {.is_send = true, .peer = next, .outgoing = bytes(out)},
                                  {.peer = previous, .incoming = bytes(in)}};
                              comm.exchange(ring);
                              comm.all_gather(comm.own_shard(bytes(out).first(300)),
                                              bytes(in).first(300));
                            }
                          }),
                 ResourceError);
    outsider.join();
  }
}

TEST(Deadlock, OfTwoSendsThatFaceEachOtherIsAnError) {
  const std::string message = message_of([] {
    on_ranks(2, [](Communicator& comm) {
      std::vector<float> buffer(1);
      comm.send(bytes(buffer), 1 - comm.rank(), 7);
    });
  });
  EXPECT_TRUE(contains(message, "rank 0 (world rank 0) in send to 1 (tag 7)")) << message;
  EXPECT_TRUE(contains(message, "rank 1 (world rank 1) in send to 0 (tag 7)")) << message;
}

TEST(Deadlock, OfAMessageAndACollectiveIsAnError) {
  for (int repetition = 0; repetition < 100; ++repetition) {
    const std::string message = message_of([] {
      on_ranks(3, [](Communicator& comm) {
        std::vector<float> buffer(1);
        comm.rank() == 1 ? comm.recv(bytes(buffer), 2, 0) : comm.all_reduce(bytes(buffer), {});
      });
    });
    ASSERT_TRUE(contains(message, "rank 1 (world rank 1) in recv from 2 (tag 0)")) << message;
    ASSERT_TRUE(contains(message, "rank 2 (world rank 2) in all_reduce")) << message;
  }
}

TEST(Deadlock, IsNotSeenWhereMessagesAndCollectivesAlternate) {
  on_ranks(4, [](Communicator& comm) {
    for (int repetition = 0; repetition < 300; ++repetition) {
      std::vector<float> buffer(4);
      if (comm.rank() % 2 == 0) {
        comm.send(bytes(buffer), comm.rank() + 1, 0);
      } else {
        comm.recv(bytes(buffer), comm.rank() - 1, 0);
      }
      comm.all_reduce(bytes(buffer), {});
    }
  });
}

TEST(Leaving, WithACallMissingIsAnErrorOfTheOthers) {
  const std::string message = message_of([] {
    on_ranks(3, [](Communicator& comm) {
      if (comm.rank() != 1) comm.barrier();
    });
  });
  EXPECT_TRUE(contains(message, "rank 1 (world rank 1) has ended")) << message;
}

TEST(Leaving, WithAMessageMissingIsAnErrorOfTheOther) {
  const std::string message = message_of([] {
    on_ranks(2, [](Communicator& comm) {
      std::vector<float> buffer(1);
      if (comm.rank() == 0) comm.send(bytes(buffer), 1, 0);
    });
  });
  EXPECT_TRUE(contains(message, "rank 1 (world rank 1) has ended")) << message;
}

TEST(Leaving, EarlyLetsTheOthersTalkOn) {
  on_ranks(3, [](Communicator& comm) {
    std::vector<float> buffer(1);
    comm.barrier();
    if (comm.rank() == 0) comm.send(bytes(buffer), 1, 0);
    if (comm.rank() == 1) comm.recv(bytes(buffer), 0, 0);
  });
}

TEST(RunRanks, RethrowsTheExceptionOfTheRankThatFailedFirst) {
  ThreadWorld world(8);
  EXPECT_THROW(on_ranks(world,
                        [](Communicator& comm) {
                          if (comm.rank() == 5) throw UsageError("[test] rank 5");
                          comm.barrier();
                        }),
               UsageError);
  EXPECT_EQ(world.first_cause()->rank, 5);
}

TEST(World, RefusesBadSizesAndOptions) {
  EXPECT_THROW(ThreadWorld(0), UsageError);
  EXPECT_THROW(ThreadWorld(1, {.spin_count = -1}), UsageError);
  EXPECT_THROW(ThreadWorld(1, {.link = {.latency_seconds = -1.0}}), UsageError);
}

TEST(World, RefusesGroupsThatAreNotGroups) {
  ThreadWorld world(3);
  const auto ask = [&](std::vector<int> ranks) { (void)world.communicator(0, ranks, "dp"); };
  EXPECT_THROW(ask({}), UsageError);
  EXPECT_THROW(ask({0, 0}), UsageError);
  EXPECT_THROW(ask({0, 3}), UsageError);
  EXPECT_THROW(ask({1, 2}), UsageError);
}

TEST(World, RefusesASecondHandleAndAnotherOrder) {
  ThreadWorld world(2);
  const std::vector<int> ranks{0, 1};
  const std::vector<int> reversed{1, 0};
  const auto handle = world.communicator(0, ranks, "dp");
  EXPECT_THROW((void)world.communicator(0, ranks, "dp"), UsageError);
  EXPECT_THROW((void)world.communicator(1, reversed, "dp"), UsageError);
  EXPECT_NO_THROW((void)world.communicator(1, reversed, "pp"));
}

TEST(Arguments, OfWrongSizeAreRefusedWithTheNumbers) {
  ThreadWorld world(1);
  const std::vector<int> own{0};
  const auto comm = world.communicator(0, own, "dp");
  std::vector<float> full(4);
  std::vector<float> shard(3);
  const std::string message =
      message_of([&] { comm->reduce_scatter(bytes(full), bytes(shard), {}); });
  EXPECT_TRUE(contains(message, "full has 16 bytes, shard 12")) << message;
  EXPECT_THROW(comm->all_gather(bytes(shard), bytes(full)), UsageError);
  EXPECT_THROW(comm->all_to_all(bytes(full), bytes(shard)), UsageError);
  EXPECT_THROW(comm->broadcast(bytes(full), 1), UsageError);
}

TEST(Arguments, ThatAreNoWholeElementsAreRefused) {
  ThreadWorld world(1);
  const std::vector<int> own{0};
  const auto comm = world.communicator(0, own, "dp");
  std::vector<float> buffer(4);
  EXPECT_THROW(comm->all_reduce(bytes(buffer).first(6), {}), UsageError);
  EXPECT_THROW(comm->all_reduce(bytes(buffer).subspan(1, 8), {}), UsageError);
  EXPECT_THROW(comm->all_reduce(bytes(buffer), {.dtype = DType::kI32}), UsageError);
}

TEST(Arguments, ThatOverlapElsewhereThanInPlaceAreRefused) {
  on_ranks(2, [](Communicator& comm) {
    std::vector<float> full(4);
    const auto others_shard = bytes(full).subspan(comm.rank() == 0 ? 8 : 0, 8);
    EXPECT_THROW(comm.reduce_scatter(bytes(full), others_shard, {}), UsageError);
    EXPECT_THROW(comm.all_gather(others_shard, bytes(full)), UsageError);
    EXPECT_THROW(comm.all_to_all(bytes(full), bytes(full)), UsageError);
  });
}

TEST(Arguments, OfABufferWithoutEqualShardsAreRefused) {
  on_ranks(2, [](Communicator& comm) {
    std::vector<std::byte> odd(3);
    EXPECT_THROW(comm.all_gather_in_place(odd), UsageError);
  });
}

TEST(Link, MakesAnOperationLastAtLeastItsTime) {
  // A lower bound only: the clock may run further, never less.
  ThreadWorld world(2, {.link = {.latency_seconds = 1e-3, .bytes_per_second = 1e6}});
  on_ranks(world, [](Communicator& comm) {
    std::vector<float> buffer(500);
    const auto begin = std::chrono::steady_clock::now();
    comm.all_reduce(bytes(buffer), {});  // 2 steps and 2,000 bytes: 2 ms + 2 ms.
    EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::microseconds(3999));
  });
}

}  // namespace
}  // namespace trireme
