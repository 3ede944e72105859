// xxHash64 over pieces. Private to the layer: it exposes <xxhash.h>.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <xxhash.h>

#include <fmt/format.h>

#include "trireme/base/errors.h"

namespace trireme {

class Xxh64 {
 public:
  Xxh64() : state_(XXH64_createState()) {
    TRI_CHECK(state_ != nullptr && XXH64_reset(state_.get(), 0) == XXH_OK);
  }
  void update(std::span<const std::byte> bytes) {
    if (!bytes.empty()) XXH64_update(state_.get(), bytes.data(), bytes.size());
  }
  [[nodiscard]] std::string hex() const {
    return fmt::format("{:016x}", XXH64_digest(state_.get()));
  }

 private:
  struct Free {
    void operator()(XXH64_state_t* state) const { XXH64_freeState(state); }
  };
  std::unique_ptr<XXH64_state_t, Free> state_;
};

}  // namespace trireme
