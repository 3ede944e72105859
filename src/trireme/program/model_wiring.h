// How values flow between the parts of a model, stated from the model alone: what the verifier
// holds a program against. Shares nothing with the builder but the parameter table.
#pragma once

#include <vector>

#include "trireme/model/parameters.h"
#include "trireme/program/program.h"

namespace trireme {

/// Half of a split backward part that needs a value.
enum class Half : std::uint8_t { kBoth, kInput, kWeight };

/// Operand `role` carries what part number `part` has under `source`.
struct Need {
  Role role{};
  int part = 0;
  Role source{};
  Half half = Half::kBoth;
};

/// Operand `role` is row `row` of the parameter table (or its gradient, as head or not).
struct ParameterUse {
  Role role{};
  int row = 0;
  bool is_head_copy = false;
};

/// A part of the model that a program runs in each micro-batch.
struct WiredPart {
  Part part{};
  int layer = -1;
  Site site{};
  bool has_forward = false;
  bool has_backward = false;
  bool is_linear = false;  ///< backward may be split into halves
  std::vector<Need> forward = {};
  std::vector<Need> backward = {};
  std::vector<ParameterUse> parameters = {};
  std::vector<ParameterUse> gradients = {};
};

/// All parts of one micro-batch of a program of this kind. Part number 0 stands for LOAD.
class ModelWiring {
 public:
  explicit ModelWiring(const Program& program);

  [[nodiscard]] int size() const { return static_cast<int>(parts_.size()); }
  [[nodiscard]] const WiredPart& part(int number) const {
    return parts_[static_cast<std::size_t>(number)];
  }
  /// Number of the part on which FWD, BWD, BWD_I, BWD_W or RECOMP acts; -1 if the model has none.
  [[nodiscard]] int number(Part part, int layer, Site site) const;

 private:
  struct Builder;
  [[nodiscard]] std::size_t slot(Part part, int layer, Site site) const;

  int layers_ = 0;
  std::vector<WiredPart> parts_;
  std::vector<int> numbers_;  ///< by (layer, part, site)
};

}  // namespace trireme
