// V13 of a placement: buffers inside the arena, aligned, and apart from what is alive.
#include <algorithm>
#include <cstddef>
#include <map>

#include <fmt/format.h>

#include "trireme/program/roots.h"
#include "trireme/program/verify_step.h"

namespace trireme {
namespace {

/// Bytes of the arena that no placed buffer cuts, and who holds them while the step runs.
struct ArenaAtom {
  BufferId owner = -1;
  Clock used{};  ///< latest position on each stream that used the owner
};

/// Runs the step over the arena's bytes: a buffer may take bytes only from a buffer that is dead
/// and whose every use comes before, on any stream.
class ArenaCheck {
 public:
  ArenaCheck(const Program& program, const std::vector<std::int64_t>& offsets)
      : program_(program), order_(program), spans_(program.buffers.size()) {
    std::vector<std::int64_t> cuts;
    for (std::size_t id = 0; id < program.buffers.size(); ++id) {
      cuts.push_back(offsets[id]);
      cuts.push_back(offsets[id] + program.buffers[id].bytes);
    }
    std::sort(cuts.begin(), cuts.end());
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    const auto index = [&](std::int64_t offset) {
      return static_cast<int>(std::lower_bound(cuts.begin(), cuts.end(), offset) - cuts.begin());
    };
    for (std::size_t id = 0; id < spans_.size(); ++id) {
      spans_[id] = {.begin = index(offsets[id]),
                    .end = index(offsets[id] + program.buffers[id].bytes)};
    }
    Clock never;
    never.fill(-1);
    atoms_.assign(cuts.size(), {.owner = -1, .used = never});
    is_alive_.assign(spans_.size(), false);
  }

  std::optional<Violation> run() {
    for (std::size_t c = 0; c < program_.calls.size(); ++c) {
      const int index = program_.calls[c].template_index;
      const auto& instructions = program_.at(index).instructions;
      for (std::size_t i = 0; i < instructions.size(); ++i) {
        const At at{.call = static_cast<int>(c), .instruction = static_cast<int>(i)};
        for (const Use& use : instructions[i].uses) {
          if (program_.buffer(use.range.buffer).content != Content::kTransient) continue;
          if (auto found = take(at, instructions[i].stream, use)) return found;
        }
        for (const BufferId id : instructions[i].frees) {
          is_alive_[static_cast<std::size_t>(id)] = false;
        }
      }
    }
    return std::nullopt;
  }

 private:
  std::optional<Violation> take(At at, Stream stream, const Use& use) {
    const BufferId id = use.range.buffer;
    const int position = order_.position(at.call, at.instruction);
    const AtomSpan span = spans_[static_cast<std::size_t>(id)];
    for (int a = span.begin; a < span.end; ++a) {
      ArenaAtom& atom = atoms_[static_cast<std::size_t>(a)];
      if (atom.owner != id && atom.owner >= 0) {
        if (auto found = check_taken(at, use, atom, position)) return found;
      }
      if (atom.owner != id) {
        atom.owner = id;
        atom.used.fill(-1);
      }
      atom.used[static_cast<std::size_t>(stream)] = position;
    }
    is_alive_[static_cast<std::size_t>(id)] = true;
    return std::nullopt;
  }

  std::optional<Violation> check_taken(At at, const Use& use, const ArenaAtom& atom,
                                       int position) const {
    const std::string_view owner = program_.buffer(atom.owner).name;
    if (is_alive_[static_cast<std::size_t>(atom.owner)]) {
      return violation(program_, "V13", at, use.role, use.range,
                       {fmt::format("on bytes of {}, which is alive", owner),
                        "bytes that no other buffer needs"});
    }
    for (int s = 0; s < kNumStreams; ++s) {
      const int used = atom.used[static_cast<std::size_t>(s)];
      if (used < 0 || order_.is_ordered(used, static_cast<Stream>(s), position)) continue;
      return violation(program_, "V13", at, use.role, use.range,
                       {fmt::format("on bytes of {}, which stream {} may still use", owner,
                                    stream_name(static_cast<Stream>(s))),
                        "a wait for the last use, or bytes of its own"});
    }
    return std::nullopt;
  }

  const Program& program_;
  StepOrder order_;
  std::vector<AtomSpan> spans_;  ///< by buffer
  std::vector<ArenaAtom> atoms_;
  std::vector<bool> is_alive_;  ///< by buffer
};

/// Frames apart from each other and from what is transient.
std::optional<Violation> check_frames(const Program& program, const Placement& placement,
                                      std::size_t p) {
  struct Piece {
    std::int64_t begin = 0, end = 0;
    BufferId buffer = -1;
    bool is_framed = false;
  };
  std::vector<Piece> pieces;
  const auto index = static_cast<int>(p);
  const auto lives = lifetimes(program);
  for (std::size_t id = 0; id < program.buffers.size(); ++id) {
    const Buffer& buffer = program.buffers[id];
    const bool is_framed = buffer.content == Content::kFramed;
    const bool is_transient = buffer.content == Content::kTransient && !lives[id].empty();
    if ((!is_framed && !is_transient) || buffer.bytes == 0) continue;
    const int frames =
        is_framed ? program.pools[static_cast<std::size_t>(buffer.pool)].num_frames : 1;
    for (int frame = 0; frame < frames; ++frame) {
      const std::int64_t begin =
          placement.offset(index, static_cast<BufferId>(id), buffer.pool, frame);
      pieces.push_back({begin, begin + buffer.bytes, static_cast<BufferId>(id), is_framed});
    }
  }
  std::sort(pieces.begin(), pieces.end(),
            [](const Piece& a, const Piece& b) { return a.begin < b.begin; });
  const Piece* reach_framed = nullptr;
  const Piece* reach_any = nullptr;
  for (const Piece& next : pieces) {
    const Piece* before = next.is_framed ? reach_any : reach_framed;
    if (before != nullptr && before->end > next.begin) {
      return violation(program, "V13",
                       {fmt::format("{} at [{}:{}] and {} at [{}:{}] of the arena",
                                    program.buffer(before->buffer).name, before->begin, before->end,
                                    program.buffer(next.buffer).name, next.begin, next.end),
                        "frames apart from each other and from transient buffers"});
    }
    if (reach_any == nullptr || next.end > reach_any->end) reach_any = &next;
    if (next.is_framed && (reach_framed == nullptr || next.end > reach_framed->end))
      reach_framed = &next;
  }
  return std::nullopt;
}

/// A stretch of the arena: memory that a buffer keeps, or all that transient buffers share.
struct Stretch {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::string name;
  bool is_transient = false;
};

class PlacementCheck {
 public:
  PlacementCheck(const std::vector<const Program*>& programs, const Placement& placement)
      : programs_(programs), placement_(placement) {}

  std::optional<Violation> run() {
    for (std::size_t p = 0; p < programs_.size(); ++p) {
      if (auto found = collect(p)) return found;
    }
    if (auto found = find_overlap()) return found;
    for (std::size_t p = 0; p < programs_.size(); ++p) {
      if (auto found = check_frames(*programs_[p], placement_, p)) return found;
    }
    for (std::size_t p = 0; p < programs_.size(); ++p) {
      if (auto found = ArenaCheck(*programs_[p], placement_.offsets[p]).run()) return found;
    }
    return std::nullopt;
  }

 private:
  std::optional<Violation> collect(std::size_t p) {
    const Program& program = *programs_[p];
    if (p >= placement_.offsets.size() || placement_.offsets[p].size() != program.buffers.size() ||
        p >= placement_.frame_bytes.size() ||
        placement_.frame_bytes[p].size() != program.pools.size() ||
        std::any_of(placement_.frame_bytes[p].begin(), placement_.frame_bytes[p].end(),
                    [](std::int64_t bytes) { return bytes < 0 || bytes % kAlignBytes != 0; })) {
      return violation(program, "V13", {"a placement of other buffers", "one offset a buffer"});
    }
    for (std::size_t id = 0; id < program.buffers.size(); ++id) {
      const Buffer& buffer = program.buffers[id];
      const std::int64_t offset = placement_.offsets[p][id];
      const std::int64_t last = last_offset(program, buffer, p, id);
      const bool is_inside =
          offset >= 0 && last >= offset && last <= placement_.arena_bytes - buffer.bytes;
      if (!is_inside || offset % kAlignBytes != 0) {
        return violation(
            program, "V13",
            {fmt::format("{}[0:{}] at {} of the arena", buffer.name, buffer.bytes, offset),
             fmt::format("a multiple of {} inside the {} bytes of the arena", kAlignBytes,
                         placement_.arena_bytes)});
      }
      if (auto found = add(program, buffer, offset, last)) return found;
    }
    return std::nullopt;
  }

  /// Of the buffer's last frame.
  [[nodiscard]] std::int64_t last_offset(const Program& program, const Buffer& buffer,
                                         std::size_t p, std::size_t id) const {
    if (buffer.pool < 0) return placement_.offsets[p][id];
    return placement_.offset(static_cast<int>(p), static_cast<BufferId>(id), buffer.pool,
                             program.pools[static_cast<std::size_t>(buffer.pool)].num_frames - 1);
  }

  std::optional<Violation> add(const Program& program, const Buffer& buffer, std::int64_t offset,
                               std::int64_t last) {
    const bool is_transient =
        buffer.content == Content::kTransient || buffer.content == Content::kFramed;
    if (!is_transient) {
      const auto [place, is_new] = own_.try_emplace(buffer.name, offset);
      if (!is_new && place->second != offset) {
        return violation(program, "V13",
                         {fmt::format("{} at {} and {}", buffer.name, place->second, offset),
                          "one place for all programs of the arena"});
      }
      if (!is_new && buffer.bytes == bytes_[buffer.name]) return std::nullopt;
      bytes_[buffer.name] = std::max(bytes_[buffer.name], buffer.bytes);
    }
    if (buffer.bytes == 0) return std::nullopt;
    stretches_.push_back({offset, last + buffer.bytes, buffer.name, is_transient});
    return std::nullopt;
  }

  /// Memory that a buffer keeps is its own; transient buffers may share among themselves.
  std::optional<Violation> find_overlap() {
    std::sort(stretches_.begin(), stretches_.end(),
              [](const Stretch& a, const Stretch& b) { return a.begin < b.begin; });
    const Stretch* reach_own = nullptr;  // the one that ends last so far
    const Stretch* reach_any = nullptr;
    for (const Stretch& next : stretches_) {
      const Stretch* before = next.is_transient ? reach_own : reach_any;
      const bool is_same = before != nullptr && before->name == next.name;
      if (before != nullptr && before->end > next.begin && !is_same) {
        return violation(*programs_.front(), "V13",
                         {fmt::format("{} at [{}:{}] and {} at [{}:{}] of the arena", before->name,
                                      before->begin, before->end, next.name, next.begin, next.end),
                          "memory of its own for what is kept"});
      }
      if (reach_any == nullptr || next.end > reach_any->end) reach_any = &next;
      if (!next.is_transient && (reach_own == nullptr || next.end > reach_own->end))
        reach_own = &next;
    }
    return std::nullopt;
  }

  const std::vector<const Program*>& programs_;
  const Placement& placement_;
  std::map<std::string, std::int64_t, std::less<>> own_;    ///< offsets by name
  std::map<std::string, std::int64_t, std::less<>> bytes_;  ///< sizes by name
  std::vector<Stretch> stretches_;
};

}  // namespace

std::optional<Violation> verify_placement(const std::vector<const Program*>& programs,
                                          const Placement& placement) {
  return PlacementCheck(programs, placement).run();
}

}  // namespace trireme
