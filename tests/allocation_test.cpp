// No step after the first allocates: counted by replacing operator new.
#include <atomic>
#include <barrier>
#include <cstdint>
#include <cstdlib>
#include <new>

#include <gtest/gtest.h>

#include "step_harness.h"

extern "C" const char __executable_start;  // NOLINT: the linker's names
extern "C" const char etext;               // NOLINT: the linker's names

namespace {

std::atomic<bool> is_counting{false};          // NOLINT: operator new has no other way to be told
std::atomic<std::int64_t> num_allocations{0};  // NOLINT: nor to tell

/// Counts allocations that this program's own code asks for; libraries (oneDNN makes a few tiny
/// ones per product) call from elsewhere.
void* counted(std::size_t bytes, const void* caller) {
  const auto* const address = static_cast<const char*>(caller);
  if (is_counting.load(std::memory_order_relaxed) && address >= &__executable_start &&
      address < &etext) {
    num_allocations.fetch_add(1, std::memory_order_relaxed);
  }
  void* const memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t bytes) {
  return counted(bytes, __builtin_return_address(0));
}
void* operator new[](std::size_t bytes) {
  return counted(bytes, __builtin_return_address(0));
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace trireme {
namespace {

TEST(Allocations, AreCountedWhenOurCodeMakesThem) {
  num_allocations = 0;
  is_counting = true;
  std::vector<int>* const made = new std::vector<int>(100);
  is_counting = false;
  EXPECT_GE(num_allocations.load(), 1);
  delete made;
}

TEST(Allocations, NoneInStepsAfterTheFirst) {
  for (const Family family : {Family::kLlama, Family::kGpt2}) {
    const ModelSpec spec = resolved({.family = family,
                                     .layers = 2,
                                     .hidden = 24,
                                     .heads = 3,
                                     .kv_heads = 3,
                                     .ffn = 40,
                                     .vocab = 31,
                                     .max_seq = 16,
                                     .tied = family == Family::kGpt2,
                                     .dropout = family == Family::kGpt2 ? 0.1 : 0.0});
    HarnessOptions options{.steps = 4};
    options.sample = [](std::int64_t sample, std::span<std::int32_t> tokens,
                        std::span<std::int32_t> labels) {
      for (std::size_t t = 0; t < tokens.size(); ++t) {
        tokens[t] = static_cast<std::int32_t>((static_cast<std::size_t>(sample) + t) % 31);
        labels[t] = static_cast<std::int32_t>((static_cast<std::size_t>(sample) + t + 1) % 31);
      }
    };
    for (const int dp : {1, 2}) {
      num_allocations = 0;
      std::barrier all_ranks(dp, []() noexcept { is_counting = !is_counting; });
      options.on_run = [&](int step, bool) {
        if (step >= 1) all_ranks.arrive_and_wait();
      };
      const Layout layout{
          .dp = dp, .zero = dp - 1, .bucket_mib = 0.002, .recompute = Recompute::kFull};
      static_cast<void>(
          run_steps(spec, layout, {.seq = 8, .micro_batch = 2, .global_batch = 8}, options));
      EXPECT_FALSE(is_counting);
      EXPECT_EQ(num_allocations.load(), 0) << family_name(family) << ", dp " << dp;
    }
  }
}

}  // namespace
}  // namespace trireme
