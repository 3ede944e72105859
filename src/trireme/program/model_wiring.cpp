#include "trireme/program/model_wiring.h"

#include <cstddef>
#include <initializer_list>
#include <utility>

#include "trireme/base/units.h"
#include "trireme/program/model_parts.h"

namespace trireme {
namespace {

constexpr int kNumSites = 5;

/// A value by name: what `part` has under `role`.
struct Value {
  Part part{};
  int layer = -1;
  Site site = Site::kNone;
  Role role = Role::kY;
};

}  // namespace

/// Registers the parts first, so that needs can refer to any of them by number.
struct ModelWiring::Builder {
  ModelWiring& wiring;
  const ModelSpec& spec;
  ParameterTable table;
  bool trains;
  bool drops;  ///< dropout applies

  Builder(ModelWiring& target, const Program& program)
      : wiring(target),
        spec(program.request.spec),
        table(program.request.spec),
        trains(program.kind == ProgramKind::kTrain),
        drops(trains && program.request.spec.dropout > 0) {}

  void add(Part part, int layer, Site site = Site::kNone) {
    WiredPart item{.part = part, .layer = layer, .site = site};
    item.has_forward = !(trains && part == Part::kHead);  // training fuses head, loss and gradients
    item.has_backward = trains;
    item.is_linear =
        part == Part::kQkv || part == Part::kProj || part == Part::kMlpUp || part == Part::kMlpDown;
    wiring.numbers_[wiring.slot(part, layer, site)] = wiring.size();
    wiring.parts_.push_back(std::move(item));
  }

  [[nodiscard]] Site attention_site() const { return drops ? Site::kAttnProbs : Site::kNone; }

  void add_all(ProgramKind kind) {
    wiring.parts_.push_back({});  // LOAD
    add(Part::kEmbed, -1);
    if (drops) add(Part::kDropout, -1, Site::kEmbed);
    for (int layer = 0; layer < wiring.layers_; ++layer) {
      for (const Part part : {Part::kAttnNorm, Part::kQkv, Part::kRope, Part::kProj, Part::kMlpNorm,
                              Part::kMlpUp, Part::kAct, Part::kMlpDown}) {
        add(part, layer);
      }
      add(Part::kAttn, layer, attention_site());
      if (!drops) continue;
      add(Part::kDropout, layer, Site::kAttnResidual);
      add(Part::kDropout, layer, Site::kMlpResidual);
    }
    add(Part::kFinalNorm, -1);
    const bool has_loss = kind == ProgramKind::kTrain || kind == ProgramKind::kEval;
    add(has_loss ? Part::kHead : Part::kLogits, -1);
  }

  [[nodiscard]] WiredPart& at(Part part, int layer, Site site = Site::kNone) {
    return wiring.parts_[static_cast<std::size_t>(wiring.number(part, layer, site))];
  }
  [[nodiscard]] Need need(Role role, const Value& value, Half half = Half::kBoth) const {
    return {.role = role,
            .part = wiring.number(value.part, value.layer, value.site),
            .source = value.role,
            .half = half};
  }
  [[nodiscard]] static Need load(Role role) { return {.role = role, .part = 0, .source = role}; }

  // Forward values -------------------------------------------------------------------------------

  /// What a branch adds to the residual stream: the output of `part`, after its dropout.
  [[nodiscard]] Value branch(Part part, int layer, Site site) const {
    if (drops) return {Part::kDropout, layer, site, Role::kY};
    return {part, layer};
  }
  [[nodiscard]] Value attention_branch(int layer) const {
    return branch(Part::kProj, layer, Site::kAttnResidual);
  }
  [[nodiscard]] Value mlp_branch(int layer) const {
    return branch(Part::kMlpDown, layer, Site::kMlpResidual);
  }

  void wire_dropout(int layer, Site site, Part before, const Value& gradient) {
    WiredPart& item = at(Part::kDropout, layer, site);
    item.forward = {load(Role::kSamples), need(Role::kY, {before, layer})};
    item.backward = {load(Role::kSamples), need(Role::kDy, gradient)};
  }

  /// A norm reads the residual stream and the branch it adds.
  void wire_norm(Part part, int layer, const Value& stream, const Value* delta) {
    WiredPart& item = at(part, layer);
    item.forward = {need(Role::kX, stream)};
    if (delta != nullptr) item.forward.push_back(need(Role::kDelta, *delta));
    item.backward = {need(Role::kH, {part, layer, Site::kNone, Role::kH}),
                     need(Role::kStats, {part, layer, Site::kNone, Role::kStats})};
  }

  void wire_linear(Part part, int layer, const Value& x, const Value& dy) {
    WiredPart& item = at(part, layer);
    item.forward = {need(Role::kX, x)};
    item.backward = {need(Role::kDy, dy), need(Role::kX, x, Half::kWeight)};
  }

  // Gradients of the residual stream
  // ------------------------------------------------------------------

  /// Gradient of the residual stream as it leaves a layer.
  [[nodiscard]] Value stream_above(int layer) const {
    if (layer + 1 == wiring.layers_) return {Part::kFinalNorm, -1, Site::kNone, Role::kDh};
    return {Part::kAttnNorm, layer + 1, Site::kNone, Role::kDh};
  }
  [[nodiscard]] Value branch_gradient(int layer, Site site, const Value& stream) const {
    if (drops) return {Part::kDropout, layer, site, Role::kDx};
    return stream;
  }

  void wire_layer(int layer) {
    const Value above = stream_above(layer);
    const Value between{Part::kMlpNorm, layer, Site::kNone, Role::kDh};
    const auto dx = [layer](Part part) { return Value{part, layer, Site::kNone, Role::kDx}; };
    const auto y = [layer](Part part) { return Value{part, layer}; };
    const Site site = attention_site();

    const Value mlp_before = layer > 0 ? mlp_branch(layer - 1) : Value{};
    const Value stream = layer > 0 ? Value{Part::kMlpNorm, layer - 1, Site::kNone, Role::kH}
                                   : branch(Part::kEmbed, -1, Site::kEmbed);
    wire_norm(Part::kAttnNorm, layer, stream, layer > 0 ? &mlp_before : nullptr);
    const Value attention = attention_branch(layer);
    wire_norm(Part::kMlpNorm, layer, {Part::kAttnNorm, layer, Site::kNone, Role::kH}, &attention);
    add_norm_gradients(Part::kAttnNorm, layer, dx(Part::kQkv), &between);
    add_norm_gradients(Part::kMlpNorm, layer, dx(Part::kMlpUp), &above);

    wire_linear(Part::kQkv, layer, y(Part::kAttnNorm), dx(Part::kRope));
    wire_linear(Part::kProj, layer, {Part::kAttn, layer, site},
                branch_gradient(layer, Site::kAttnResidual, between));
    wire_linear(Part::kMlpUp, layer, y(Part::kMlpNorm), dx(Part::kAct));
    wire_linear(Part::kMlpDown, layer, y(Part::kAct),
                branch_gradient(layer, Site::kMlpResidual, above));
    WiredPart& act = at(Part::kAct, layer);
    act.forward = {need(Role::kX, y(Part::kMlpUp))};
    act.backward = {need(Role::kX, y(Part::kMlpUp)), need(Role::kDy, dx(Part::kMlpDown))};
    wire_attention(layer);
    if (!drops) return;
    wire_dropout(layer, Site::kAttnResidual, Part::kProj, between);
    wire_dropout(layer, Site::kMlpResidual, Part::kMlpDown, above);
  }

  void add_norm_gradients(Part part, int layer, const Value& dy, const Value* stream) {
    auto& backward = at(part, layer).backward;
    backward.push_back(need(Role::kDy, dy));
    if (stream != nullptr) backward.push_back(need(Role::kDh, *stream));
  }

  void wire_attention(int layer) {
    const Site site = attention_site();
    WiredPart& rope = at(Part::kRope, layer);
    WiredPart& attn = at(Part::kAttn, layer, site);
    rope.forward = {need(Role::kX, {Part::kQkv, layer})};
    if (spec.qk_norm) rope.backward = rope.forward;
    for (const Role role : {Role::kQ, Role::kK, Role::kV}) {
      attn.forward.push_back(need(role, {Part::kRope, layer, Site::kNone, role}));
    }
    attn.backward = attn.forward;
    for (const Role role : {Role::kY, Role::kLse}) {
      attn.backward.push_back(need(role, {Part::kAttn, layer, site, role}));
    }
    attn.backward.push_back(need(Role::kDy, {Part::kProj, layer, Site::kNone, Role::kDx}));
    for (const Role role : {Role::kDq, Role::kDk, Role::kDv}) {
      rope.backward.push_back(need(role, {Part::kAttn, layer, site, role}));
    }
    if (!drops) return;
    attn.forward.push_back(load(Role::kSamples));
    attn.backward.push_back(load(Role::kSamples));
  }

  void wire_ends(ProgramKind kind) {
    const int last = wiring.layers_ - 1;
    const Value first_stream{Part::kAttnNorm, 0, Site::kNone, Role::kDh};
    WiredPart& embed = at(Part::kEmbed, -1);
    embed.forward = {load(Role::kTokens)};
    embed.backward = {load(Role::kTokens),
                      need(Role::kDy, branch_gradient(-1, Site::kEmbed, first_stream))};
    if (drops) wire_dropout(-1, Site::kEmbed, Part::kEmbed, first_stream);
    const Value delta = mlp_branch(last);
    wire_norm(Part::kFinalNorm, -1, {Part::kMlpNorm, last, Site::kNone, Role::kH}, &delta);
    if (trains) {
      add_norm_gradients(Part::kFinalNorm, -1, {Part::kHead, -1, Site::kNone, Role::kDx}, nullptr);
    }
    const bool has_loss = kind == ProgramKind::kTrain || kind == ProgramKind::kEval;
    WiredPart& head = at(has_loss ? Part::kHead : Part::kLogits, -1);
    head.forward = {need(Role::kX, {Part::kFinalNorm, -1})};
    if (has_loss) head.forward.push_back(load(Role::kLabels));
    head.backward = head.forward;
  }

  // Parameters
  // ---------------------------------------------------------------------------------------

  void add_parameter(WiredPart& item, Role role, Role gradient, ParameterRole parameter) const {
    const auto layer =
        item.layer < 0 ? std::optional<std::int64_t>() : std::optional<std::int64_t>(item.layer);
    const auto row = table.find(parameter, layer);
    if (!row) return;
    item.parameters.push_back({.role = role, .row = narrow<int>(*row)});
    const bool is_trained = trains && table.rows()[static_cast<std::size_t>(*row)].trainable;
    if (is_trained) item.gradients.push_back({.role = gradient, .row = narrow<int>(*row)});
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
    if (item.part != Part::kHead && item.part != Part::kLogits) return;
    const ParameterUse head{.role = Role::kWeight, .row = narrow<int>(table.head_index())};
    item.parameters = {head};
    const bool is_trained = trains && table.rows()[static_cast<std::size_t>(head.row)].trainable;
    if (is_trained) {
      item.gradients = {{.role = Role::kDWeight, .row = head.row, .is_head_copy = spec.tied}};
    }
  }
};

ModelWiring::ModelWiring(const Program& program)
    : layers_(narrow<int>(program.request.spec.layers)) {
  numbers_.assign(static_cast<std::size_t>(layers_ + 1) * kNumParts * kNumSites, -1);
  Builder builder(*this, program);
  builder.add_all(program.kind);
  builder.wire_ends(program.kind);
  for (int layer = 0; layer < layers_; ++layer) builder.wire_layer(layer);
  for (WiredPart& item : parts_) builder.wire_parameters(item);
}

std::size_t ModelWiring::slot(Part part, int layer, Site site) const {
  return (static_cast<std::size_t>(layer + 1) * kNumParts + static_cast<std::size_t>(part)) *
             kNumSites +
         static_cast<std::size_t>(site);
}

int ModelWiring::number(Part part, int layer, Site site) const {
  if (layer < -1 || layer >= layers_) return -1;
  return numbers_[slot(part, layer, site)];
}

}  // namespace trireme
