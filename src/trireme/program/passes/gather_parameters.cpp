// ZeRO-3: each rank has a shard of every unit's parameters (a layer, the embedding, the end); all
// of a unit are there while it computes.
#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "trireme/base/units.h"
#include "trireme/program/passes/passes.h"
#include "trireme/program/replicas.h"
#include "trireme/program/steps.h"

namespace trireme {
namespace {

class ParameterGathering {
 public:
  explicit ParameterGathering(Program& program)
      : program_(program), replicas_(replicas_of(program.request)), roots_(num_roots(program)) {
    for (int root = 0; root < roots_; ++root)
      params_.push_back(*program.find_buffer(root_name("params", root)));
  }

  void apply() {
    for (int root = 0; root < roots_; ++root) static_cast<void>(gathered(root, 0));
    if (program_.request.layout.reshards()) {
      for (Template& item : program_.templates) item.instructions = with_gathers(item.instructions);
    } else {
      gather_once();
    }
    for (ParameterSlot& slot : program_.parameters) {
      if (const int root = root_of(slot.parameter); root >= 0)
        slot.parameter.buffer = gathered(root, 0);
    }
    for (int root = 0; root < roots_; ++root) keep_shard(root);
  }

 private:
  /// -1 for what is no parameter.
  [[nodiscard]] int root_of(const Range& range) const {
    const auto found = std::find(params_.begin(), params_.end(), range.buffer);
    return found == params_.end() ? -1 : narrow<int>(found - params_.begin());
  }

  /// The buffer of the `visit`-th gather of a root within a call.
  BufferId gathered(int root, int visit) {
    const std::string name =
        root_name("gathered", root) + (visit == 0 ? "" : fmt::format(".{}", visit));
    if (const auto known = program_.find_buffer(name)) return *known;
    const Buffer& params = program_.buffer(params_[static_cast<std::size_t>(root)]);
    const bool is_held = !program_.request.layout.reshards();
    return program_.add_buffer({.name = name,
                                .kind = MemoryKind::kCommunication,
                                .content = is_held ? Content::kStep : Content::kTransient,
                                .dtype = params.dtype,
                                .bytes = params.bytes});
  }

  /// Of the shard, whose size it will be.
  [[nodiscard]] Instruction gather(int root, BufferId whole) const {
    const BufferId params = params_[static_cast<std::size_t>(root)];
    const std::int64_t bytes = div_exact(program_.buffer(params).bytes, replicas_.num_shards);
    return all_gather(program_, {params, 0, bytes}, program_.whole(whole), replicas_.shard_group);
  }

  // Gathered for each visit
  // ------------------------------------------------------------------

  /// A run of instructions that read the parameters of one root, with none of another between.
  struct Visit {
    int root = 0;
    std::size_t first = 0;  ///< instruction
    int number = 0;         ///< of the root's visits
  };
  [[nodiscard]] std::vector<Visit> visits_of(const std::vector<Instruction>& instructions) const {
    std::vector<Visit> visits;
    std::map<int, int> num_visits;  // by root
    for (std::size_t i = 0; i < instructions.size(); ++i) {
      if (instructions[i].op == Op::kOptStep) continue;
      std::set<int> roots;
      for (const Use& use : instructions[i].uses) {
        if (const int root = root_of(use.range); root >= 0) roots.insert(root);
      }
      for (const int root : roots) {
        if (!visits.empty() && visits.back().root == root) continue;
        visits.push_back({.root = root, .first = i, .number = num_visits[root]++});
      }
    }
    return visits;
  }

  BufferId buffer_of(const Visit& visit) { return gathered(visit.root, visit.number); }

  /// Each visit's gather stands before the visit that comes `prefetch` earlier.
  std::vector<Instruction> with_gathers(std::vector<Instruction>& instructions) {
    const std::vector<Visit> visits = visits_of(instructions);
    const auto prefetch = static_cast<std::size_t>(program_.request.layout.prefetch);
    std::vector<Instruction> out;
    std::map<int, BufferId> whole;  // by root
    std::size_t num_begun = 0, num_gathered = 0;
    for (std::size_t i = 0; i < instructions.size(); ++i) {
      for (; num_begun < visits.size() && visits[num_begun].first == i; ++num_begun) {
        for (; num_gathered < std::min(visits.size(), num_begun + prefetch + 1); ++num_gathered)
          out.push_back(gather(visits[num_gathered].root, buffer_of(visits[num_gathered])));
        whole[visits[num_begun].root] = buffer_of(visits[num_begun]);
      }
      if (instructions[i].op != Op::kOptStep) read_from(instructions[i], whole);
      out.push_back(std::move(instructions[i]));
    }
    return out;
  }

  void read_from(Instruction& instruction, const std::map<int, BufferId>& whole) const {
    for (Use& use : instruction.uses) {
      if (const int root = root_of(use.range); root >= 0) use.range.buffer = whole.at(root);
    }
  }

  // Gathered once
  // ------------------------------------------------------------------

  /// At the start of the step, in the order of first use.
  void gather_once() {
    std::map<int, BufferId> whole;
    std::vector<Instruction> gathers;
    for (const Call& call : program_.calls) {
      for (const Visit& visit : visits_of(program_.at(call.template_index).instructions)) {
        if (!whole.emplace(visit.root, gathered(visit.root, 0)).second) continue;
        gathers.push_back(gather(visit.root, whole.at(visit.root)));
      }
    }
    for (Template& item : program_.templates) {
      for (Instruction& instruction : item.instructions) {
        if (instruction.op != Op::kOptStep) read_from(instruction, whole);
      }
    }
    auto& begin = begin_of_step(program_).instructions;
    begin.insert(begin.end(), gathers.begin(), gathers.end());
  }

  // What is left of the parameters
  // ------------------------------------------------------------------

  void keep_shard(int root) {
    const BufferId id = params_[static_cast<std::size_t>(root)];
    Buffer& params = program_.buffers[static_cast<std::size_t>(id)];
    const Shard own = shard_of(params.bytes, replicas_.num_shards, replicas_.shard);
    params.bytes = own.end - own.begin;
    for (Template& item : program_.templates) {
      for (Instruction& instruction : item.instructions) {
        Use* const updated = instruction.find(Role::kParameter);
        if (updated != nullptr && updated->range.buffer == id) updated->range.offset -= own.begin;
      }
    }
  }

  Program& program_;
  Replicas replicas_;
  int roots_;
  std::vector<BufferId> params_;  ///< by root
};

}  // namespace

void gather_parameters(Program& program) {
  ParameterGathering(program).apply();
}

}  // namespace trireme
