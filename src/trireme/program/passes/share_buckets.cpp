// Memory of buckets that are reduced at once: a few, each used by one bucket after the other.
#include <algorithm>
#include <bit>
#include <cstddef>
#include <map>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "trireme/base/units.h"
#include "trireme/program/passes/passes.h"
#include "trireme/program/roots.h"

namespace trireme {
namespace {

/// A bucket within the backward pass of a micro-batch: from its first write to its reduction.
struct BucketLife {
  BufferId grads = -1;
  std::size_t first = 0;
  std::size_t last = 0;
};

/// Memory for buckets of about one size.
struct Slot {
  int size_class = 0;
  std::int64_t bytes = 0;
  std::size_t busy_until = 0;  ///< instruction of the template in hand
  std::vector<BufferId> buckets = {};
};

std::vector<BufferId> buckets_reduced_at_once(const Program& program) {
  std::vector<BufferId> buckets;
  const int num = num_roots(program);
  for (int root = 0; root < num; ++root) {
    if (is_reduced_at_once(program, root))
      buckets.push_back(*program.find_buffer(root_name("grads", root)));
  }
  return buckets;
}

/// Of `buckets`, in the order of their first writes.
std::vector<BucketLife> lives_in(const Program& program, const std::vector<BufferId>& buckets,
                                 const Template& item) {
  std::map<BufferId, BucketLife> lives;
  for (std::size_t i = 0; i < item.instructions.size(); ++i) {
    const Instruction& instruction = item.instructions[i];
    for (const Use& use : instruction.uses) {
      const Buffer& buffer = program.buffer(use.range.buffer);
      if (buffer.kind != MemoryKind::kGradients) continue;
      lives.try_emplace(use.range.buffer, BucketLife{.grads = use.range.buffer, .first = i})
          .first->second.last = i;
    }
  }
  std::vector<BucketLife> all;
  for (const BufferId bucket : buckets) {
    const auto life = lives.find(bucket);
    if (life != lives.end()) all.push_back(life->second);
  }
  std::sort(all.begin(), all.end(),
            [](const BucketLife& a, const BucketLife& b) { return a.first < b.first; });
  return all;
}

class BucketSharing {
 public:
  explicit BucketSharing(Program& program)
      : program_(program), buckets_(buckets_reduced_at_once(program)) {}

  void apply() {
    std::vector<bool> is_done(program_.templates.size(), false);
    for (const Call& call : program_.calls) {
      const auto index = static_cast<std::size_t>(call.template_index);
      if (call.micro_batch >= 0 && !is_done[index]) give_slots(program_.at(call.template_index));
      is_done[index] = true;
    }
    if (slots_.empty()) return;
    std::vector<Range> moved(program_.buffers.size());
    for (std::size_t s = 0; s < slots_.size(); ++s) {
      const BufferId id = program_.add_buffer({.name = fmt::format("grad_bucket.{}", s),
                                               .kind = MemoryKind::kCommunication,
                                               .content = Content::kStep,
                                               .bytes = slots_[s].bytes});
      for (const BufferId bucket : slots_[s].buckets)
        moved[static_cast<std::size_t>(bucket)] = {id, 0, 0};
    }
    moved.resize(program_.buffers.size());
    move_buffers(program_, moved);
  }

 private:
  /// Of two buckets one after the other the second fills while the first is reduced: they have
  /// different slots. Buckets of very different sizes share none.
  void give_slots(const Template& item) {
    for (Slot& slot : slots_) slot.busy_until = 0;
    for (const BucketLife& life : lives_in(program_, buckets_, item)) {
      const auto known = slot_of_.find(life.grads);
      const std::size_t number = known != slot_of_.end() ? known->second : free_slot(life);
      slots_[number].busy_until = life.last;
      latest_ = number;
    }
  }

  std::size_t free_slot(const BucketLife& life) {
    const std::int64_t bytes = program_.buffer(life.grads).bytes;
    const auto size_class = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(bytes)));
    std::optional<std::size_t> best;
    for (std::size_t s = 0; s < slots_.size(); ++s) {
      const bool is_free =
          s != latest_ && slots_[s].size_class == size_class && slots_[s].busy_until <= life.first;
      if (is_free && (!best || slots_[s].busy_until < slots_[*best].busy_until)) best = s;
    }
    if (!best) {
      best = slots_.size();
      slots_.push_back({.size_class = size_class});
    }
    slots_[*best].bytes = std::max(slots_[*best].bytes, bytes);
    slots_[*best].buckets.push_back(life.grads);
    slot_of_[life.grads] = *best;
    return *best;
  }

  Program& program_;
  std::vector<BufferId> buckets_;  ///< that are reduced at once
  std::vector<Slot> slots_;
  std::map<BufferId, std::size_t> slot_of_;  ///< by bucket
  std::optional<std::size_t> latest_;        ///< slot of the bucket before
};

}  // namespace

void share_buckets(Program& program) {
  BucketSharing(program).apply();
}

}  // namespace trireme
