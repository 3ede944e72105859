#include "trireme/comm/launch.h"

#include <map>
#include <string>

#include <gtest/gtest.h>

#include "trireme/base/errors.h"

namespace trireme {
namespace {

using Variables = std::map<std::string, std::string>;

Launch launch_of(const Variables& variables) {
  return read_launch([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

Variables slurm(const std::string& rank, const std::string& node, const std::string& local) {
  return {{"SLURM_PROCID", rank}, {"SLURM_STEP_NUM_TASKS", "11"},
          {"SLURM_NODEID", node}, {"SLURM_LOCALID", local},
          {"SLURM_NTASKS", "11"}, {"SLURM_STEP_TASKS_PER_NODE", "4(x2),3"}};
}

std::string refusal(Transport wanted, const Launch& launch, int world) {
  try {
    static_cast<void>(chosen_transport(wanted, launch, world));
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(Launch, WithoutALauncherIsOneProcess) {
  EXPECT_EQ(launch_of({{"HOME", "x"}}), Launch{});
}

TEST(Launch, OfMpirunIsReadFromOpenMpisVariables) {
  EXPECT_EQ(launch_of({{"OMPI_COMM_WORLD_RANK", "5"},
                       {"OMPI_COMM_WORLD_SIZE", "8"},
                       {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                       {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}}),
            (Launch{.launcher = "mpirun", .rank = 5, .size = 8, .local_rank = 1, .local_size = 4}));
}

TEST(Launch, OfSrunTakesTheTasksOfTheOwnNode) {
  EXPECT_EQ(launch_of(slurm("6", "1", "2")),
            (Launch{.launcher = "srun", .rank = 6, .size = 11, .local_rank = 2, .local_size = 4}));
  EXPECT_EQ(launch_of(slurm("10", "2", "2")),
            (Launch{.launcher = "srun", .rank = 10, .size = 11, .local_rank = 2, .local_size = 3}));
}

TEST(Launch, InABatchScriptIsOneProcess) {
  EXPECT_EQ(launch_of({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}, {"SLURM_LOCALID", "0"}}),
            Launch{});
}

TEST(Launch, OfMpirunInABatchScriptIsMpiruns) {
  Variables variables = slurm("0", "0", "0");
  variables.insert({{"OMPI_COMM_WORLD_RANK", "1"},
                    {"OMPI_COMM_WORLD_SIZE", "2"},
                    {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                    {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}});
  EXPECT_EQ(launch_of(variables).launcher, "mpirun");
}

TEST(Launch, WithARankBeyondTheSizeIsRefused) {
  EXPECT_THROW(static_cast<void>(launch_of({{"OMPI_COMM_WORLD_RANK", "8"},
                                            {"OMPI_COMM_WORLD_SIZE", "8"},
                                            {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "8"}})),
               UsageError);
}

TEST(Launch, WithAWordForANumberIsRefused) {
  EXPECT_THROW(static_cast<void>(launch_of({{"OMPI_COMM_WORLD_SIZE", "many"}})), UsageError);
  EXPECT_THROW(static_cast<void>(launch_of(slurm("x", "0", "0"))), UsageError);
}

TEST(Launch, OnANodeThatSlurmDoesNotListIsRefused) {
  EXPECT_THROW(static_cast<void>(launch_of(slurm("1", "3", "1"))), UsageError);
}

TEST(ChosenTransport, IsMpiWhereALauncherStartedSeveral) {
  const Launch four{.launcher = "mpirun", .size = 4};
  EXPECT_EQ(chosen_transport(Transport::kAuto, four, 4), Transport::kMpi);
  EXPECT_EQ(chosen_transport(Transport::kMpi, four, 4), Transport::kMpi);
  EXPECT_EQ(chosen_transport(Transport::kAuto, {}, 4), Transport::kThreads);
  EXPECT_EQ(chosen_transport(Transport::kAuto, {.launcher = "mpirun"}, 4), Transport::kThreads);
}

TEST(ChosenTransport, IsRefusedForAnotherNumberOfProcesses) {
  const std::string message = refusal(Transport::kAuto, {.launcher = "mpirun", .size = 3}, 4);
  EXPECT_NE(message.find("= 4, but mpirun has started 3"), message.npos) << message;
}

TEST(ChosenTransport, IsRefusedForThreadsUnderALauncher) {
  const std::string message = refusal(Transport::kThreads, {.launcher = "srun", .size = 4}, 4);
  EXPECT_NE(message.find("srun has started 4 processes"), message.npos) << message;
}

TEST(ChosenTransport, IsRefusedForMpiWithoutALauncher) {
  const std::string message = refusal(Transport::kMpi, {}, 4);
  EXPECT_NE(message.find("mpirun -n 4"), message.npos) << message;
  EXPECT_EQ(chosen_transport(Transport::kMpi, {}, 1), Transport::kThreads);
}

}  // namespace
}  // namespace trireme
