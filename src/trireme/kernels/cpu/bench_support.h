// What the kernel benchmarks share. Bench only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <omp.h>

#include <benchmark/benchmark.h>

namespace trireme::kernels {

/// Aligned floats with small values that differ.
class Buffer {
 public:
  explicit Buffer(std::int64_t elems)
      : floats_(static_cast<float*>(
            std::aligned_alloc(64, static_cast<std::size_t>((elems * 4 + 63) / 64 * 64)))) {
    for (std::int64_t i = 0; i < elems; ++i) {
      floats_.get()[i] = static_cast<float>((i * 7919) % 1000) * 1e-3F - 0.5F;
    }
  }
  [[nodiscard]] float* at() const { return floats_.get(); }

 private:
  struct Free {
    void operator()(float* floats) const { std::free(floats); }
  };
  std::unique_ptr<float, Free> floats_;
};

inline void report_flops(benchmark::State& state, double flops) {
  state.counters["flops"] = benchmark::Counter(flops * static_cast<double>(state.iterations()),
                                               benchmark::Counter::kIsRate);
}

inline void report_bytes(benchmark::State& state, std::int64_t num_bytes) {
  state.SetBytesProcessed(state.iterations() * num_bytes);
}

}  // namespace trireme::kernels
