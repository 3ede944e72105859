// Gradient accumulation over micro-batches: of each place the first call that writes it.
#include <algorithm>
#include <cstddef>
#include <cstdint>
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
  explicit Accumulation(Program& program)
      : program_(program), is_reduced_at_once_(program.buffers.size(), false) {
    const int num = num_roots(program);
    for (int root = 0; root < num; ++root) {
      if (trireme::is_reduced_at_once(program, root))
        is_reduced_at_once_[static_cast<std::size_t>(
            *program.find_buffer(root_name("grads", root)))] = true;
    }
  }

  void apply() {
    for (Call& call : program_.calls) {
      if (call.micro_batch < 0) continue;
      const std::vector<bool> is_first = first_writes(program_.at(call.template_index));
      if (!is_first.empty()) call.template_index = variant(call.template_index, is_first);
    }
  }

 private:
  /// Of the whole step: a bucket that is reduced at once belongs to one micro-batch.
  [[nodiscard]] bool writes_gradient(const Use& use) const {
    return use.access == Access::kWrite &&
           program_.buffer(use.range.buffer).kind == MemoryKind::kGradients &&
           !is_reduced_at_once_[static_cast<std::size_t>(use.range.buffer)];
  }

  /// For each gradient that the template writes: no call before has written it.
  std::vector<bool> first_writes(const Template& item) {
    std::vector<bool> is_first;
    for (const Instruction& instruction : item.instructions) {
      for (const Use& use : instruction.uses) {
        if (writes_gradient(use)) is_first.push_back(written_.insert(place(use.range)).second);
      }
    }
    return is_first;
  }

  using Place = std::pair<BufferId, std::int64_t>;
  static Place place(const Range& range) { return {range.buffer, range.offset}; }

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
  std::vector<bool> is_reduced_at_once_;  ///< by buffer
  std::set<Place> written_;
  std::map<int, Template> bodies_;  ///< by template, as it was
  std::map<std::pair<int, std::vector<bool>>, int> variants_;
};

}  // namespace

void accumulate(Program& program) {
  Accumulation(program).apply();
}

}  // namespace trireme
