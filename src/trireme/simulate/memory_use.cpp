#include "trireme/simulate/memory_use.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "trireme/base/errors.h"
#include "trireme/base/units.h"
#include "trireme/program/roots.h"

namespace trireme {
namespace {

/// A life on the clock; of a buffer, or of all buffers of a pool's frame.
struct Life {
  double from = 0;
  double to = 0;
  BufferId buffer = -1;
  int pool = -1;
  int position = 0;  ///< of the instruction that begins it
};

bool has_own_memory(const Buffer& buffer) {
  return buffer.content != Content::kTransient && buffer.content != Content::kFramed;
}

std::int64_t placed_bytes(const Buffer& buffer) {
  return round_up(buffer.bytes, kAlignBytes);
}

/// The lives of one step.
class Lives {
 public:
  Lives(const Program& program, const std::vector<OpTime>& times)
      : program_(program), times_(times), bases_(call_bases(program)) {
    add_transients();
    add_frames();
  }

  [[nodiscard]] const std::vector<Life>& all() const { return lives_; }

 private:
  struct Flight {
    int micro_batch = 0;
    std::size_t first_call = 0;
    std::size_t last_call = 0;
  };

  void add(Life life) {
    if (life.to > life.from) lives_.push_back(life);
  }

  void add_transients() {
    std::vector<std::vector<std::pair<BufferId, Lifetime>>> by_template(program_.templates.size());
    const auto lives = lifetimes(program_);
    for (std::size_t id = 0; id < lives.size(); ++id) {
      for (const Lifetime& life : lives[id]) {
        by_template[static_cast<std::size_t>(life.template_index)].emplace_back(
            narrow<BufferId>(id), life);
      }
    }
    for (std::size_t c = 0; c < program_.calls.size(); ++c) {
      const auto& of_call = by_template[static_cast<std::size_t>(program_.calls[c].template_index)];
      for (const auto& [buffer, life] : of_call) {
        const int first = bases_[c] + life.first;
        const int last = bases_[c] + life.last;
        add({.from = times_[static_cast<std::size_t>(first)].start,
             .to = times_[static_cast<std::size_t>(last)].end,
             .buffer = buffer,
             .position = first});
      }
    }
  }

  void add_frames() {
    std::map<std::pair<int, int>, Flight> flights;  // by pool and frame
    for (std::size_t c = 0; c < program_.calls.size(); ++c) {
      const Call& call = program_.calls[c];
      for (const CallFrame& frame : call.frames) {
        const Flight begun{.micro_batch = call.micro_batch, .first_call = c, .last_call = c};
        const auto [at, is_new] = flights.try_emplace({frame.pool, frame.frame}, begun);
        if (!is_new && at->second.micro_batch != call.micro_batch) {
          land(frame.pool, at->second);
          at->second = begun;
        }
        at->second.last_call = c;
      }
    }
    for (const auto& [at, flight] : flights) land(at.first, flight);
  }

  void land(int pool, const Flight& flight) {
    double from = std::numeric_limits<double>::infinity(), to = 0;
    for (int i = bases_[flight.first_call]; i < bases_[flight.first_call + 1]; ++i)
      from = std::min(from, times_[static_cast<std::size_t>(i)].start);
    for (int i = bases_[flight.last_call]; i < bases_[flight.last_call + 1]; ++i)
      to = std::max(to, times_[static_cast<std::size_t>(i)].end);
    add({.from = from, .to = to, .pool = pool, .position = bases_[flight.first_call]});
  }

  const Program& program_;
  const std::vector<OpTime>& times_;
  std::vector<int> bases_;
  std::vector<Life> lives_;
};

/// By pool and kind: bytes of one frame.
std::vector<KindBytes> frame_bytes(const Program& program) {
  std::vector<KindBytes> bytes(program.pools.size());
  for (const Buffer& buffer : program.buffers) {
    if (buffer.pool < 0) continue;
    bytes[static_cast<std::size_t>(buffer.pool)].at(static_cast<std::size_t>(buffer.kind)) +=
        placed_bytes(buffer);
  }
  return bytes;
}

KindBytes own_bytes(const Program& program) {
  KindBytes bytes{};
  for (const Buffer& buffer : program.buffers) {
    if (has_own_memory(buffer))
      bytes.at(static_cast<std::size_t>(buffer.kind)) += placed_bytes(buffer);
  }
  return bytes;
}

/// What lives at the peak: the sum of the bytes is the peak's.
std::vector<LiveBuffer> live_at(const Program& program, const std::vector<Life>& lives,
                                double seconds) {
  std::vector<int> copies(program.buffers.size());
  std::vector<int> frames(program.pools.size());
  for (const Life& life : lives) {
    if (life.from > seconds || life.to <= seconds) continue;
    ++(life.pool < 0 ? copies[static_cast<std::size_t>(life.buffer)]
                     : frames[static_cast<std::size_t>(life.pool)]);
  }
  std::vector<LiveBuffer> live;
  for (std::size_t id = 0; id < program.buffers.size(); ++id) {
    const Buffer& buffer = program.buffers[id];
    const int count = has_own_memory(buffer) ? 1
                      : buffer.pool < 0      ? copies[id]
                                             : frames[static_cast<std::size_t>(buffer.pool)];
    if (count > 0 && buffer.bytes > 0) {
      live.push_back({.name = buffer.name, .bytes = placed_bytes(buffer) * count, .copies = count});
    }
  }
  std::stable_sort(live.begin(), live.end(),
                   [](const LiveBuffer& a, const LiveBuffer& b) { return a.bytes > b.bytes; });
  return live;
}

struct Change {
  double seconds = 0;
  bool begins = false;
  std::size_t life = 0;
};

std::vector<Change> changes_of(const std::vector<Life>& lives) {
  std::vector<Change> changes;
  for (std::size_t i = 0; i < lives.size(); ++i) {
    changes.push_back({.seconds = lives[i].from, .begins = true, .life = i});
    changes.push_back({.seconds = lives[i].to, .begins = false, .life = i});
  }
  // At one moment what ends makes room for what begins.
  std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
    return std::tie(a.seconds, a.begins, a.life) < std::tie(b.seconds, b.begins, b.life);
  });
  return changes;
}

}  // namespace

std::int64_t MemorySample::total() const {
  return std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0});
}

MemoryUse memory_use(const Program& program, const std::vector<OpTime>& times) {
  const Lives lives(program, times);
  const std::vector<KindBytes> of_frame = frame_bytes(program);
  MemoryUse use;
  use.samples.push_back({.bytes = own_bytes(program)});
  use.peak.bytes = use.samples.front().total();
  MemorySample now = use.samples.front();
  for (const Change& change : changes_of(lives.all())) {
    const Life& life = lives.all()[change.life];
    const std::int64_t sign = change.begins ? 1 : -1;
    if (life.pool >= 0) {
      const KindBytes& bytes = of_frame[static_cast<std::size_t>(life.pool)];
      for (std::size_t kind = 0; kind < bytes.size(); ++kind)
        now.bytes.at(kind) += sign * bytes.at(kind);
    } else {
      const Buffer& buffer = program.buffer(life.buffer);
      now.bytes.at(static_cast<std::size_t>(buffer.kind)) += sign * placed_bytes(buffer);
    }
    now.seconds = change.seconds;
    if (use.samples.back().seconds == now.seconds) {
      use.samples.back() = now;
    } else {
      use.samples.push_back(now);
    }
    if (now.total() <= use.peak.bytes) continue;
    use.peak.bytes = now.total();
    use.peak.seconds = now.seconds;
    use.peak.position = life.position;
  }
  use.peak.live = live_at(program, lives.all(), use.peak.seconds);
  return use;
}

std::string instruction_text(const Program& program, int position) {
  const std::vector<int> bases = call_bases(program);
  const auto after = std::upper_bound(bases.begin(), bases.end(), position);
  TRI_CHECK(after != bases.begin() && after != bases.end());
  const auto c = static_cast<std::size_t>(after - bases.begin() - 1);
  const Call& call = program.calls[c];
  const Instruction& instruction =
      program.at(call.template_index)
          .instructions.at(static_cast<std::size_t>(position - bases[c]));
  std::string text(op_name(instruction.op));
  if (instruction.part != Part::kNone) text += fmt::format(" {}", part_name(instruction.part));
  if (instruction.layer >= 0) text += fmt::format(" layer {}", instruction.layer);
  if (instruction.part == Part::kNone && !instruction.uses.empty())
    text += fmt::format(" {}", program.buffer(instruction.uses.front().range.buffer).name);
  if (call.micro_batch >= 0) text += fmt::format(", micro-batch {}", call.micro_batch);
  return text;
}

}  // namespace trireme
