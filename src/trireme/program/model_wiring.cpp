#include "trireme/program/model_wiring.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "trireme/base/units.h"
#include "trireme/program/model_parts.h"

namespace trireme {
namespace {

constexpr int kNumSites = 5;

/// A value by name: what `part` has under `role`, and what tp or cp has made of it.
struct Value {
  Part part{};
  int key = -1;
  Site site = Site::kNone;
  Role role = Role::kY;
  Reduced reduced = Reduced::kNot;
  Axis axis = Axis::kTp;
};

/// Attention whose keys go round a ring has a part for each hop.
constexpr bool has_hops(Part part) {
  return part == Part::kAttn || is_ring(part);
}

}  // namespace

/// Registers the parts first, so that needs can refer to any of them by number.
struct ModelWiring::Builder {
  ModelWiring& wiring;
  const LocalModel& model;
  const ModelSpec& spec;
  const Pipeline& pipeline;
  bool trains;
  bool drops;        ///< dropout applies
  bool is_tp;        ///< layers are cut over ranks
  bool is_sp;        ///< tokens too, between the products
  bool is_gathered;  ///< keys and values over cp
  int num_layers;

  Builder(ModelWiring& target, const Program& program)
      : wiring(target),
        model(target.model_),
        spec(program.request.spec),
        pipeline(target.model_.pipeline()),
        trains(program.kind == ProgramKind::kTrain),
        drops(target.has_dropout_),
        is_tp(program.request.layout.tp > 1),
        is_sp(target.model_.is_sequence_parallel()),
        is_gathered(target.model_.num_cp_ranks() > 1 && !target.model_.has_ring()),
        num_layers(narrow<int>(program.request.spec.layers)) {}

  [[nodiscard]] int last_stage() const { return pipeline.num_stages() - 1; }

  /// Of the instruction that names it in full.
  void add(const Instruction& named) {
    const Part part = named.part;
    const bool is_forward_only =
        part == Part::kRowBias || part == Part::kPosition || is_stage_edge(part);
    WiredPart item{.part = part,
                   .layer = named.layer,
                   .chunk = named.chunk,
                   .site = named.site,
                   .stage = named.stage};
    // Training fuses head, loss and gradients.
    item.has_forward = part != Part::kStageIn && !is_ring(part) && !(trains && is_head(part));
    item.has_backward = trains && !is_forward_only && !is_ring(part);
    item.is_linear = is_linear(part);
    wiring.numbers_[wiring.slot(part, wiring.key_of(named), named.site)] = wiring.size();
    wiring.parts_.push_back(std::move(item));
  }
  void add(Part part, int layer, int stage, Site site = Site::kNone) {
    add({.part = part, .layer = layer, .stage = stage, .site = site});
  }

  [[nodiscard]] Site attention_site() const { return drops ? Site::kAttnProbs : Site::kNone; }
  [[nodiscard]] bool has_row_bias() const {
    return is_tp && model.table().find(ParameterRole::kProjBias, 0).has_value();
  }
  [[nodiscard]] bool has_position() const {
    return is_tp && model.table().find(ParameterRole::kPositionTable).has_value();
  }

  void add_all() {
    for (int stage = 0; stage <= last_stage(); ++stage) {
      wiring.parts_.push_back({.stage = stage, .has_forward = wiring.loads(stage)});
    }
    add(Part::kEmbed, -1, 0);
    if (has_position()) add(Part::kPosition, -1, 0);
    if (drops) add(Part::kDropout, -1, 0, Site::kEmbed);
    for (int layer = 0; layer < num_layers; ++layer) add_layer(layer);
    for (int stage = 0; stage <= last_stage(); ++stage) {
      if (stage > 0) add(Part::kStageIn, -1, stage);
      if (stage < last_stage()) add(Part::kStageOut, -1, stage);
    }
    add(Part::kFinalNorm, -1, last_stage());
    if (!wiring.has_labels_) return add(Part::kLogits, -1, last_stage());
    if (!is_tp) return add(Part::kHead, -1, last_stage());
    for (const Part part : {Part::kHeadLogits, Part::kHeadSums, Part::kHeadLoss}) {
      for (int chunk = 0; chunk < wiring.num_head_chunks_; ++chunk)
        add({.part = part, .stage = last_stage(), .chunk = chunk});
    }
  }

  void add_layer(int layer) {
    const int stage = pipeline.stage_of_layer(layer);
    for (const Part part : {Part::kAttnNorm, Part::kQkv, Part::kRope, Part::kProj, Part::kMlpNorm,
                            Part::kMlpUp, Part::kAct, Part::kMlpDown}) {
      add(part, layer, stage);
    }
    add_attention(layer, stage);
    for (const Site site : {Site::kAttnResidual, Site::kMlpResidual}) {
      if (has_row_bias()) add(Part::kRowBias, layer, stage, site);
      if (drops) add(Part::kDropout, layer, stage, site);
    }
  }

  void add_attention(int layer, int stage) {
    if (!has_ring()) return add(Part::kAttn, layer, stage, attention_site());
    const auto add_hop = [&](Part part, int hops, Site site = Site::kNone) {
      add({.part = part, .layer = layer, .stage = stage, .chunk = hops, .site = site});
    };
    for (int step = 0; step < wiring.num_hops_; ++step)
      add_hop(Part::kAttn, step, attention_site());
    for (int hop = 1; hop < wiring.num_hops_; ++hop) add_hop(Part::kRingKv, hop);
    for (int hop = 1; trains && hop <= wiring.num_hops_; ++hop) add_hop(Part::kRingDkv, hop);
  }
  [[nodiscard]] bool has_ring() const { return wiring.num_hops_ > 0; }

  [[nodiscard]] int number(Part part, int key, Site site = Site::kNone) const {
    return wiring.numbers_[wiring.slot(part, key, site)];
  }
  [[nodiscard]] WiredPart& at(Part part, int key, Site site = Site::kNone) {
    return wiring.parts_[static_cast<std::size_t>(number(part, key, site))];
  }
  [[nodiscard]] Need need(Role role, const Value& value, Half half = Half::kBoth) const {
    return {.role = role,
            .part = number(value.part, value.key, value.site),
            .source = value.role,
            .half = half,
            .reduced = value.reduced,
            .axis = value.axis};
  }
  [[nodiscard]] static Need load(Role role, int stage) {
    return {.role = role, .part = stage, .source = role};
  }
  [[nodiscard]] Value summed(Value value) const {
    if (is_tp) value.reduced = is_sp ? Reduced::kScattered : Reduced::kSum;
    return value;
  }
  /// A value of the rank's own tokens as products read it.
  [[nodiscard]] Value of_all_tokens(Value value) const {
    if (is_sp) value.reduced = Reduced::kGathered;
    return value;
  }

  // Forward values -------------------------------------------------------------------------------

  /// What a row-parallel part makes, complete with its bias, before dropout.
  [[nodiscard]] Value row_output(Part part, int layer, Site site) const {
    if (has_row_bias()) return {Part::kRowBias, layer, site};
    return summed({part, layer});
  }
  /// What a branch adds to the residual stream: the output of `part`, after its dropout.
  [[nodiscard]] Value branch(Part part, int layer, Site site) const {
    if (drops) return {Part::kDropout, layer, site};
    return row_output(part, layer, site);
  }
  [[nodiscard]] Value attention_branch(int layer) const {
    return branch(Part::kProj, layer, Site::kAttnResidual);
  }
  [[nodiscard]] Value mlp_branch(int layer) const {
    return branch(Part::kMlpDown, layer, Site::kMlpResidual);
  }
  [[nodiscard]] Value embedding() const {
    if (has_position()) return {Part::kPosition, -1};
    return summed({Part::kEmbed, -1});
  }
  [[nodiscard]] Value embedded_stream() const {
    if (drops) return {Part::kDropout, -1, Site::kEmbed};
    return embedding();
  }

  /// The residual stream of a stage before the parts behind layer `layer - 1`, and the branch of
  /// that layer, which these parts add to it.
  [[nodiscard]] Value stream_before(int layer, int stage) const {
    if (has_layer_before(layer, stage)) return {Part::kMlpNorm, layer - 1, Site::kNone, Role::kH};
    if (stage > 0) return {Part::kStageIn, stage};
    return embedded_stream();
  }
  [[nodiscard]] std::optional<Value> delta_before(int layer, int stage) const {
    if (!has_layer_before(layer, stage)) return std::nullopt;
    return mlp_branch(layer - 1);
  }
  [[nodiscard]] bool has_layer_before(int layer, int stage) const {
    return layer > pipeline.stage(stage).begin;
  }

  void wire_dropout(int layer, Site site, int stage, const Value& before, const Value& gradient) {
    WiredPart& item = at(Part::kDropout, layer, site);
    item.forward = {load(Role::kSamples, stage), need(Role::kY, before)};
    item.backward = {load(Role::kSamples, stage), need(Role::kDy, gradient)};
  }

  /// A norm reads the residual stream and the branch it adds.
  void wire_norm(Part part, int layer, const Value& stream, const std::optional<Value>& delta) {
    WiredPart& item = at(part, layer);
    item.forward = {need(Role::kX, stream)};
    if (delta) item.forward.push_back(need(Role::kDelta, *delta));
    item.backward = {need(Role::kH, {part, layer, Site::kNone, Role::kH}),
                     need(Role::kStats, {part, layer, Site::kNone, Role::kStats})};
  }

  void wire_linear(Part part, int layer, const Value& x, const Value& dy) {
    WiredPart& item = at(part, layer);
    item.forward = {need(Role::kX, x)};
    item.backward = {need(Role::kDy, dy), need(Role::kX, x, Half::kWeight)};
  }

  void wire_row_bias(Part part, int layer, Site site) {
    if (has_row_bias())
      at(Part::kRowBias, layer, site).forward = {need(Role::kY, summed({part, layer}))};
  }

  // Gradients of the residual stream
  // ------------------------------------------------------------------

  /// Gradient of the residual stream as it leaves the layers of a stage.
  [[nodiscard]] Value stream_gradient_at_end(int stage) const {
    if (stage == last_stage()) return {Part::kFinalNorm, -1, Site::kNone, Role::kDh};
    return {Part::kStageOut, stage, Site::kNone, Role::kDy};
  }
  /// The same as it leaves a layer.
  [[nodiscard]] Value stream_above(int layer) const {
    const int stage = pipeline.stage_of_layer(layer);
    if (layer + 1 == pipeline.stage(stage).end) return stream_gradient_at_end(stage);
    return {Part::kAttnNorm, layer + 1, Site::kNone, Role::kDh};
  }
  /// The same at the start of a stage.
  [[nodiscard]] Value stream_gradient_at_start(int stage) const {
    const StageLayers& layers = pipeline.stage(stage);
    if (layers.begin == layers.end) return stream_gradient_at_end(stage);
    return {Part::kAttnNorm, layers.begin, Site::kNone, Role::kDh};
  }
  [[nodiscard]] Value branch_gradient(int layer, Site site, const Value& stream) const {
    if (drops) return {Part::kDropout, layer, site, Role::kDx};
    return stream;
  }

  void wire_layer(int layer) {
    const int stage = pipeline.stage_of_layer(layer);
    const Value above = stream_above(layer);
    const Value between{Part::kMlpNorm, layer, Site::kNone, Role::kDh};
    const auto dx = [layer](Part part) { return Value{part, layer, Site::kNone, Role::kDx}; };
    const auto y = [layer](Part part) { return Value{part, layer}; };

    wire_norm(Part::kAttnNorm, layer, stream_before(layer, stage), delta_before(layer, stage));
    wire_norm(Part::kMlpNorm, layer, {Part::kAttnNorm, layer, Site::kNone, Role::kH},
              attention_branch(layer));
    add_norm_gradients(Part::kAttnNorm, layer, summed(dx(Part::kQkv)), between);
    add_norm_gradients(Part::kMlpNorm, layer, summed(dx(Part::kMlpUp)), above);

    wire_linear(Part::kQkv, layer, of_all_tokens(y(Part::kAttnNorm)), dx(Part::kRope));
    wire_linear(Part::kProj, layer, attended(layer, Role::kY),
                of_all_tokens(branch_gradient(layer, Site::kAttnResidual, between)));
    wire_linear(Part::kMlpUp, layer, of_all_tokens(y(Part::kMlpNorm)), dx(Part::kAct));
    wire_linear(Part::kMlpDown, layer, y(Part::kAct),
                of_all_tokens(branch_gradient(layer, Site::kMlpResidual, above)));
    wire_row_bias(Part::kProj, layer, Site::kAttnResidual);
    wire_row_bias(Part::kMlpDown, layer, Site::kMlpResidual);
    WiredPart& act = at(Part::kAct, layer);
    act.forward = {need(Role::kX, y(Part::kMlpUp))};
    act.backward = {need(Role::kX, y(Part::kMlpUp)), need(Role::kDy, dx(Part::kMlpDown))};
    wire_attention(layer);
    if (!drops) return;
    wire_dropout(layer, Site::kAttnResidual, stage,
                 row_output(Part::kProj, layer, Site::kAttnResidual), between);
    wire_dropout(layer, Site::kMlpResidual, stage,
                 row_output(Part::kMlpDown, layer, Site::kMlpResidual), above);
  }

  void add_norm_gradients(Part part, int layer, const Value& dy, const Value& stream) {
    auto& backward = at(part, layer).backward;
    backward.push_back(need(Role::kDy, dy));
    backward.push_back(need(Role::kDh, stream));
  }

  // Attention
  // ------------------------------------------------------------------

  /// What attention makes after a number of steps: one without a ring.
  [[nodiscard]] Value attended(int layer, int step, Role role) const {
    return {Part::kAttn, has_ring() ? wiring.ring_key(layer, step) : layer, attention_site(), role};
  }
  /// The same after all steps.
  [[nodiscard]] Value attended(int layer, Role role) const {
    return attended(layer, std::max(wiring.num_hops_ - 1, 0), role);
  }
  /// Keys (or values) that a step reads: this rank's own, those of all ranks, or those that have
  /// gone so many hops.
  [[nodiscard]] Value keys_of(int layer, int step, Role role) const {
    if (step > 0) return {Part::kRingKv, wiring.ring_key(layer, step), Site::kNone, role};
    Value own{Part::kRope, layer, Site::kNone, role};
    if (is_gathered) own.reduced = Reduced::kGathered, own.axis = Axis::kCp;
    return own;
  }
  /// Gradients of this rank's keys (or values) as they come home.
  [[nodiscard]] Value key_gradient(int layer, Role role) const {
    if (has_ring())
      return {Part::kRingDkv, wiring.ring_key(layer, wiring.num_hops_), Site::kNone, role};
    Value sum = attended(layer, role);
    if (is_gathered) sum.reduced = Reduced::kScattered, sum.axis = Axis::kCp;
    return sum;
  }

  void wire_attention(int layer) {
    WiredPart& rope = at(Part::kRope, layer);
    rope.forward = {need(Role::kX, {Part::kQkv, layer})};
    if (spec.qk_norm) rope.backward = rope.forward;
    rope.backward.push_back(need(Role::kDq, attended(layer, Role::kDq)));
    for (const Role role : {Role::kDk, Role::kDv})
      rope.backward.push_back(need(role, key_gradient(layer, role)));
    for (int step = 0; step < std::max(wiring.num_hops_, 1); ++step) wire_step(layer, step);
    for (int hop = 1; hop < wiring.num_hops_; ++hop) {
      at(Part::kRingKv, wiring.ring_key(layer, hop)).sent = {
          need(Role::kData, keys_of(layer, hop - 1, Role::kK)),
          need(Role::kData, keys_of(layer, hop - 1, Role::kV))};
    }
    for (int hop = 1; trains && hop <= wiring.num_hops_; ++hop) wire_gradient_hop(layer, hop);
  }

  /// A step goes on from what the one before has made.
  void wire_step(int layer, int step) {
    const Value before = attended(layer, step, Role::kY);
    WiredPart& attn = at(Part::kAttn, before.key, before.site);
    attn.forward = {need(Role::kQ, {Part::kRope, layer, Site::kNone, Role::kQ}),
                    need(Role::kK, keys_of(layer, step, Role::kK)),
                    need(Role::kV, keys_of(layer, step, Role::kV))};
    if (drops) attn.forward.push_back(load(Role::kSamples, pipeline.stage_of_layer(layer)));
    attn.backward = attn.forward;
    for (const Role role : {Role::kY, Role::kLse})
      attn.backward.push_back(need(role, attended(layer, role)));
    attn.backward.push_back(need(Role::kDy, {Part::kProj, layer, Site::kNone, Role::kDx}));
    if (step == 0) return;
    for (const Role role : {Role::kY, Role::kLse})
      attn.forward.push_back(need(role, attended(layer, step - 1, role)));
    attn.backward.push_back(need(Role::kDq, attended(layer, step - 1, Role::kDq)));
  }

  /// What a rank adds to the gradients that come, and what goes on.
  void wire_gradient_hop(int layer, int hop) {
    const int key = wiring.ring_key(layer, hop);
    WiredPart& ring = at(Part::kRingDkv, key);
    if (hop == 1) {
      ring.sent = {need(Role::kData, attended(layer, 0, Role::kDk)),
                   need(Role::kData, attended(layer, 0, Role::kDv))};
    } else {
      ring.sent = {need(Role::kData, {Part::kRingDkv, wiring.ring_key(layer, hop - 1), Site::kNone,
                                      Role::kSums})};
    }
    if (hop == wiring.num_hops_) return;
    for (const Role role : {Role::kDk, Role::kDv}) {
      ring.added.push_back(need(Role::kX, attended(layer, hop, role)));
      ring.added.push_back(need(Role::kY, {Part::kRingDkv, key, Site::kNone, role}));
    }
  }

  // Ends of stages and of the model
  // ------------------------------------------------------------------

  void wire_edges() {
    for (int stage = 0; stage <= last_stage(); ++stage) {
      if (stage > 0) {
        at(Part::kStageIn, stage).sent = {need(Role::kData, stream_gradient_at_start(stage))};
      }
      if (stage == last_stage()) continue;
      WiredPart& out = at(Part::kStageOut, stage);
      const int end = pipeline.stage(stage).end;
      out.forward = {need(Role::kX, stream_before(end, stage))};
      if (const auto delta = delta_before(end, stage))
        out.forward.push_back(need(Role::kDelta, *delta));
      out.sent = {need(Role::kData, {Part::kStageOut, stage})};
    }
  }

  void wire_ends() {
    const Value first_stream = stream_gradient_at_start(0);
    WiredPart& embed = at(Part::kEmbed, -1);
    embed.forward = {load(Role::kTokens, 0)};
    embed.backward = {
        load(Role::kTokens, 0),
        need(Role::kDy, of_all_tokens(branch_gradient(-1, Site::kEmbed, first_stream)))};
    if (has_position())
      at(Part::kPosition, -1).forward = {need(Role::kY, summed({Part::kEmbed, -1}))};
    if (drops) wire_dropout(-1, Site::kEmbed, 0, embedding(), first_stream);
    wire_norm(Part::kFinalNorm, -1, stream_before(num_layers, last_stage()),
              delta_before(num_layers, last_stage()));
    if (wiring.num_head_chunks_ > 0) return wire_sharded_head();
    if (trains) {
      at(Part::kFinalNorm, -1)
          .backward.push_back(need(Role::kDy, {Part::kHead, -1, Site::kNone, Role::kDx}));
    }
    WiredPart& head = at(wiring.has_labels_ ? Part::kHead : Part::kLogits, -1);
    head.forward = {need(Role::kX, {Part::kFinalNorm, -1})};
    if (wiring.has_labels_) head.forward.push_back(load(Role::kLabels, last_stage()));
    head.backward = head.forward;
  }

  void wire_sharded_head() {
    if (trains) {
      Need dy = need(Role::kDy, summed({Part::kHeadLoss, 0, Site::kNone, Role::kDx}));
      dy.num_parts = wiring.num_head_chunks_;
      at(Part::kFinalNorm, -1).backward.push_back(dy);
    }
    for (int chunk = 0; chunk < wiring.num_head_chunks_; ++chunk) {
      const auto of_chunk = [chunk](Need rows) {
        rows.chunk = chunk;
        return rows;
      };
      const Need x = of_chunk(need(Role::kX, of_all_tokens({Part::kFinalNorm, -1})));
      const Need labels = of_chunk(load(Role::kLabels, last_stage()));
      const Need logits =
          need(Role::kLogits, {Part::kHeadLogits, chunk, Site::kNone, Role::kLogits});
      const Need row_max = need(
          Role::kRowMax, {Part::kHeadLogits, chunk, Site::kNone, Role::kRowMax, Reduced::kMax});
      const Need sums =
          need(Role::kSums, {Part::kHeadSums, chunk, Site::kNone, Role::kSums, Reduced::kSum});
      at(Part::kHeadLogits, chunk).forward = {x};
      at(Part::kHeadSums, chunk).forward = {labels, logits, row_max};
      at(Part::kHeadLoss, chunk).forward = {labels, sums};
      at(Part::kHeadLogits, chunk).backward = {x};
      at(Part::kHeadSums, chunk).backward = {labels, logits, row_max};
      at(Part::kHeadLoss, chunk).backward = {labels, sums, x, row_max, logits};
    }
  }

  // Parameters
  // ---------------------------------------------------------------------------------------

  [[nodiscard]] std::optional<int> row_of(const WiredPart& item, ParameterRole parameter) const {
    const auto layer =
        item.layer < 0 ? std::optional<std::int64_t>() : std::optional<std::int64_t>(item.layer);
    const auto row = model.table().find(parameter, layer);
    return row ? std::optional(narrow<int>(*row)) : std::nullopt;
  }
  [[nodiscard]] bool is_trained(int row) const {
    return trains && model.row(static_cast<std::size_t>(row)).trainable;
  }

  void add_parameter(WiredPart& item, Role role, ParameterRole parameter) const {
    if (const auto row = row_of(item, parameter))
      item.parameters.push_back({.role = role, .row = *row});
  }
  void add_parameter(WiredPart& item, Role role, Role gradient, ParameterRole parameter) const {
    add_parameter(item, role, parameter);
    const auto row = row_of(item, parameter);
    if (row && is_trained(*row)) item.gradients.push_back({.role = gradient, .row = *row});
  }

  void wire_parameters(WiredPart& item) const {
    if (const auto role = weight_role(item.part))
      add_parameter(item, Role::kWeight, Role::kDWeight, *role);
    if (const auto role = bias_role(item.part))
      add_parameter(item, Role::kBias, Role::kDBias, *role);
    if (item.part == Part::kEmbed) {
      add_parameter(item, Role::kWeight, Role::kDWeight, ParameterRole::kTokenTable);
      add_parameter(item, Role::kWeight2, Role::kDWeight2, ParameterRole::kPositionTable);
    }
    if (item.part == Part::kRope) {
      add_parameter(item, Role::kQNorm, Role::kDQNorm, ParameterRole::kQNormWeight);
      add_parameter(item, Role::kKNorm, Role::kDKNorm, ParameterRole::kKNormWeight);
    }
    if (is_tp) move_to_after_sum(item);
    wire_head_parameters(item);
  }

  /// Row biases and positions are read by the parts that add them after the sum over tp; their
  /// gradients stay where they are.
  void move_to_after_sum(WiredPart& item) const {
    const bool is_row = item.part == Part::kProj || item.part == Part::kMlpDown;
    if (is_row || item.part == Part::kEmbed) {
      const Role late = is_row ? Role::kBias : Role::kWeight2;
      std::erase_if(item.parameters, [late](const ParameterUse& use) { return use.role == late; });
    }
    if (item.part == Part::kRowBias) {
      const bool is_attention = item.site == Site::kAttnResidual;
      add_parameter(item, Role::kBias,
                    is_attention ? ParameterRole::kProjBias : ParameterRole::kDownBias);
    }
    if (item.part == Part::kPosition)
      add_parameter(item, Role::kWeight2, ParameterRole::kPositionTable);
  }

  void wire_head_parameters(WiredPart& item) const {
    const bool is_loss = item.part == Part::kHead || item.part == Part::kHeadLoss;
    const bool reads_weight =
        is_loss || item.part == Part::kLogits || item.part == Part::kHeadLogits;
    if (!reads_weight || (item.part == Part::kHeadLoss && !trains)) return;
    const ParameterUse head{.role = Role::kWeight, .row = narrow<int>(model.table().head_index())};
    item.parameters = {head};
    if (is_loss && is_trained(head.row))
      item.gradients = {{.role = Role::kDWeight, .row = head.row, .is_head_copy = spec.tied}};
  }
};

ModelWiring::ModelWiring(const Program& program) : model_(program) {
  has_dropout_ = program.kind == ProgramKind::kTrain && program.request.spec.dropout > 0;
  has_labels_ = has_loss(program.kind);
  if (has_labels_ && program.request.layout.tp > 1)
    num_head_chunks_ = narrow<int>(div_ceil(token_shape(program).tokens(), kHeadChunkTokens));
  if (model_.has_ring()) num_hops_ = model_.num_cp_ranks();
  const int num_layers = narrow<int>(program.request.spec.layers);
  num_keys_ =
      std::max({num_layers * (num_hops_ + 1), num_head_chunks_, model_.pipeline().num_stages()});
  numbers_.assign(static_cast<std::size_t>(num_keys_ + 1) * kNumParts * kNumSites, -1);
  Builder builder(*this, program);
  builder.add_all();
  builder.wire_ends();
  builder.wire_edges();
  for (int layer = 0; layer < builder.num_layers; ++layer) builder.wire_layer(layer);
  for (WiredPart& item : parts_) builder.wire_parameters(item);
}

bool ModelWiring::loads(int stage) const {
  return stage == 0 || has_dropout_ || (has_labels_ && model_.pipeline().is_last(stage));
}

std::size_t ModelWiring::slot(Part part, int key, Site site) const {
  return (static_cast<std::size_t>(key + 1) * kNumParts + static_cast<std::size_t>(part)) *
             kNumSites +
         static_cast<std::size_t>(site);
}

int ModelWiring::ring_key(int layer, int hops) const {
  const bool exists = layer >= 0 && hops >= 0 && hops <= num_hops_;
  return exists ? layer * (num_hops_ + 1) + hops : -2;
}

int ModelWiring::key_of(const Instruction& instruction) const {
  if (is_stage_edge(instruction.part)) return instruction.stage;
  if (is_head_shard(instruction.part)) return instruction.chunk;
  const bool is_hop = num_hops_ > 0 && has_hops(instruction.part);
  return is_hop ? ring_key(instruction.layer, instruction.chunk) : instruction.layer;
}

int ModelWiring::number(const Instruction& instruction) const {
  if (instruction.op == Op::kLoad) {
    const bool exists =
        instruction.stage >= 0 && instruction.stage < model_.pipeline().num_stages();
    return exists ? instruction.stage : -1;
  }
  const int key = key_of(instruction);
  if (key < -1 || key >= num_keys_) return -1;
  return numbers_[slot(instruction.part, key, instruction.site)];
}

}  // namespace trireme
