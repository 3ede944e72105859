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
  /// Of a range that operands or parameters name; of a framed buffer the atoms of its frame 0.
  [[nodiscard]] AtomSpan of(const Range& range) const;
  /// Atoms of operand `use` of instruction `instruction` of a call, in the call's frame.
  [[nodiscard]] AtomSpan of(const Call& call, int instruction, int use) const;
  /// Atoms that share bytes with any range of a buffer.
  [[nodiscard]] AtomSpan covering(const Range& range) const;
  [[nodiscard]] BufferId buffer_of(int atom) const {
    return buffers_.at(static_cast<std::size_t>(atom));
  }
  [[nodiscard]] Range range_of(int atom) const;

 private:
  std::vector<std::vector<std::int64_t>> cuts_;  ///< by buffer: ascending, first 0, last its size
  std::vector<int> first_atom_;                  ///< by buffer
  std::vector<BufferId> buffers_;                ///< by atom
  /// Precomputed: atoms of frame 0, and how far the next frame is.
  struct UseAtoms {
    AtomSpan span;
    int pool = -1;
    int frame_atoms = 0;
  };
  std::vector<std::vector<std::vector<UseAtoms>>> uses_;
  int num_atoms_ = 0;
};

}  // namespace trireme
