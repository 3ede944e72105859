#include "trireme/data/sample_index.h"

#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include "trireme/base/errors.h"
#include "trireme/base/philox.h"
#include "trireme/base/units.h"

namespace trireme {
namespace {

/// Half the bits of the least even-bit domain that holds [0, num_windows).
int feistel_half_bits(std::int64_t num_windows) {
  const auto bits = narrow<int>(std::bit_width(static_cast<std::uint64_t>(num_windows - 1)));
  return std::max(1, (bits + 1) / 2);
}

}  // namespace

SampleIndex::SampleIndex(std::int64_t num_windows, std::uint64_t seed)
    : num_windows_(num_windows), key_(philox_key(seed, "data.order")) {
  if (num_windows < 1) {
    throw UsageError(
        fmt::format("[data] {} windows of training data; at least one is needed; add "
                    "text or shorten batch.seq",
                    num_windows));
  }
  half_bits_ = feistel_half_bits(num_windows);
}

std::int64_t SampleIndex::epoch_of(std::int64_t sample) const {
  TRI_CHECK(sample >= 0);
  return sample / num_windows_;
}

// Cycle walking (Black and Rogaway 2002, "Ciphers with arbitrary finite domains", section 4): the
// network permutes a power of four; following it until it returns into [0, num_windows) permutes
// just that range. The domain is below 4 * num_windows, so four rounds of it are expected at most.
std::int64_t SampleIndex::window_of(std::int64_t sample) const {
  const auto epoch = static_cast<std::uint64_t>(epoch_of(sample));
  auto value = static_cast<std::uint64_t>(sample % num_windows_);
  do {
    value = feistel(value, epoch);
  } while (value >= static_cast<std::uint64_t>(num_windows_));
  return static_cast<std::int64_t>(value);
}

std::int64_t SampleIndex::num_full_batches(std::int64_t global_batch) const {
  TRI_CHECK(global_batch >= 1);
  return num_windows_ / global_batch;
}

std::uint64_t SampleIndex::feistel(std::uint64_t value, std::uint64_t epoch) const {
  // Four rounds make a strong pseudorandom permutation (Luby and Rackoff 1988) of a large domain;
  // eight, because ours may have as few as four elements.
  constexpr std::uint32_t kRounds = 8;
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  std::uint64_t left = value >> half_bits_;
  std::uint64_t right = value & mask;
  for (std::uint32_t round = 0; round < kRounds; ++round) {
    const PhiloxBlock counter = {static_cast<std::uint32_t>(right), round,
                                 static_cast<std::uint32_t>(epoch),
                                 static_cast<std::uint32_t>(epoch >> 32)};
    const std::uint64_t mixed = left ^ (philox(key_, counter)[0] & mask);
    left = right;
    right = mixed;
  }
  return (left << half_bits_) | right;
}

}  // namespace trireme
