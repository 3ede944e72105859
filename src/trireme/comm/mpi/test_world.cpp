// Test worlds of processes: views of the one world that mpirun has made. With the main() of the
// tests.
#include <cstdio>
#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

#include "trireme/comm/mpi_world.h"
#include "trireme/comm/on_ranks.h"

namespace trireme {
namespace {

// GoogleTest hands nothing to a test.
MpiWorld* processes = nullptr;  // NOLINT
int num_worlds = 0;             // NOLINT

/// The first ranks of the world, with purposes of its own.
class PartOfWorld final : public World {
 public:
  explicit PartOfWorld(int size) : size_(size), number_(num_worlds++) {}

  [[nodiscard]] int size() const override { return size_; }
  [[nodiscard]] RankRange local_ranks() const override {
    const int rank = processes->rank();
    return {.first = rank, .count = rank < size_ ? 1 : 0};
  }
  [[nodiscard]] std::unique_ptr<Communicator> communicator(int world_rank,
                                                           std::span<const int> world_ranks,
                                                           std::string_view purpose) override {
    return processes->communicator(world_rank, world_ranks,
                                   std::string(purpose) + std::to_string(number_));
  }
  void abort(int world_rank, std::exception_ptr cause) override {
    processes->abort(world_rank, std::move(cause));
  }
  void leave(int /*world_rank*/) override {}
  void begin_step(int /*world_rank*/, std::int64_t /*step*/) override {}
  [[nodiscard]] std::optional<FirstCause> first_cause() const override {
    return processes->first_cause();
  }

 private:
  int size_;
  int number_;
};

}  // namespace

std::unique_ptr<World> make_test_world(int size) {
  return std::make_unique<PartOfWorld>(size);
}

int max_test_ranks() {
  return processes->size();
}

}  // namespace trireme

int main(int argc, char** argv) {
  using namespace trireme;  // NOLINT: this is main
  testing::InitGoogleTest(&argc, argv);
  const Launch launch = read_launch([](const char* name) { return std::getenv(name); });
  MpiWorld world(launch, {.report =
                              [](const FirstCause& cause) {
                                std::fprintf(stderr, "%s\n", text_of(cause).c_str());
                              },
                          .end_process = [] { std::_Exit(1); }});
  processes = &world;
  return RUN_ALL_TESTS();
}
