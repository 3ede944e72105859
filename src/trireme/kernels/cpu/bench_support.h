// What the kernel benchmarks share. Bench only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <omp.h>
#include <type_traits>

#include <benchmark/benchmark.h>

#include "trireme/base/bf16.h"

namespace trireme::kernels {

/// Aligned small values of type T, float or Bf16, that differ.
template <typename T = float>
class Buffer {
 public:
  explicit Buffer(std::int64_t elems)
      : values_(static_cast<T*>(std::aligned_alloc(
            64, static_cast<std::size_t>(elems * std::int64_t{sizeof(T)} + 63) / 64 * 64))) {
    for (std::int64_t i = 0; i < elems; ++i) {
      const float value = static_cast<float>((i * 7919) % 1000) * 1e-3F - 0.5F;
      if constexpr (std::is_same_v<T, Bf16>) {
        values_.get()[i] = to_bf16(value);
      } else {
        values_.get()[i] = value;
      }
    }
  }
  [[nodiscard]] T* at() const { return values_.get(); }

 private:
  struct Free {
    void operator()(T* values) const { std::free(values); }
  };
  std::unique_ptr<T, Free> values_;
};

inline void report_flops(benchmark::State& state, double flops) {
  state.counters["flops"] = benchmark::Counter(flops * static_cast<double>(state.iterations()),
                                               benchmark::Counter::kIsRate);
}

inline void report_bytes(benchmark::State& state, std::int64_t num_bytes) {
  state.SetBytesProcessed(state.iterations() * num_bytes);
}

}  // namespace trireme::kernels
