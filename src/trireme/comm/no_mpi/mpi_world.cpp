// The stub of a build without MPI.
#include "trireme/comm/mpi_world.h"

#include <utility>

#include "trireme/base/errors.h"

namespace trireme {

struct MpiWorld::State {};

// NOLINTNEXTLINE(performance-unnecessary-value-param): declared for the build with MPI
MpiWorld::MpiWorld(Launch launch, MpiWorldOptions /*options*/) : launch_(std::move(launch)) {
  throw UsageError(
      "[layout] transport = \"mpi\": this program was built without MPI; install the packages "
      "libopenmpi-dev and openmpi-bin and build again, or run ranks as threads, without mpirun");
}

MpiWorld::~MpiWorld() = default;

bool MpiWorld::is_built() {
  return false;
}

// No object exists, so these are never called.
void MpiWorld::wait_for_all() {}
void MpiWorld::set_timeout(double /*seconds*/) {}
std::unique_ptr<Communicator> MpiWorld::communicator(int /*world_rank*/,
                                                     std::span<const int> /*world_ranks*/,
                                                     std::string_view /*purpose*/) {
  return nullptr;
}
void MpiWorld::abort(int /*world_rank*/, std::exception_ptr /*cause*/) {}
void MpiWorld::begin_step(int /*world_rank*/, std::int64_t /*step*/) {}
std::optional<FirstCause> MpiWorld::first_cause() const {
  return std::nullopt;
}

}  // namespace trireme
