// Memory of micro-batches in flight: frames for buffers that outlive the call that writes them.
#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "trireme/base/units.h"
#include "trireme/program/passes/passes.h"

namespace trireme {
namespace {

/// Calls [first, last] of one micro-batch that use a pool.
struct Flight {
  int micro_batch = 0;
  std::size_t first = 0;
  std::size_t last = 0;
};

class FrameAssignment {
 public:
  explicit FrameAssignment(Program& program) : program_(program) {}

  void apply() {
    // Buffers used by the same templates live from and to the same calls: one pool for them.
    std::map<std::set<int>, std::vector<BufferId>> groups;
    const std::vector<std::set<int>> users = templates_by_buffer();
    for (std::size_t id = 0; id < users.size(); ++id) {
      if (users[id].size() > 1 && program_.buffers[id].content == Content::kTransient)
        groups[users[id]].push_back(narrow<BufferId>(id));
    }
    for (const auto& [templates, buffers] : groups) add_pool(templates, buffers);
  }

 private:
  [[nodiscard]] std::vector<std::set<int>> templates_by_buffer() const {
    std::vector<std::set<int>> users(program_.buffers.size());
    for (std::size_t t = 0; t < program_.templates.size(); ++t) {
      for (const Instruction& instruction : program_.templates[t].instructions) {
        for (const Use& use : instruction.uses)
          users[static_cast<std::size_t>(use.range.buffer)].insert(narrow<int>(t));
      }
    }
    return users;
  }

  void add_pool(const std::set<int>& templates, const std::vector<BufferId>& buffers) {
    const int pool = narrow<int>(program_.pools.size());
    std::string name;
    for (const int item : templates) name += (name.empty() ? "" : "+") + program_.at(item).name;
    for (const BufferId id : buffers) {
      Buffer& buffer = program_.buffers[static_cast<std::size_t>(id)];
      buffer.content = Content::kFramed;
      buffer.pool = pool;
    }
    const int num_frames = assign(pool, templates);
    program_.pools.push_back({.name = std::move(name), .num_frames = num_frames});
  }

  [[nodiscard]] std::vector<Flight> flights(const std::set<int>& templates) const {
    std::map<int, Flight> by_micro_batch;
    for (std::size_t c = 0; c < program_.calls.size(); ++c) {
      const Call& call = program_.calls[c];
      if (!templates.contains(call.template_index)) continue;
      const auto [flight, is_new] = by_micro_batch.try_emplace(
          call.micro_batch, Flight{.micro_batch = call.micro_batch, .first = c});
      flight->second.last = c;
    }
    std::vector<Flight> all;
    for (const auto& [micro_batch, flight] : by_micro_batch) all.push_back(flight);
    std::sort(all.begin(), all.end(),
              [](const Flight& a, const Flight& b) { return a.first < b.first; });
    return all;
  }

  /// The lowest frame that is free when a flight begins: as few as are ever in flight at once.
  int assign(int pool, const std::set<int>& templates) {
    std::vector<std::size_t> busy_until;  // by frame
    std::map<int, int> frame_of;          // by micro-batch
    for (const Flight& flight : flights(templates)) {
      const auto free = std::find_if(busy_until.begin(), busy_until.end(),
                                     [&](std::size_t last) { return last < flight.first; });
      const auto frame = static_cast<std::size_t>(free - busy_until.begin());
      if (frame == busy_until.size()) busy_until.push_back(0);
      busy_until[frame] = flight.last;
      frame_of[flight.micro_batch] = narrow<int>(frame);
    }
    for (Call& call : program_.calls) {
      if (templates.contains(call.template_index))
        call.frames.push_back({.pool = pool, .frame = frame_of.at(call.micro_batch)});
    }
    return std::max(narrow<int>(busy_until.size()), 1);
  }

  Program& program_;
};

}  // namespace

void assign_frames(Program& program) {
  FrameAssignment(program).apply();
}

}  // namespace trireme
