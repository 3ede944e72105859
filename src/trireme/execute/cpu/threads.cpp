#include "trireme/execute/cpu/threads.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <memory>
#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "trireme/base/bf16.h"
#include "trireme/base/errors.h"
#include "trireme/execute/cpu/cpu_backend.h"
#include "trireme/kernels/cpu/matmul.h"

namespace trireme {

void run_on_any_core() {
  cpu_set_t all;
  CPU_ZERO(&all);
  for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) CPU_SET(cpu, &all);
  ::pthread_setaffinity_np(::pthread_self(), sizeof(all),
                           &all);  // the kernel keeps to the cores we may use
}

void set_rank_threads(int num_threads) {
  ::omp_set_dynamic(0);
  ::omp_set_num_threads(num_threads);
  // A product made for a larger team than it meets leaves a part of its result out, silently.
  int team = 1;
#pragma omp parallel
  {
#pragma omp single
    team = ::omp_get_num_threads();
  }
  if (team == num_threads) return;
  throw ResourceError(
      fmt::format("[threads] OpenMP gives a team of {} threads where {} are configured: no setting "
                  "may limit it; unset OMP_THREAD_LIMIT and OMP_MAX_ACTIVE_LEVELS, or use {}",
                  team, num_threads, team));
}

void keep_to_own_cores(int rank, int num_ranks, int num_threads) {
  cpu_set_t allowed;
  if (::pthread_getaffinity_np(::pthread_self(), sizeof(allowed), &allowed) != 0) return;
  if (CPU_COUNT(&allowed) != num_ranks * num_threads) return;
  cpu_set_t own;
  CPU_ZERO(&own);
  int number = 0;  // of an allowed core
  for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    if (number / num_threads == rank) CPU_SET(cpu, &own);
    ++number;
  }
  ::pthread_setaffinity_np(::pthread_self(), sizeof(own), &own);
}

int num_available_cores() {
  return std::max(1, std::min(::omp_get_num_procs(), ::omp_get_thread_limit()));
}

std::int64_t cpu_workspace_bytes(const Program& program, int num_threads) {
  std::int64_t bytes = 0;
  std::exception_ptr failure;
  std::thread([&] {
    try {
      set_rank_threads(num_threads);
      bytes = make_cpu_backend(program, num_threads)->workspace_bytes();
    } catch (...) {
      failure = std::current_exception();
    }
  }).join();
  if (failure) std::rethrow_exception(failure);
  return bytes;
}

double measured_peak_flops(DType compute, double seconds) {
  using Clock = std::chrono::steady_clock;
  constexpr std::int64_t kSize = 1024;
  kernels::Matmul product({.kind = kernels::MatmulKind::kForward,
                           .m = kSize,
                           .n = kSize,
                           .k = kSize,
                           .dtype = compute});
  std::vector<float> operand(kSize * kSize);
  for (std::size_t i = 0; i < operand.size();
       ++i)  // values that differ: AMX multiplies zeros faster
    operand[i] = static_cast<float>(i % 997) / 997 - 0.5F;
  if (compute == DType::kBf16)
    round_to_bf16(operand, std::as_writable_bytes(std::span(operand)).data());
  std::vector<float> c(kSize * kSize);
  std::vector<std::byte> scratch(static_cast<std::size_t>(product.scratch_bytes()) + 64);
  void* aligned = scratch.data();
  std::size_t space = scratch.size();
  std::align(64, static_cast<std::size_t>(product.scratch_bytes()), aligned, space);
  double best_seconds = 1e9;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  do {
    const auto start = Clock::now();
    product.run(operand.data(), operand.data(), nullptr, c.data(), aligned);
    best_seconds =
        std::min(best_seconds, std::chrono::duration<double>(Clock::now() - start).count());
  } while (Clock::now() < end);
  return 2.0 * kSize * kSize * kSize / best_seconds;
}

}  // namespace trireme
