// How values flow between the parts of a model, stated from the model alone: what the verifier
// holds a program against. Shares with the builder the parameter table (and which part reads which
// of its rows), the cut into stages and shards, and the size of a head's chunk; no data flow.
#pragma once

#include <vector>

#include "trireme/program/local_model.h"
#include "trireme/program/program.h"

namespace trireme {

/// Half of a split backward part that needs a value.
enum class Half : std::uint8_t { kBoth, kInput, kWeight };

/// What a collective makes of a value.
enum class Reduced : std::uint8_t { kNot, kSum, kMax, kScattered, kGathered };

/// Operand `role` carries what part number `part` has under `source`.
struct Need {
  Role role{};
  int part = 0;
  Role source{};
  Half half = Half::kBoth;
  Reduced reduced = Reduced::kNot;
  Axis axis = Axis::kTp;  ///< over which it is reduced
  int num_parts = 1;      ///< the rows of so many consecutive parts, in order
  int chunk = -1;         ///< only the rows of this chunk of tokens
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
  int chunk = -1;  ///< as Instruction's
  Site site{};
  int stage = 0;
  bool has_forward = false;
  bool has_backward = false;
  bool is_linear = false;  ///< backward may be split into halves
  std::vector<Need> forward = {};
  std::vector<Need> backward = {};
  /// Of the end of a stage: what goes to the next one. Of a hop of a ring: what the rank sends, one
  /// value or two halves; what it receives is the part's own.
  std::vector<Need> sent = {};
  /// Of a ring of gradients: y += x of what comes before it goes on; each is two halves.
  std::vector<Need> added = {};
  std::vector<ParameterUse> parameters = {};
  std::vector<ParameterUse> gradients = {};
};

/// All parts of one micro-batch of the whole model. Part number s stands for the LOAD of stage s.
class ModelWiring {
 public:
  explicit ModelWiring(const Program& program);

  [[nodiscard]] const LocalModel& model() const { return model_; }
  [[nodiscard]] int size() const { return static_cast<int>(parts_.size()); }
  [[nodiscard]] const WiredPart& part(int number) const {
    return parts_[static_cast<std::size_t>(number)];
  }
  /// Number of the part on which LOAD, FWD, BWD, BWD_I, BWD_W, RECOMP, a message between stages, or
  /// a hop of a ring acts; -1 if the model has none.
  [[nodiscard]] int number(const Instruction& instruction) const;
  /// This rank computes the part for the micro-batch.
  [[nodiscard]] bool is_due(int number, int micro_batch) const {
    return model_.pipeline().rank_of(part(number).stage, micro_batch) == model_.coord().pp;
  }
  /// Chunks of tokens of a head whose vocabulary is sharded; 0 = it is not.
  [[nodiscard]] int num_head_chunks() const { return num_head_chunks_; }
  /// The stage loads something.
  [[nodiscard]] bool loads(int stage) const;

 private:
  struct Builder;
  [[nodiscard]] std::size_t slot(Part part, int key, Site site) const;
  /// What tells parts of one kind and site apart: layer, chunk, both, or stage.
  [[nodiscard]] int key_of(const Instruction& instruction) const;
  /// Of a layer's attention after so many hops of a ring; -2 if there are not as many.
  [[nodiscard]] int ring_key(int layer, int hops) const;

  LocalModel model_;
  bool has_dropout_ = false;
  bool has_labels_ = false;
  int num_keys_ = 0;
  int num_head_chunks_ = 0;
  int num_hops_ = 0;  ///< that gradients of keys go round a ring; 0 = there is none
  std::vector<WiredPart> parts_;
  std::vector<int> numbers_;  ///< by (key, part, site)
};

}  // namespace trireme
