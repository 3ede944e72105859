// Collectives and messages between rank threads. bus_bytes_per_second is what one rank sends over
// the time of a call (times ranks it is what the memory carries at least).
#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <new>

#include <benchmark/benchmark.h>

#include "trireme/comm/on_ranks.h"
#include "trireme/comm/threads/thread_world.h"

namespace trireme {
namespace {

using Call =
    std::function<void(Communicator&, std::span<std::byte> full, std::span<std::byte> other)>;

constexpr std::align_val_t kPage{4096};

struct FreePages {
  void operator()(float* pages) const { ::operator delete(pages, kPage); }
};

/// Page-aligned as in an arena: the offset of source to target within a page decides the speed of
/// memcpy (64 KiB: 1.6 or 20 us on Zen 3, glibc 2.36).
std::unique_ptr<float, FreePages> touched_floats(std::size_t count) {
  auto* floats = static_cast<float*>(::operator new(std::max<std::size_t>(count, 1) * 4, kPage));
  std::fill_n(floats, count, 1.0F);
  return std::unique_ptr<float, FreePages>(floats);
}

/// Rank 0 drives the loop of the benchmark and tells the others each time whether to go on.
void run_calls(benchmark::State& state, const Call& call) {
  const auto size = static_cast<int>(state.range(0));
  const auto num_floats = static_cast<std::size_t>(state.range(1)) / sizeof(float);
  ThreadWorld world(size, {.spin_count = size <= 2 ? 2000 : 0});
  constexpr int kCallsPerRound = 16;  // The telling costs a barrier's time.
  on_ranks(world, [&](Communicator& comm) {
    const auto full = touched_floats(num_floats);
    const auto other = touched_floats(num_floats);
    const auto full_bytes = std::as_writable_bytes(std::span(full.get(), num_floats));
    const auto other_bytes = std::as_writable_bytes(std::span(other.get(), num_floats));
    std::byte go_on{1};
    const auto round = [&] {
      comm.broadcast({&go_on, 1}, 0);
      if (go_on == std::byte{0}) return false;
      for (int i = 0; i < kCallsPerRound; ++i) call(comm, full_bytes, other_bytes);
      return true;
    };
    if (comm.rank() == 0) {
      (void)round();
      comm.reset_bytes_sent();
      for (auto _ : state) (void)round();
      const double num_calls = static_cast<double>(state.iterations()) * kCallsPerRound;
      state.counters["seconds_per_call"] =
          benchmark::Counter(num_calls, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
      state.counters["bus_bytes_per_second"] =
          benchmark::Counter(static_cast<double>(comm.bytes_sent()), benchmark::Counter::kIsRate);
      go_on = std::byte{0};
      (void)round();
    } else {
      while (round()) {
      }
    }
  });
}

void BM_Barrier(benchmark::State& state) {
  run_calls(state, [](Communicator& comm, auto, auto) { comm.barrier(); });
}
void BM_AllReduce(benchmark::State& state) {
  run_calls(state, [](Communicator& comm, auto full, auto) { comm.all_reduce(full, {}); });
}
void BM_ReduceScatter(benchmark::State& state) {
  run_calls(state,
            [](Communicator& comm, auto full, auto) { comm.reduce_scatter_in_place(full, {}); });
}
void BM_AllGather(benchmark::State& state) {
  run_calls(state, [](Communicator& comm, auto full, auto) { comm.all_gather_in_place(full); });
}
void BM_AllToAll(benchmark::State& state) {
  run_calls(state, [](Communicator& comm, auto full, auto other) { comm.all_to_all(full, other); });
}
void BM_Broadcast(benchmark::State& state) {
  run_calls(state, [](Communicator& comm, auto full, auto) { comm.broadcast(full, 0); });
}
void BM_SendRecvRing(benchmark::State& state) {
  run_calls(state, [](Communicator& comm, auto full, auto other) {
    const std::array<Transfer, 2> transfers{
        Transfer{.is_send = true, .peer = (comm.rank() + 1) % comm.size(), .outgoing = full},
        Transfer{.peer = (comm.rank() + comm.size() - 1) % comm.size(), .incoming = other}};
    comm.exchange(transfers);
  });
}

void sizes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"ranks", "bytes"})->UseRealTime()->Unit(benchmark::kMicrosecond);
  for (const std::int64_t ranks : {2, 8}) {
    for (const std::int64_t num_bytes : {64 << 10, 16 << 20}) bench->Args({ranks, num_bytes});
  }
}

BENCHMARK(BM_Barrier)->ArgNames({"ranks", "bytes"})->Args({2, 0})->Args({8, 0})->UseRealTime();
BENCHMARK(BM_AllReduce)->Apply(sizes);
BENCHMARK(BM_ReduceScatter)->Apply(sizes);
BENCHMARK(BM_AllGather)->Apply(sizes);
BENCHMARK(BM_AllToAll)->Apply(sizes);
BENCHMARK(BM_Broadcast)->Apply(sizes);
BENCHMARK(BM_SendRecvRing)->Apply(sizes);

}  // namespace
}  // namespace trireme
