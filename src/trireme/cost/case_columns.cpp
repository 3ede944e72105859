#include "trireme/cost/case_columns.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "trireme/base/errors.h"
#include "trireme/base/nearest.h"
#include "trireme/base/numbers.h"
#include "trireme/base/units.h"
#include "trireme/base/words.h"
#include "trireme/cost/known_models.h"
#include "trireme/program/schedules/schedules.h"

namespace trireme {
namespace {

/// Bounds within which no product of sizes leaves 64 bits.
constexpr std::int64_t kMaxLayers = 16384;
constexpr std::int64_t kMaxWidth = 1 << 20;
constexpr std::int64_t kMaxVocab = 1 << 24;
constexpr std::int64_t kMaxCount = 1'000'000;
constexpr std::int64_t kMaxSequences = 1'000'000'000'000;
constexpr std::int64_t kDefaultHeadDim = 128;

/// The cells of one row, typed.
class Row {
 public:
  explicit Row(const CellReader& cell) : cell_(cell) {}

  [[nodiscard]] std::string_view text(std::string_view column) const {
    std::string_view value = cell_(column);
    while (!value.empty() && value.front() == ' ') value.remove_prefix(1);
    while (!value.empty() && value.back() == ' ') value.remove_suffix(1);
    return value;
  }

  /// Nothing for a blank cell.
  [[nodiscard]] std::optional<std::int64_t> count(std::string_view column,
                                                  std::int64_t max = kMaxCount) const {
    const std::string_view value = text(column);
    if (value.empty()) return std::nullopt;
    std::int64_t number = 0;
    if (!is_number(value, number) || number < 1 || number > max) {
      throw UsageError(fmt::format("{} = \"{}\": must be an integer from 1 to {}", column,
                                   shortened(value), max));
    }
    return number;
  }

  [[nodiscard]] std::optional<bool> flag(std::string_view column) const {
    const std::string value = lower_case(text(column));
    if (value.empty()) return std::nullopt;
    for (const std::string_view yes : {"1", "true", "yes"}) {
      if (value == yes) return true;
    }
    for (const std::string_view no : {"0", "false", "no"}) {
      if (value == no) return false;
    }
    throw UsageError(fmt::format("{} = \"{}\": must be 0 or 1", column, shortened(value)));
  }

 private:
  const CellReader& cell_;
};

/// Names of gated families, where a row has sizes and no flag.
bool names_gated_family(std::string_view model) {
  constexpr std::array<std::string_view, 3> kFamilies = {"llama", "qwen", "mistral"};
  const std::string name = lower_case(model);
  return std::any_of(kFamilies.begin(), kFamilies.end(), [&](std::string_view family) {
    return name.find(family) != std::string::npos;
  });
}

void override_sizes(const Row& row, ModelShape& shape) {
  struct Size {
    std::string_view column;
    std::int64_t ModelShape::*member;
    std::int64_t max;
  };
  for (const auto& [column, member, max] :
       {Size{"layers", &ModelShape::layers, kMaxLayers},
        Size{"hidden", &ModelShape::hidden, kMaxWidth},
        Size{"heads", &ModelShape::heads, kMaxWidth},
        Size{"kv_heads", &ModelShape::kv_heads, kMaxWidth},
        Size{"head_dim", &ModelShape::head_dim, kMaxWidth},
        Size{"ffn", &ModelShape::ffn, kMaxWidth}, Size{"vocab", &ModelShape::vocab, kMaxVocab},
        Size{"positions", &ModelShape::positions, kMaxVocab}}) {
    if (const auto value = row.count(column, max)) shape.*member = *value;
  }
  if (const auto tied = row.flag("tied")) shape.is_tied = *tied;
  if (const auto gated = row.flag("gated")) shape.is_gated = *gated;
}

/// A model given by its sizes alone.
ModelShape shape_of_sizes(const Row& row, const CaseDefaults& defaults) {
  ModelShape shape;
  override_sizes(row, shape);
  if (shape.layers == 0 || shape.hidden == 0) {
    const std::string_view model = row.text("model");
    throw UsageError(
        model.empty()
            ? std::string("model: needs a model, or layers and hidden")
            : fmt::format(
                  "model = \"{}\": not known; give layers, hidden, heads, kv_heads, ffn, vocab",
                  shortened(model)));
  }
  if (shape.head_dim == 0) {
    shape.head_dim = shape.heads > 0 ? shape.hidden / shape.heads : kDefaultHeadDim;
  }
  if (shape.heads == 0) shape.heads = std::max<std::int64_t>(shape.hidden / shape.head_dim, 1);
  if (shape.kv_heads == 0) shape.kv_heads = shape.heads;
  const bool is_plain_ffn = shape.ffn == 0 || shape.ffn == 4 * shape.hidden;
  if (shape.ffn == 0) shape.ffn = 4 * shape.hidden;
  const bool has_gpt_sizes = is_plain_ffn && shape.kv_heads == shape.heads;
  if (!row.flag("gated")) {
    shape.is_gated =
        names_gated_family(row.text("model")) || defaults.is_llama_like || !has_gpt_sizes;
  }
  if (!row.flag("tied")) shape.is_tied = !shape.is_gated;
  shape.has_biases = !shape.is_gated;
  if (shape.vocab == 0) {
    constexpr std::int64_t kGptVocab = 50257;  // of GPT-2's tokenizer
    shape.vocab = kGptVocab;
  }
  return shape;
}

ModelShape read_shape(const Row& row, const CaseDefaults& defaults) {
  if (const auto known = known_model(row.text("model"))) {
    ModelShape shape = *known;
    const bool has_own_kv_heads = shape.kv_heads != shape.heads;
    override_sizes(row, shape);
    if (!has_own_kv_heads && !row.count("kv_heads")) shape.kv_heads = shape.heads;
    return shape;
  }
  return shape_of_sizes(row, defaults);
}

/// "none", "selective", "full", each also with "+SP"; "SP only".
void read_recompute(std::string_view text, Layout& layout, std::optional<bool>& sp) {
  std::string word = lower_case(text);
  if (word.empty()) return;
  if (!sp) sp = word.find("sp") != std::string::npos;
  if (const std::size_t plus = word.find('+'); plus != std::string::npos) word.resize(plus);
  for (const Recompute each : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
    if (word == recompute_name(each)) {
      layout.recompute = each;
      return;
    }
  }
  if (word == "sp only") return;
  throw UsageError(fmt::format(
      "recompute = \"{}\": must be none, selective or full, with +SP or without", shortened(text)));
}

ComputePrecision read_precision(std::string_view text) {
  const std::string word = lower_case(text);
  if (word.empty()) return ComputePrecision::kBf16;
  for (const ComputePrecision each : {ComputePrecision::kBf16, ComputePrecision::kFp16,
                                      ComputePrecision::kFp8, ComputePrecision::kFp32}) {
    if (word == precision_name(each)) return each;
  }
  throw UsageError(
      fmt::format("precision = \"{}\": must be bf16, fp16, fp8 or fp32", shortened(text)));
}

/// "1", "1 (distributed optimizer)".
int read_zero(std::string_view text, int otherwise) {
  if (text.empty()) return otherwise;
  const bool is_stage =
      text.front() >= '0' && text.front() <= '3' && (text.size() == 1 || text[1] == ' ');
  if (!is_stage)
    throw UsageError(fmt::format("zero = \"{}\": must be 0, 1, 2 or 3", shortened(text)));
  return text.front() - '0';
}

void read_devices(const Row& row, const CaseDefaults& defaults, Layout& layout) {
  const auto gpus = row.count("gpus");
  const auto nodes = row.count("nodes");
  if (gpus && nodes && div_ceil(*gpus, defaults.node_devices) != *nodes) {
    throw UsageError(fmt::format("nodes = {} of {} devices, but gpus = {}; make them agree", *nodes,
                                 defaults.node_devices, *gpus));
  }
  const std::int64_t rest = std::int64_t{layout.pp} * layout.tp * layout.cp;
  if (rest * layout.dp > kMaxCount) {
    throw UsageError(fmt::format("pp {} x dp {} x cp {} x tp {}: more than {} devices", layout.pp,
                                 layout.dp, layout.cp, layout.tp, kMaxCount));
  }
  const std::int64_t devices = gpus    ? *gpus
                               : nodes ? *nodes * defaults.node_devices
                                       : rest * layout.dp;
  if (row.text("dp").empty() && row.text("layout").empty() && devices % rest == 0 &&
      devices >= rest) {
    layout.dp = static_cast<int>(devices / rest);
  }
  if (rest * layout.dp != devices) {
    throw UsageError(
        fmt::format("pp {} x dp {} x cp {} x tp {} = {}, but {} devices; make them equal",
                    layout.pp, layout.dp, layout.cp, layout.tp, rest * layout.dp, devices));
  }
}

/// A name, with ":chunks" where the schedule takes any.
void read_schedule(std::string_view text, Layout& layout) {
  if (text.empty()) return;
  const std::string_view name = text.substr(0, text.find(':'));
  const auto& kinds = schedule_kinds();
  if (std::none_of(kinds.begin(), kinds.end(),
                   [&](const ScheduleKind& kind) { return kind.name == name; })) {
    std::vector<std::string_view> names;
    for (const ScheduleKind& kind : kinds) names.push_back(kind.name);
    throw UsageError(fmt::format("schedule = \"{}\": must be one of {}", shortened(text),
                                 fmt::join(names, ", ")));
  }
  Batch ignored;
  parse_layout_text(fmt::format("schedule={}", text), layout, ignored);
}

void read_layout(const Row& row, const CaseDefaults& defaults, Workload& workload) {
  Layout& layout = workload.layout;
  layout.zero = read_zero(row.text("zero"), defaults.zero);
  if (!row.text("layout").empty()) parse_layout_text(row.text("layout"), layout, workload.batch);
  for (const auto& [column, member] :
       {std::pair("pp", &Layout::pp), std::pair("dp", &Layout::dp), std::pair("cp", &Layout::cp),
        std::pair("tp", &Layout::tp)}) {
    if (!row.text(column).empty()) layout.*member = static_cast<int>(*row.count(column));
  }
  if (const auto chunks = row.count("vpp"); chunks && *chunks > 1) {
    layout.schedule = "interleaved";
    layout.chunks = static_cast<int>(*chunks);
  }
  read_schedule(row.text("schedule"), layout);
  std::optional<bool> sp = row.flag("sp");
  read_recompute(row.text("recompute"), layout, sp);
  if (row.text("layout").empty() || sp) layout.sp = sp.value_or(defaults.sp) && layout.tp > 1;
  read_devices(row, defaults, layout);
}

void read_batch(const Row& row, const CaseDefaults& defaults, Workload& workload) {
  Batch& batch = workload.batch;
  batch.seq = row.count("seq", kMaxVocab).value_or(defaults.seq);
  if (const auto micro_batch = row.count("mbs")) batch.micro_batch = *micro_batch;
  const std::int64_t at_once = batch.micro_batch * workload.layout.dp;
  const auto accumulation = row.count("grad_acc");
  batch.global_batch = row.count("gbs", kMaxSequences).value_or(at_once * accumulation.value_or(1));
  if (batch.global_batch % at_once != 0) {
    throw UsageError(fmt::format("gbs = {}: must be a multiple of mbs {} x dp {} = {}; use {}",
                                 batch.global_batch, batch.micro_batch, workload.layout.dp, at_once,
                                 nearest_multiples(batch.global_batch, at_once)));
  }
  if (accumulation && batch.global_batch != at_once * *accumulation) {
    throw UsageError(fmt::format("gbs = {}, but mbs {} x grad_acc {} x dp {} = {}; make them equal",
                                 batch.global_batch, batch.micro_batch, *accumulation,
                                 workload.layout.dp, at_once * *accumulation));
  }
}

void check_sizes(const ModelShape& shape, const Layout& layout) {
  const std::int64_t stages = std::int64_t{layout.pp} * std::max(layout.chunks, 1);
  if (shape.heads % layout.tp != 0) {
    throw UsageError(fmt::format("tp = {}: must divide heads = {}; use {}", layout.tp, shape.heads,
                                 nearest_divisors(shape.heads, layout.tp)));
  }
  if (shape.heads % shape.kv_heads != 0) {
    throw UsageError(fmt::format("kv_heads = {}: must divide heads = {}; use {}", shape.kv_heads,
                                 shape.heads, nearest_divisors(shape.heads, shape.kv_heads)));
  }
  if (stages > shape.layers + 2) {
    throw UsageError(
        fmt::format("pp {} x vpp {} = {} stages: more than {} layers, an embedding and a head",
                    layout.pp, std::max(layout.chunks, 1), stages, shape.layers));
  }
}

/// What Trireme would train for these sizes; layers = 0 if it has no such family.
ModelSpec trained_spec(const ModelShape& shape, std::string_view name, std::int64_t seq) {
  ModelSpec spec = spec_of(shape, known_spec(name).value_or(ModelSpec{}));
  if (spec.max_seq == 0) spec.max_seq = seq;
  const bool is_family = shape.is_gated || (shape.has_biases && shape.is_tied);
  if (!is_family) spec.layers = 0;
  return spec;
}

}  // namespace

const std::vector<std::string_view>& case_columns() {
  static const std::vector<std::string_view> columns = {
      "model",     "layers",    "hidden",   "heads",    "kv_heads", "head_dim", "ffn", "vocab",
      "positions", "tied",      "gated",    "nodes",    "gpus",     "dp",       "tp",  "pp",
      "cp",        "vpp",       "sp",       "zero",     "mbs",      "gbs",      "seq", "grad_acc",
      "recompute", "precision", "gpu_type", "schedule", "layout"};
  return columns;
}

PricedCase read_case(const CellReader& cell, const CaseDefaults& defaults) {
  const Row row(cell);
  PricedCase result;
  Workload& workload = result.workload;
  workload.model = read_shape(row, defaults);
  workload.precision = read_precision(row.text("precision"));
  read_layout(row, defaults, workload);
  read_batch(row, defaults, workload);
  check_sizes(workload.model, workload.layout);
  if (workload.batch.seq % workload.layout.cp != 0) {
    throw UsageError(fmt::format("seq = {}: must be a multiple of cp = {}; use {}",
                                 workload.batch.seq, workload.layout.cp,
                                 nearest_multiples(workload.batch.seq, workload.layout.cp)));
  }
  result.spec = trained_spec(workload.model, row.text("model"), workload.batch.seq);
  return result;
}

}  // namespace trireme
