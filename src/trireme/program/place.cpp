#include "trireme/program/place.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <numeric>
#include <string_view>

#include "trireme/base/errors.h"
#include "trireme/base/units.h"
#include "trireme/program/roots.h"

namespace trireme {
namespace {

constexpr std::size_t index_of(MemoryKind kind) {
  return static_cast<std::size_t>(kind);
}

bool has_own_memory(const Buffer& buffer) {
  return buffer.content != Content::kTransient && buffer.content != Content::kFramed;
}

/// One transient buffer to pack.
struct Item {
  BufferId buffer = -1;
  std::int64_t bytes = 0;
  std::vector<Lifetime> lives;
  [[nodiscard]] std::int64_t duration() const {
    std::int64_t total = 0;
    for (const Lifetime& life : lives) total += life.last - life.first + 1;
    return total;
  }
};

std::vector<Item> transient_items(const Program& program) {
  const auto lives = lifetimes(program);
  std::vector<Item> items;
  for (std::size_t id = 0; id < program.buffers.size(); ++id) {
    if (lives[id].empty()) continue;
    items.push_back({.buffer = narrow<BufferId>(id),
                     .bytes = round_up(program.buffers[id].bytes, kAlignBytes),
                     .lives = lives[id]});
  }
  return items;
}

struct Packing {
  std::vector<std::int64_t> offsets = {};  ///< by item
  std::int64_t bytes = 0;
};

/// Of each item the others that are alive at the same time as it, some more than once.
using Neighbours = std::vector<std::vector<std::size_t>>;

Neighbours alive_together(const Program& program, const std::vector<Item>& items) {
  struct Span {
    Lifetime life;
    std::size_t item = 0;
  };
  std::vector<std::vector<Span>> spans(program.templates.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    for (const Lifetime& life : items[i].lives)
      spans.at(static_cast<std::size_t>(life.template_index)).push_back({life, i});
  }
  Neighbours neighbours(items.size());
  for (std::vector<Span>& all : spans) {
    std::sort(all.begin(), all.end(),
              [](const Span& a, const Span& b) { return a.life.first < b.life.first; });
    std::vector<Span> alive;
    for (const Span& span : all) {
      std::erase_if(alive, [&](const Span& other) { return other.life.last < span.life.first; });
      for (const Span& other : alive) {
        neighbours[span.item].push_back(other.item);
        neighbours[other.item].push_back(span.item);
      }
      alive.push_back(span);
    }
  }
  return neighbours;
}

/// Places items in the given order, each at the lowest offset where it overlaps no item alive with
/// it.
Packing pack(const std::vector<Item>& items, const Neighbours& neighbours,
             const std::vector<std::size_t>& order) {
  constexpr std::int64_t kNotPlaced = -1;
  Packing packing{.offsets = std::vector<std::int64_t>(items.size(), kNotPlaced)};
  std::vector<std::pair<std::int64_t, std::int64_t>> taken;  // begin and end
  for (const std::size_t item : order) {
    taken.clear();
    for (const std::size_t other : neighbours[item]) {
      const std::int64_t begin = packing.offsets[other];
      if (begin != kNotPlaced) taken.emplace_back(begin, begin + items[other].bytes);
    }
    std::sort(taken.begin(), taken.end());
    std::int64_t offset = 0;
    for (const auto& [begin, end] : taken) {
      if (begin >= offset + items[item].bytes) break;
      offset = std::max(offset, end);
    }
    packing.offsets[item] = offset;
    packing.bytes = std::max(packing.bytes, offset + items[item].bytes);
  }
  return packing;
}

template <typename Key>
std::vector<std::size_t> descending(const std::vector<Item>& items, Key key) {
  std::vector<std::size_t> order(items.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return key(items[a]) > key(items[b]); });
  return order;
}

/// Most transient bytes alive at one instruction.
std::int64_t live_peak(const Program& program, const std::vector<Item>& items, PeakPoint& peak) {
  std::vector<std::vector<std::int64_t>> changes;
  for (const Template& item : program.templates) changes.emplace_back(item.instructions.size() + 1);
  for (const Item& item : items) {
    for (const Lifetime& life : item.lives) {
      auto& change = changes.at(static_cast<std::size_t>(life.template_index));
      change.at(static_cast<std::size_t>(life.first)) += item.bytes;
      change.at(static_cast<std::size_t>(life.last) + 1) -= item.bytes;
    }
  }
  std::int64_t most = 0;
  for (std::size_t t = 0; t < changes.size(); ++t) {
    const std::vector<std::int64_t>& change = changes[t];
    std::int64_t live = 0;
    for (std::size_t i = 0; i + 1 < change.size(); ++i) {
      live += change[i];
      if (live <= most) continue;
      most = live;
      peak.template_index = narrow<int>(t);
      peak.instruction = narrow<int>(i);
    }
  }
  return most;
}

/// `least_bytes`: no packing has fewer.
Packing best_packing(const Program& program, const std::vector<Item>& items,
                     std::int64_t least_bytes, std::string& name) {
  const Neighbours neighbours = alive_together(program, items);
  const std::array<std::pair<const char*, std::vector<std::size_t>>, 3> orders = {{
      {"size", descending(items, [](const Item& item) { return item.bytes; })},
      {"size*lifetime",
       descending(items, [](const Item& item) { return item.bytes * item.duration(); })},
      {"program", descending(items, [](const Item&) { return 0; })},
  }};
  Packing best{.bytes = std::numeric_limits<std::int64_t>::max()};
  for (const auto& [order_name, order] : orders) {
    Packing packing = pack(items, neighbours, order);
    if (packing.bytes >= best.bytes) continue;
    best = std::move(packing);
    name = order_name;
    if (best.bytes == least_bytes) break;
  }
  return best;
}

/// Slots of the buffers with memory of their own, shared by name, grouped by kind.
class OwnMemory {
 public:
  explicit OwnMemory(const std::vector<const Program*>& programs) {
    for (const Program* program : programs) {
      for (const Buffer& buffer : program->buffers) {
        if (!has_own_memory(buffer)) continue;
        auto& slots = slots_.at(index_of(buffer.kind));
        const auto found = std::find_if(slots.begin(), slots.end(),
                                        [&](const Slot& slot) { return slot.name == buffer.name; });
        if (found == slots.end()) {
          slots.push_back({.name = buffer.name, .bytes = buffer.bytes});
        } else {
          found->bytes = std::max(found->bytes, buffer.bytes);
        }
      }
    }
  }

  /// Gives every slot its offset, kind after kind; returns the end.
  std::int64_t lay_out(KindBytes& kind_bytes) {
    std::int64_t offset = 0;
    for (std::size_t kind = 0; kind < slots_.size(); ++kind) {
      const std::int64_t begin = offset;
      for (Slot& slot : slots_[kind]) {
        slot.offset = offset;
        offset += round_up(slot.bytes, kAlignBytes);
        offsets_[slot.name] = slot.offset;
      }
      kind_bytes.at(kind) = offset - begin;
    }
    return offset;
  }

  [[nodiscard]] std::int64_t offset(std::string_view name) const {
    return offsets_.find(name)->second;
  }

 private:
  struct Slot {
    std::string name;
    std::int64_t bytes = 0;
    std::int64_t offset = 0;
  };
  std::array<std::vector<Slot>, kNumMemoryKinds> slots_;
  std::map<std::string, std::int64_t, std::less<>> offsets_;
};

/// Lays the pools out from `begin`; fills the offsets of frame 0 and returns the end.
std::int64_t lay_out_pools(const Program& program, std::int64_t begin,
                           std::vector<std::int64_t>& offsets,
                           std::vector<std::int64_t>& frame_bytes) {
  for (std::size_t pool = 0; pool < program.pools.size(); ++pool) {
    std::int64_t bytes = 0;
    for (std::size_t id = 0; id < program.buffers.size(); ++id) {
      if (program.buffers[id].pool != narrow<int>(pool)) continue;
      offsets[id] = begin + bytes;
      bytes += round_up(program.buffers[id].bytes, kAlignBytes);
    }
    frame_bytes.push_back(bytes);
    begin += bytes * program.pools[pool].num_frames;
  }
  return begin;
}

}  // namespace

std::vector<std::vector<Lifetime>> lifetimes(const Program& program) {
  std::vector<std::vector<Lifetime>> lives(program.buffers.size());
  for (std::size_t t = 0; t < program.templates.size(); ++t) {
    const auto& instructions = program.templates[t].instructions;
    for (std::size_t i = 0; i < instructions.size(); ++i) {
      for (const Use& use : instructions[i].uses) {
        auto& life = lives[static_cast<std::size_t>(use.range.buffer)];
        if (program.buffer(use.range.buffer).content != Content::kTransient) continue;
        const bool is_first = life.empty() || life.back().template_index != narrow<int>(t);
        if (is_first) life.push_back({.template_index = narrow<int>(t), .first = narrow<int>(i)});
        life.back().last = std::max(life.back().last, narrow<int>(i));
      }
      for (const BufferId id : instructions[i].frees) {
        auto& life = lives.at(static_cast<std::size_t>(id));
        if (!life.empty()) life.back().last = std::max(life.back().last, narrow<int>(i));
      }
    }
  }
  return lives;
}

Placement place(const std::vector<const Program*>& programs) {
  TRI_CHECK(!programs.empty());
  Placement placement;
  OwnMemory own(programs);
  const std::int64_t transient_begin = own.lay_out(placement.kind_bytes);
  std::int64_t transient_bytes = 0, most_live = -1;
  for (std::size_t p = 0; p < programs.size(); ++p) {
    const Program& program = *programs[p];
    const std::vector<Item> items = transient_items(program);
    PeakPoint peak{.program = narrow<int>(p)};
    const std::int64_t live_bytes = live_peak(program, items, peak);
    std::string packing_name;
    const Packing packing = best_packing(program, items, live_bytes, packing_name);
    auto& offsets = placement.offsets.emplace_back(program.buffers.size(), transient_begin);
    const std::int64_t pools_end =
        lay_out_pools(program, transient_begin, offsets, placement.frame_bytes.emplace_back());
    const std::int64_t pool_bytes = pools_end - transient_begin;
    const std::int64_t live = pool_bytes + live_bytes;
    if (live > most_live) {
      most_live = live;
      placement.peak = peak;
      placement.packing = packing_name;
    }
    transient_bytes = std::max(transient_bytes, pool_bytes + packing.bytes);
    for (std::size_t id = 0; id < offsets.size(); ++id) {
      if (has_own_memory(program.buffers[id])) offsets[id] = own.offset(program.buffers[id].name);
    }
    for (std::size_t i = 0; i < items.size(); ++i) {
      offsets[static_cast<std::size_t>(items[i].buffer)] = pools_end + packing.offsets[i];
    }
  }
  placement.kind_bytes.at(index_of(MemoryKind::kActivations)) += transient_bytes;
  placement.arena_bytes = transient_begin + transient_bytes;
  placement.lower_bound_bytes = transient_begin + std::max<std::int64_t>(most_live, 0);
  return placement;
}

}  // namespace trireme
