// Atoms: the largest byte ranges that no operand of a program cuts. Analyses work on whole atoms.
#pragma once

#include <cstdint>
#include <vector>

#include "trireme/program/program.h"

namespace trireme {

/// Atoms [begin, end).
struct AtomSpan {
  int begin = 0;
  int end = 0;
};

class AtomTable {
 public:
  explicit AtomTable(const Program& program);

  [[nodiscard]] int size() const { return num_atoms_; }
  [[nodiscard]] AtomSpan of(const Range& range) const;
  /// Atoms of operand `use` of instruction `instruction` of a template; precomputed.
  [[nodiscard]] AtomSpan of(int template_index, int instruction, int use) const;
  [[nodiscard]] BufferId buffer_of(int atom) const {
    return buffers_.at(static_cast<std::size_t>(atom));
  }
  [[nodiscard]] Range range_of(int atom) const;

 private:
  std::vector<std::vector<std::int64_t>> cuts_;  ///< by buffer: ascending, first 0, last its size
  std::vector<int> first_atom_;                  ///< by buffer
  std::vector<BufferId> buffers_;                ///< by atom
  std::vector<std::vector<std::vector<AtomSpan>>> uses_;
  int num_atoms_ = 0;
};

}  // namespace trireme
