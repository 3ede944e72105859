#include "trireme/calibrate/machine.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <mutex>
#include <thread>
#include <unistd.h>
#include <vector>

#include "trireme/execute/cpu/threads.h"

namespace trireme {
namespace {

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "CPU";
}

}  // namespace

Machine this_machine() {
  double load = 0;
  ::getloadavg(&load, 1);
  return {.cpu = cpu_name(),
          .num_cores = num_available_cores(),
          .memory_bytes = static_cast<double>(::sysconf(_SC_PHYS_PAGES)) *
                          static_cast<double>(::sysconf(_SC_PAGESIZE)),
          .load = load};
}

double measured_copy_bytes_per_second(int num_threads) {
  using Clock = std::chrono::steady_clock;
  constexpr std::size_t kBytes = std::size_t{1} << 26;  // beyond the caches
  constexpr int kRepetitions = 3;
  double slowest = 0;
  std::mutex mutex;  // guards `slowest`
  const auto copy = [&] {
    std::vector<char> from(kBytes, 1), to(kBytes, 2);
    const auto start = Clock::now();
    for (int i = 0; i < kRepetitions; ++i) {
      std::memcpy(to.data(), from.data(), kBytes);
      from[static_cast<std::size_t>(i)] = to[kBytes / 2];
    }
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    const std::lock_guard lock(mutex);
    slowest = std::max(slowest, seconds);
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < num_threads; ++i) threads.emplace_back(copy);
  for (std::thread& thread : threads) thread.join();
  return 2.0 * kRepetitions * static_cast<double>(kBytes) / slowest;
}

}  // namespace trireme
