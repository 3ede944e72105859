// Open MPI's own collectives, for comparison. Started by mpirun.
#include <mpi.h>

#include "collective_cases.h"

int main(int argc, char** argv) {
  using namespace trireme::bench;  // NOLINT: this is main
  MPI_Init(&argc, &argv);
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const auto barrier = [] { MPI_Barrier(MPI_COMM_WORLD); };
  warm_up(barrier);
  for (const std::int64_t num_bytes : kSizes) {
    const Floats full(num_bytes);
    const Floats shard(num_bytes / size);
    void* const all = full.span().data();
    const int count = static_cast<int>(num_bytes / 4);
    const std::array<std::function<void()>, kCollectives.size()> calls = {
        [&] { MPI_Allreduce(MPI_IN_PLACE, all, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); },
        [&] {
          MPI_Reduce_scatter_block(all, shard.span().data(), count / size, MPI_FLOAT, MPI_SUM,
                                   MPI_COMM_WORLD);
        },
        [&] {
          MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, count / size, MPI_FLOAT,
                        MPI_COMM_WORLD);
        }};
    for (std::size_t i = 0; i < calls.size(); ++i) {
      const double seconds = seconds_per_call(num_bytes, barrier, calls[i]);
      if (rank == 0) print_case("openmpi", kCollectives[i], size, num_bytes, seconds);
    }
  }
  MPI_Finalize();
}
