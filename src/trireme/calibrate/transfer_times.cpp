#include "trireme/calibrate/transfer_times.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <numeric>
#include <span>
#include <thread>

#include "trireme/comm/run_ranks.h"
#include "trireme/comm/threads/thread_world.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

/// One operation on a buffer of floats.
void transfer(Communicator& all, Transfers kind, std::span<std::byte> buffer) {
  const bool travels_in_bf16 =
      kind == Transfers::kAllReduceBf16 || kind == Transfers::kReduceScatterBf16;
  const Reduction sum{.travels_in_bf16 = travels_in_bf16};
  const auto half = buffer.subspan(0, buffer.size() / 2), other = buffer.subspan(buffer.size() / 2);
  const int next = (all.rank() + 1) % all.size();
  const int previous = (all.rank() + all.size() - 1) % all.size();
  switch (kind) {
    case Transfers::kAllReduce:
    case Transfers::kAllReduceBf16:
      return all.all_reduce(half, sum);
    case Transfers::kReduceScatter:
    case Transfers::kReduceScatterBf16:
      return all.reduce_scatter_in_place(half, sum);
    case Transfers::kAllGather:
      return all.all_gather_in_place(half);
    case Transfers::kMessage:
      if (all.rank() == 0) all.send(half, 1, 0);
      if (all.rank() == 1) all.recv(half, 0, 0);
      return;
    case Transfers::kExchange: {
      const std::array<Transfer, 2> both{Transfer{.is_send = true, .peer = next, .outgoing = half},
                                         Transfer{.peer = previous, .incoming = other}};
      return all.exchange(both);
    }
  }
}

/// Of one operation in a row of them, on this rank.
double seconds_of(Communicator& all, Transfers kind, std::span<std::byte> buffer) {
  constexpr double kRowBytes = 1 << 22;
  const int repetitions =
      std::clamp(static_cast<int>(kRowBytes / static_cast<double>(buffer.size())), 2, 30);
  transfer(all, kind, buffer);
  all.barrier();
  const auto start = Clock::now();
  for (int i = 0; i < repetitions; ++i) transfer(all, kind, buffer);
  return std::chrono::duration<double>(Clock::now() - start).count() / repetitions;
}

}  // namespace

void measure_transfers(int num_ranks, const std::vector<double>& sizes_bytes,
                       TransferTimes& times) {
  ThreadWorld world(num_ranks);  // sleeps at once, as streams of ranks that compute do
  std::vector<int> ranks(static_cast<std::size_t>(num_ranks));
  std::iota(ranks.begin(), ranks.end(), 0);
  const double most = *std::max_element(sizes_bytes.begin(), sizes_bytes.end());
  run_ranks(world, [&](int rank) {
    const auto all = world.communicator(rank, ranks, "calibrate");
    std::vector<float> buffer(2 * static_cast<std::size_t>(most) / sizeof(float), 1.0F);
    for (int k = 0; k < kNumTransfers; ++k) {
      const auto kind = static_cast<Transfers>(k);
      const bool is_message = kind == Transfers::kMessage || kind == Transfers::kExchange;
      if (is_message && num_ranks != 2) continue;
      for (const double bytes : sizes_bytes) {
        const auto used =
            std::as_writable_bytes(std::span(buffer)).first(2 * static_cast<std::size_t>(bytes));
        const double seconds = seconds_of(*all, kind, used);
        all->barrier();
        if (rank != 0) continue;
        times[{.transfers = kind, .ranks = static_cast<double>(num_ranks), .bytes = bytes}]
            .push_back(seconds);
      }
    }
  });
}

double measured_wake_seconds() {
  constexpr int kRounds = 300;
  std::atomic<int> ball{0};
  const auto play = [&](int own) {
    for (int round = 0; round < kRounds; ++round) {
      for (int value = ball.load(); value % 2 != own; value = ball.load()) ball.wait(value);
      ball.fetch_add(1);
      ball.notify_all();
    }
  };
  const auto start = Clock::now();
  std::thread other([&] { play(1); });
  play(0);
  other.join();
  return std::chrono::duration<double>(Clock::now() - start).count() / (2 * kRounds);
}

}  // namespace trireme
