// Our collectives: between N threads (argument N), or, started by mpirun, between processes.
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <thread>
#include <vector>

#include "collective_cases.h"
#include "trireme/comm/mpi_world.h"
#include "trireme/comm/run_ranks.h"
#include "trireme/comm/threads/thread_world.h"

namespace trireme::bench {
namespace {

void measure(Communicator& all, std::string_view who) {
  const auto barrier = [&] { all.barrier(); };
  warm_up(barrier);
  for (const std::int64_t num_bytes : kSizes) {
    const Floats buffer(num_bytes);
    const std::array<std::function<void()>, kCollectives.size()> calls = {
        [&] { all.all_reduce(buffer.span(), {}); },
        [&] { all.reduce_scatter_in_place(buffer.span(), {}); },
        [&] { all.all_gather_in_place(buffer.span()); }};
    for (std::size_t i = 0; i < calls.size(); ++i) {
      const double seconds = seconds_per_call(num_bytes, barrier, calls[i]);
      if (all.rank() == 0) print_case(who, kCollectives[i], all.size(), num_bytes, seconds);
    }
  }
}

void run_world(World& world, std::string_view who) {
  std::vector<int> ranks(static_cast<std::size_t>(world.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  run_ranks(world, [&](int rank) { measure(*world.communicator(rank, ranks, "bench"), who); });
}

}  // namespace
}  // namespace trireme::bench

int main(int argc, char** argv) {
  using namespace trireme;  // NOLINT: this is main
  const Launch launch = read_launch([](const char* name) { return std::getenv(name); });
  if (launch.has_many()) {
    MpiWorld world(launch, {.report =
                                [](const FirstCause& cause) {
                                  std::fprintf(stderr, "%s\n", text_of(cause).c_str());
                                },
                            .end_process = [] { std::_Exit(1); }});
    bench::run_world(world, "mpi");
    return 0;
  }
  const int size = argc > 1 ? std::atoi(argv[1]) : 2;
  const bool has_cores = size <= static_cast<int>(std::thread::hardware_concurrency());
  ThreadWorld world(size, {.spin_count = has_cores ? 2000 : 0});
  bench::run_world(world, "threads");
}
