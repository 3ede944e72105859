#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "trireme/base/bf16.h"
#include "trireme/comm/on_ranks.h"
#include "trireme/comm/traffic.h"

namespace trireme {
namespace {

template <typename T>
constexpr DType kDTypeOf = std::is_same_v<T, float> ? DType::kF32 : DType::kF64;

template <typename T>
std::span<std::byte> bytes(std::vector<T>& values) {
  return std::as_writable_bytes(std::span(values));
}
template <typename T>
std::span<const std::byte> const_bytes(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

/// Bits, not values: -0 is not 0.
template <typename T>
bool is_same(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

/// Values of mixed size and sign, so that another order of additions gives other bits.
template <typename T>
std::vector<T> input_of(int rank, std::int64_t num_elems) {
  std::mt19937 random(static_cast<unsigned>(1000 * rank + num_elems));
  std::uniform_real_distribution<double> mantissa(-1.0, 1.0);
  std::uniform_int_distribution<int> exponent(-12, 12);
  std::vector<T> values(static_cast<std::size_t>(num_elems));
  for (T& value : values) value = static_cast<T>(std::ldexp(mantissa(random), exponent(random)));
  return values;
}

template <typename T>
std::vector<T> serial_sum(int size, std::int64_t num_elems) {
  std::vector<T> sum = input_of<T>(0, num_elems);
  for (int rank = 1; rank < size; ++rank) {
    const std::vector<T> next = input_of<T>(rank, num_elems);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = sum[i] + next[i];
  }
  return sum;
}

template <typename T>
std::vector<T> part_of(const std::vector<T>& full, int size, int rank) {
  const auto count = static_cast<std::ptrdiff_t>(full.size()) / size;
  return {full.begin() + rank * count, full.begin() + (rank + 1) * count};
}

template <typename T>
std::vector<T> all_inputs(int size, std::int64_t num_elems_each) {
  std::vector<T> all;
  for (int rank = 0; rank < size; ++rank) {
    const std::vector<T> input = input_of<T>(rank, num_elems_each);
    all.insert(all.end(), input.begin(), input.end());
  }
  return all;
}

class Collectives : public testing::TestWithParam<std::tuple<int, DType>> {
 protected:
  void SetUp() override { TRI_NEED_RANKS(std::get<0>(GetParam())); }

  /// Calls body(communicator, num_elems, T{}) on all ranks for some element counts, odd ones too.
  template <typename Body>
  void for_sizes(Body body) {
    const auto [size, dtype] = GetParam();
    for (const std::int64_t num_elems : {0, 1, 3, 6, 1023, 4099}) {
      SCOPED_TRACE(num_elems);
      on_ranks(size, [&, dtype_now = dtype](Communicator& comm) {
        dtype_now == DType::kF32 ? body(comm, num_elems, float{}) : body(comm, num_elems, double{});
      });
    }
  }
};

TEST_P(Collectives, AllReduceIsTheSerialSumInRankOrder) {
  for_sizes([]<typename T>(Communicator& comm, std::int64_t num_elems, T) {
    std::vector<T> buffer = input_of<T>(comm.rank(), num_elems);
    comm.all_reduce(bytes(buffer), {.dtype = kDTypeOf<T>});
    EXPECT_TRUE(is_same(buffer, serial_sum<T>(comm.size(), num_elems))) << comm.rank();
    EXPECT_EQ(comm.bytes_sent(), bytes_sent({.op = CommOp::kAllReduce,
                                             .num_elems = num_elems,
                                             .elem_bytes = sizeof(T),
                                             .size = comm.size(),
                                             .rank = comm.rank()}));
  });
}

TEST_P(Collectives, AllReduceCutInTwoCallsGivesTheSameBits) {
  for_sizes([]<typename T>(Communicator& comm, std::int64_t num_elems, T) {
    std::vector<T> buffer = input_of<T>(comm.rank(), num_elems);
    const auto cut = static_cast<std::size_t>(num_elems / 3) * sizeof(T);
    comm.all_reduce(bytes(buffer).first(cut), {.dtype = kDTypeOf<T>});
    comm.all_reduce(bytes(buffer).subspan(cut), {.dtype = kDTypeOf<T>});
    EXPECT_TRUE(is_same(buffer, serial_sum<T>(comm.size(), num_elems))) << comm.rank();
  });
}

TEST_P(Collectives, AllReduceMaxIsTheGreatestOfAllRanks) {
  for_sizes([]<typename T>(Communicator& comm, std::int64_t num_elems, T) {
    std::vector<T> expected = input_of<T>(0, num_elems);
    for (int rank = 1; rank < comm.size(); ++rank) {
      const std::vector<T> next = input_of<T>(rank, num_elems);
      for (std::size_t i = 0; i < next.size(); ++i) expected[i] = std::max(expected[i], next[i]);
    }
    std::vector<T> buffer = input_of<T>(comm.rank(), num_elems);
    comm.all_reduce(bytes(buffer), {.dtype = kDTypeOf<T>, .op = ReduceOp::kMax});
    EXPECT_TRUE(is_same(buffer, expected)) << comm.rank();
  });
}

TEST_P(Collectives, ReduceLeavesTheSumOnTheRootOnly) {
  for_sizes([]<typename T>(Communicator& comm, std::int64_t num_elems, T) {
    const int root = comm.size() - 1;
    std::vector<T> buffer = input_of<T>(comm.rank(), num_elems);
    comm.reduce(bytes(buffer), {.dtype = kDTypeOf<T>}, root);
    EXPECT_TRUE(is_same(buffer, comm.rank() == root ? serial_sum<T>(comm.size(), num_elems)
                                                    : input_of<T>(comm.rank(), num_elems)));
    EXPECT_EQ(comm.bytes_sent(), bytes_sent({.op = CommOp::kReduce,
                                             .num_elems = num_elems,
                                             .elem_bytes = sizeof(T),
                                             .size = comm.size(),
                                             .rank = comm.rank(),
                                             .root = root}));
  });
}

TEST_P(Collectives, ReduceScatterInPlaceChangesTheOwnShardOnly) {
  for_sizes([]<typename T>(Communicator& comm, std::int64_t num_shard_elems, T) {
    const std::int64_t num_elems = num_shard_elems * comm.size();
    std::vector<T> full = input_of<T>(comm.rank(), num_elems);
    std::vector<T> expected = full;
    const std::vector<T> sum = serial_sum<T>(comm.size(), num_elems);
    const auto begin = comm.rank() * num_shard_elems;
    std::copy_n(sum.begin() + begin, num_shard_elems, expected.begin() + begin);
    comm.reduce_scatter_in_place(bytes(full), {.dtype = kDTypeOf<T>});
    EXPECT_TRUE(is_same(full, expected)) << comm.rank();
    EXPECT_EQ(comm.bytes_sent(), num_shard_elems * std::int64_t{sizeof(T)} * (comm.size() - 1));
  });
}

TEST_P(Collectives, ReduceScatterIntoAnotherBufferKeepsTheFullOne) {
  for_sizes([]<typename T>(Communicator& comm, std::int64_t num_shard_elems, T) {
    const std::int64_t num_elems = num_shard_elems * comm.size();
    const std::vector<T> full = input_of<T>(comm.rank(), num_elems);
    std::vector<T> shard(static_cast<std::size_t>(num_shard_elems));
    comm.reduce_scatter(const_bytes(full), bytes(shard), {.dtype = kDTypeOf<T>});
    EXPECT_TRUE(
        is_same(shard, part_of(serial_sum<T>(comm.size(), num_elems), comm.size(), comm.rank())));
    EXPECT_TRUE(is_same(full, input_of<T>(comm.rank(), num_elems)));
  });
}

TEST_P(Collectives, AllGatherInPlaceFillsTheOthersShards) {
  for_sizes([]<typename T>(Communicator& comm, std::int64_t num_shard_elems, T) {
    std::vector<T> full(static_cast<std::size_t>(num_shard_elems * comm.size()), T{-7});
    const std::vector<T> own = input_of<T>(comm.rank(), num_shard_elems);
    std::copy(own.begin(), own.end(), full.begin() + comm.rank() * num_shard_elems);
    comm.all_gather_in_place(bytes(full));
    EXPECT_TRUE(is_same(full, all_inputs<T>(comm.size(), num_shard_elems))) << comm.rank();
    EXPECT_EQ(comm.bytes_sent(), num_shard_elems * std::int64_t{sizeof(T)} * (comm.size() - 1));
  });
}

TEST_P(Collectives, AllGatherFromAnotherBufferFillsAll) {
  for_sizes([]<typename T>(Communicator& comm, std::int64_t num_shard_elems, T) {
    const std::vector<T> shard = input_of<T>(comm.rank(), num_shard_elems);
    std::vector<T> full(static_cast<std::size_t>(num_shard_elems * comm.size()), T{-7});
    comm.all_gather(const_bytes(shard), bytes(full));
    EXPECT_TRUE(is_same(full, all_inputs<T>(comm.size(), num_shard_elems))) << comm.rank();
  });
}

TEST_P(Collectives, BroadcastCopiesTheRoot) {
  for_sizes([]<typename T>(Communicator& comm, std::int64_t num_elems, T) {
    const int root = comm.size() / 2;
    std::vector<T> buffer = input_of<T>(comm.rank(), num_elems);
    comm.broadcast(bytes(buffer), root);
    EXPECT_TRUE(is_same(buffer, input_of<T>(root, num_elems))) << comm.rank();
    const std::int64_t sent =
        comm.rank() == root ? num_elems * std::int64_t{sizeof(T)} * (comm.size() - 1) : 0;
    EXPECT_EQ(comm.bytes_sent(), sent);
  });
}

TEST_P(Collectives, ScatterGivesEachRankItsPartOfTheRoot) {
  for_sizes([]<typename T>(Communicator& comm, std::int64_t num_shard_elems, T) {
    const int root = comm.size() / 2;
    std::vector<T> full = input_of<T>(root, num_shard_elems * comm.size());
    const std::vector<T> expected = part_of(full, comm.size(), comm.rank());
    if (comm.rank() != root) full.clear();
    std::vector<T> shard(static_cast<std::size_t>(num_shard_elems));
    comm.scatter(const_bytes(full), bytes(shard), root);
    EXPECT_TRUE(is_same(shard, expected)) << comm.rank();
  });
}

TEST_P(Collectives, GatherCollectsOnTheRoot) {
  for_sizes([]<typename T>(Communicator& comm, std::int64_t num_shard_elems, T) {
    const int root = comm.size() - 1;
    const bool is_root = comm.rank() == root;
    const std::vector<T> shard = input_of<T>(comm.rank(), num_shard_elems);
    std::vector<T> full(is_root ? static_cast<std::size_t>(num_shard_elems * comm.size()) : 0);
    comm.gather(const_bytes(shard), bytes(full), root);
    EXPECT_TRUE(!is_root || is_same(full, all_inputs<T>(comm.size(), num_shard_elems)));
  });
}

TEST_P(Collectives, AllToAllTransposesTheParts) {
  for_sizes([]<typename T>(Communicator& comm, std::int64_t num_part_elems, T) {
    const std::int64_t num_elems = num_part_elems * comm.size();
    const std::vector<T> outgoing = input_of<T>(comm.rank(), num_elems);
    std::vector<T> incoming(outgoing.size());
    comm.all_to_all(const_bytes(outgoing), bytes(incoming));
    for (int peer = 0; peer < comm.size(); ++peer) {
      EXPECT_TRUE(is_same(part_of(incoming, comm.size(), peer),
                          part_of(input_of<T>(peer, num_elems), comm.size(), comm.rank())))
          << "from " << peer << " to " << comm.rank();
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Sizes, Collectives,
                         testing::Combine(testing::Values(1, 2, 3, 4, 8),
                                          testing::Values(DType::kF32, DType::kF64)),
                         [](const auto& test) {
                           return "ranks_" + std::to_string(std::get<0>(test.param)) + "_" +
                                  std::string(dtype_name(std::get<1>(test.param)));
                         });

TEST(CollectivesOfRanks, GiveTheSameBitsEveryTime) {
  TRI_NEED_RANKS(4);
  const std::vector<float> expected = serial_sum<float>(4, 257);
  on_ranks(4, [&](Communicator& comm) {
    for (int repetition = 0; repetition < 200; ++repetition) {
      std::vector<float> buffer = input_of<float>(comm.rank(), 257);
      comm.all_reduce(bytes(buffer), {});
      ASSERT_TRUE(is_same(buffer, expected)) << repetition << " on " << comm.rank();
    }
  });
}

TEST(CollectivesOfRanks, ManySmallCallsOfEightRanksTerminate) {
  TRI_NEED_RANKS(8);
  on_ranks(8, [](Communicator& comm) {
    float sum = 0;
    for (int call = 0; call < 1500; ++call) {
      std::vector<float> ones{1.0F, 2.0F, 3.0F};
      comm.all_reduce(bytes(ones), {});
      sum += ones[2];
    }
    EXPECT_EQ(sum, 1500.0F * 24.0F);
  });
}

TEST(CollectivesOfRanks, TwoStreamsOfARankUseTheirOwnCommunicators) {
  TRI_NEED_RANKS(3);
  const auto world = make_test_world(3);
  run_ranks(*world, [&](int rank) {
    const auto compute = world->communicator(rank, all_ranks(*world), "tp");
    const auto overlapped = world->communicator(rank, all_ranks(*world), "reduce");
    std::vector<float> gradients = input_of<float>(rank, 999);
    std::thread stream([&] {
      for (int call = 0; call < 100; ++call) {
        gradients = input_of<float>(rank, 999);
        overlapped->all_reduce(bytes(gradients), {});
      }
    });
    for (int call = 0; call < 150; ++call) {
      std::vector<float> activations = input_of<float>(rank, 64);
      compute->all_reduce(bytes(activations), {});
      EXPECT_TRUE(is_same(activations, serial_sum<float>(3, 64)));
    }
    stream.join();
    EXPECT_TRUE(is_same(gradients, serial_sum<float>(3, 999)));
  });
}

TEST(CollectivesOfRanks, SubgroupsRankTheirMembersByPosition) {
  TRI_NEED_RANKS(4);
  const auto world = make_test_world(4);
  run_ranks(*world, [&](int rank) {
    const std::vector<int> members = rank % 2 == 0 ? std::vector{2, 0} : std::vector{1, 3};
    const auto comm = world->communicator(rank, members, "dp");
    EXPECT_EQ(comm->rank(), rank == 2 || rank == 1 ? 0 : 1);
    std::vector<double> buffer{static_cast<double>(rank)};
    comm->all_reduce(bytes(buffer), {.dtype = DType::kF64});
    EXPECT_EQ(buffer[0], rank % 2 == 0 ? 2.0 : 4.0);
  });
}

/// What thread ranks give for it: each contribution is rounded, the sum of floats is too.
std::vector<float> sum_through_bf16(int size, std::int64_t num_elems) {
  std::vector<float> sum(static_cast<std::size_t>(num_elems));
  for (int rank = 0; rank < size; ++rank) {
    const std::vector<float> next = input_of<float>(rank, num_elems);
    for (std::size_t i = 0; i < sum.size(); ++i) {
      const float rounded = to_float(to_bf16(next[i]));
      sum[i] = rank == 0 ? rounded : sum[i] + rounded;
    }
  }
  for (float& value : sum) value = to_float(to_bf16(value));
  return sum;
}

// More elements than travel at once between processes.
constexpr std::int64_t kManyElems = 3 * 500'009;

TEST(CollectivesOfRanks, ReductionsThatTravelInBf16RoundWhatIsGivenAndTheSum) {
  TRI_NEED_RANKS(3);
  const std::vector<float> sum = sum_through_bf16(3, kManyElems);
  on_ranks(3, [&](Communicator& comm) {
    const Reduction reduction{.travels_in_bf16 = true};
    std::vector<float> all = input_of<float>(comm.rank(), kManyElems);
    comm.all_reduce(bytes(all), reduction);
    EXPECT_TRUE(is_same(all, sum)) << comm.rank();
    EXPECT_EQ(comm.bytes_sent(), 4 * kManyElems / 3 * 2);
    std::vector<float> rooted = input_of<float>(comm.rank(), kManyElems);
    comm.reduce(bytes(rooted), reduction, 1);
    EXPECT_TRUE(is_same(rooted, comm.rank() == 1 ? sum : input_of<float>(comm.rank(), kManyElems)));
    std::vector<float> shard(kManyElems / 3);
    comm.reduce_scatter(const_bytes(input_of<float>(comm.rank(), kManyElems)), bytes(shard),
                        reduction);
    EXPECT_TRUE(is_same(shard, part_of(sum, 3, comm.rank()))) << comm.rank();
  });
}

TEST(CollectivesOfRanks, LongReductionsAreTheSerialSum) {
  TRI_NEED_RANKS(2);
  const std::vector<float> sum = serial_sum<float>(2, kManyElems);
  on_ranks(2, [&](Communicator& comm) {
    std::vector<float> buffer = input_of<float>(comm.rank(), kManyElems);
    comm.all_reduce(bytes(buffer), {});
    EXPECT_TRUE(is_same(buffer, sum)) << comm.rank();
    std::vector<float> rooted = input_of<float>(comm.rank(), kManyElems);
    comm.reduce(bytes(rooted), {}, 1);
    EXPECT_TRUE(comm.rank() != 1 || is_same(rooted, sum));
  });
}

TEST(CollectivesOfRanks, ResetBytesSentStartsAgain) {
  TRI_NEED_RANKS(2);
  on_ranks(2, [](Communicator& comm) {
    std::vector<float> buffer(10);
    comm.all_reduce(bytes(buffer), {});
    EXPECT_EQ(comm.bytes_sent(), 40);
    comm.reset_bytes_sent();
    comm.reduce_scatter_in_place(bytes(buffer), {});
    EXPECT_EQ(comm.bytes_sent(), 20);
  });
}

}  // namespace
}  // namespace trireme
