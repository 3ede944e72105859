#include "trireme/program/atoms.h"

#include <algorithm>
#include <cstddef>

#include "trireme/base/units.h"

namespace trireme {

AtomTable::AtomTable(const Program& program) : cuts_(program.buffers.size()) {
  const auto cut = [&](const Range& range) {
    if (range.buffer < 0) return;
    auto& cuts = cuts_.at(static_cast<std::size_t>(range.buffer));
    cuts.push_back(range.offset);
    cuts.push_back(range.offset + range.bytes);
  };
  for (const Template& item : program.templates) {
    for (const Instruction& instruction : item.instructions) {
      for (const Use& use : instruction.uses) cut(use.range);
    }
  }
  for (const ParameterSlot& slot : program.parameters) {
    cut(slot.parameter);
    cut(slot.gradient);
    if (slot.head_gradient) cut(*slot.head_gradient);
  }
  for (std::size_t id = 0; id < program.buffers.size(); ++id) {
    auto& cuts = cuts_[id];
    cuts.push_back(0);
    cuts.push_back(program.buffers[id].bytes);
    std::sort(cuts.begin(), cuts.end());
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    first_atom_.push_back(num_atoms_);
    const int pool = program.buffers[id].pool;
    const int frames = pool < 0 ? 1 : program.pools.at(static_cast<std::size_t>(pool)).num_frames;
    num_atoms_ += (narrow<int>(cuts.size()) - 1) * frames;
    buffers_.resize(static_cast<std::size_t>(num_atoms_), narrow<BufferId>(id));
  }
  for (const Template& item : program.templates) {
    auto& spans = uses_.emplace_back();
    for (const Instruction& instruction : item.instructions) {
      auto& row = spans.emplace_back();
      for (const Use& use : instruction.uses) {
        const auto id = static_cast<std::size_t>(use.range.buffer);
        row.push_back({.span = of(use.range),
                       .pool = program.buffers[id].pool,
                       .frame_atoms = narrow<int>(cuts_[id].size()) - 1});
      }
    }
  }
}

AtomSpan AtomTable::of(const Range& range) const {
  const auto id = static_cast<std::size_t>(range.buffer);
  const auto& cuts = cuts_.at(id);
  const auto index = [&](std::int64_t offset) {
    return first_atom_[id] +
           narrow<int>(std::lower_bound(cuts.begin(), cuts.end(), offset) - cuts.begin());
  };
  return {.begin = index(range.offset), .end = index(range.offset + range.bytes)};
}

AtomSpan AtomTable::covering(const Range& range) const {
  const auto id = static_cast<std::size_t>(range.buffer);
  const auto& cuts = cuts_.at(id);
  const auto after_begin = std::upper_bound(cuts.begin(), cuts.end(), range.offset);
  const auto end = std::lower_bound(cuts.begin(), cuts.end(), range.offset + range.bytes);
  return {.begin = first_atom_[id] + narrow<int>(after_begin - cuts.begin()) - 1,
          .end = first_atom_[id] + narrow<int>(end - cuts.begin())};
}

AtomSpan AtomTable::of(const Call& call, int instruction, int use) const {
  const UseAtoms& atoms =
      uses_[static_cast<std::size_t>(call.template_index)][static_cast<std::size_t>(instruction)]
           [static_cast<std::size_t>(use)];
  const int shift = call.frame_of(atoms.pool) * atoms.frame_atoms;
  return {.begin = atoms.span.begin + shift, .end = atoms.span.end + shift};
}

Range AtomTable::range_of(int atom) const {
  const BufferId id = buffer_of(atom);
  const auto& cuts = cuts_.at(static_cast<std::size_t>(id));
  const auto index = static_cast<std::size_t>(atom - first_atom_.at(static_cast<std::size_t>(id))) %
                     (cuts.size() - 1);
  return {id, cuts.at(index), cuts.at(index + 1) - cuts.at(index)};
}

}  // namespace trireme
