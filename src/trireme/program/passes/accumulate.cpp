// Gradient accumulation over micro-batches.
#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "trireme/program/passes/passes.h"

namespace trireme {
namespace {

class Accumulation {
 public:
  explicit Accumulation(Program& program) : program_(program) {}

  void apply() {
    for (Call& call : program_.calls) {
      const std::vector<bool> is_first = first_writes(program_.at(call.template_index));
      if (!is_first.empty()) call.template_index = variant(call.template_index, is_first);
    }
  }

 private:
  [[nodiscard]] bool writes_gradient(const Use& use) const {
    return use.access == Access::kWrite &&
           program_.buffer(use.range.buffer).kind == MemoryKind::kGradients;
  }

  /// For each gradient that the template writes: no call before has written it.
  std::vector<bool> first_writes(const Template& item) {
    std::vector<bool> is_first;
    for (const Instruction& instruction : item.instructions) {
      for (const Use& use : instruction.uses) {
        if (writes_gradient(use)) is_first.push_back(written_.insert(use.range.buffer).second);
      }
    }
    return is_first;
  }

  /// The template with mode A wherever a write is not the first. The first variant of a template
  /// takes its place.
  int variant(int original, const std::vector<bool>& is_first) {
    const auto known = variants_.find({original, is_first});
    if (known != variants_.end()) return known->second;
    const auto [body, is_new] = bodies_.try_emplace(original, program_.at(original));
    const bool is_all_first = std::count(is_first.begin(), is_first.end(), false) == 0;
    const bool is_none_first = std::count(is_first.begin(), is_first.end(), true) == 0;
    const std::string name = is_all_first ? body->second.name + ".first"
                             : is_none_first
                                 ? body->second.name + ".next"
                                 : fmt::format("{}.mixed{}", body->second.name, variants_.size());
    Template item{.name = name, .instructions = body->second.instructions};
    std::size_t number = 0;
    for (Instruction& instruction : item.instructions) {
      for (Use& use : instruction.uses) {
        if (writes_gradient(use) && !is_first[number++]) use.access = Access::kAccumulate;
      }
    }
    const int index = is_new ? original : program_.template_index(name);
    program_.at(index) = std::move(item);
    variants_[{original, is_first}] = index;
    return index;
  }

  Program& program_;
  std::set<BufferId> written_;
  std::map<int, Template> bodies_;  ///< by template, as it was
  std::map<std::pair<int, std::vector<bool>>, int> variants_;
};

}  // namespace

void accumulate(Program& program) {
  Accumulation(program).apply();
}

}  // namespace trireme
