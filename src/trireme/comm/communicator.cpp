#include "trireme/comm/communicator.h"

#include <array>

#include <fmt/format.h>

#include "trireme/base/errors.h"

namespace trireme {

void Communicator::send(std::span<const std::byte> message, int peer, int tag) {
  const std::array<Transfer, 1> transfers{
      Transfer{.is_send = true, .peer = peer, .tag = tag, .outgoing = message}};
  exchange(transfers);
}

void Communicator::recv(std::span<std::byte> message, int peer, int tag) {
  const std::array<Transfer, 1> transfers{
      Transfer{.is_send = false, .peer = peer, .tag = tag, .incoming = message}};
  exchange(transfers);
}

std::span<std::byte> Communicator::own_shard(std::span<std::byte> full) const {
  const auto num_shards = static_cast<std::size_t>(size_);
  if (full.size() % num_shards != 0) {
    throw UsageError(fmt::format(
        "[comm] a buffer of {} bytes has no {} equal shards; pad it to a multiple of {}",
        full.size(), size_, size_));
  }
  const std::size_t shard_bytes = full.size() / num_shards;
  return full.subspan(static_cast<std::size_t>(rank_) * shard_bytes, shard_bytes);
}

void Communicator::reduce_scatter_in_place(std::span<std::byte> full, Reduction reduction) {
  reduce_scatter(full, own_shard(full), reduction);
}

void Communicator::all_gather_in_place(std::span<std::byte> full) {
  all_gather(own_shard(full), full);
}

}  // namespace trireme
