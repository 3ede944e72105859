#include "trireme/train/checkpointing.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <sstream>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "trireme/base/bf16.h"
#include "trireme/base/errors.h"
#include "trireme/checkpoint/hf_config.h"

namespace trireme {
namespace {

using Tensors = std::vector<StateTensor>;

constexpr const char* kHeadName = "lm_head.weight";

Tensors model_tensors(const ModelState& state) {
  return state.tensors(StateKind::kParameter, "", "");
}

Tensors optimizer_tensors(const ModelState& state) {
  Tensors all = state.tensors(StateKind::kMaster, "", ".master");
  for (const auto& [kind, suffix] :
       {std::pair(StateKind::kMoment1, ".m"), std::pair(StateKind::kMoment2, ".v")}) {
    const Tensors more = state.tensors(kind, "", suffix);
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

std::vector<TensorSpec> specs_of(const ModelState& state, const Tensors& tensors) {
  std::vector<TensorSpec> specs;
  for (const StateTensor& tensor : tensors) specs.push_back(state.spec_of(tensor));
  return specs;
}

/// Gathers tensor after tensor in the order of the file (by name, all being of one type); rank 0
/// writes them.
void write_tensors(const ModelState& state, Tensors tensors, Communicator* group,
                   SafetensorsWriter* writer) {
  std::sort(tensors.begin(), tensors.end(),
            [](const StateTensor& a, const StateTensor& b) { return a.name < b.name; });
  for (const StateTensor& tensor : tensors) {
    const std::vector<float> values = state.gather(tensor, group);
    if (writer == nullptr) continue;
    if (state.spec_of(tensor).dtype == DType::kBf16) {
      std::vector<std::byte> rounded(values.size() * sizeof(Bf16));
      round_to_bf16(values, rounded.data());
      writer->write(tensor.name, rounded);
    } else {
      writer->write(tensor.name, std::as_bytes(std::span(values)));
    }
  }
}

nlohmann::json trainer_json(const SaveRequest& request) {
  const Environment& environment = request.environment;
  return {{"updates", request.run.updates},
          {"skipped", request.run.skipped},
          {"layout", environment.layout},
          {"data", environment.data},
          {"threads_per_rank", environment.threads_per_rank},
          {"instruction_set", environment.instruction_set},
          {"library", environment.library},
          {"training", training_text(request.config)}};
}

/// "section.key = value" lines by key.
std::map<std::string, std::string> options_in(const std::string& training) {
  std::map<std::string, std::string> options;
  std::istringstream lines(training);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t equals = line.find(" = ");
    if (equals != std::string::npos) options[line.substr(0, equals)] = line.substr(equals + 3);
  }
  return options;
}

std::vector<std::string> option_differences(const std::string& saved, const TrainConfig& config) {
  std::vector<std::string> notes;
  std::vector<std::string> model;
  auto before = options_in(saved);
  for (const auto& [key, value] : options_in(training_text(config))) {
    const auto old = before.find(key);
    const std::string old_value = old == before.end() ? "not set" : old->second;
    if (old_value == value) continue;
    if (key.starts_with("model.") && key != "model.dropout") {
      model.push_back(fmt::format("{} = {} but the checkpoint has {}", key, value, old_value));
      continue;
    }
    notes.push_back(
        fmt::format("{}: checkpoint {}, config {}: the config wins", key, old_value, value));
  }
  if (model.empty()) return notes;
  throw UsageError(fmt::format("[resume] {}; the model must be the same: use another run.name",
                               fmt::join(model, ", ")));
}

void add_environment_notes(const nlohmann::json& saved, const Environment& now,
                           std::vector<std::string>& notes) {
  const auto compare = [&](const char* key, const std::string& value, const char* consequence) {
    const std::string old =
        saved.contains(key)
            ? (saved[key].is_string() ? saved[key].get<std::string>() : saved[key].dump())
            : "unknown";
    if (old != value)
      notes.push_back(fmt::format("{}: checkpoint {}, now {}: {}", key, old, value, consequence));
  };
  const char* const rounding = "results agree to rounding, not bit by bit";
  compare("layout", now.layout, "results agree to rounding unless only the strategy of dp differs");
  compare("data", now.data, "the text has changed, so the samples to come are others");
  compare("threads_per_rank", std::to_string(now.threads_per_rank), rounding);
  compare("instruction_set", now.instruction_set, rounding);
  compare("library", now.library, rounding);
}

void load_tensors(const ShardedReader& reader, const Tensors& tensors, ModelState& state) {
  for (const StateTensor& tensor : tensors) {
    if (state.holds(tensor)) state.load(tensor, reader);
  }
}

/// Constants that Hugging Face files of these families carry beside the parameters.
bool is_constant_buffer(std::string_view name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") ||
         name.ends_with(".rotary_emb.inv_freq");
}

/// Row by row, so that no table is held whole.
bool are_equal(const TensorSource& a, const TensorSource& b) {
  const MatrixShape& shape = a.shape();
  std::vector<float> row_of_a(static_cast<std::size_t>(shape.num_columns)), row_of_b = row_of_a;
  for (std::int64_t r = 0; r < shape.num_rows; ++r) {
    const Rectangle row{.first_row = r, .num_rows = 1, .num_columns = shape.num_columns};
    a.read(row, row_of_a);
    b.read(row, row_of_b);
    if (row_of_a != row_of_b) return false;
  }
  return true;
}

/// A file may repeat the tied table under the head's name, but not with other values.
void check_tied_head(const ShardedReader& reader, const ModelState& state) {
  const ParameterTable& table = state.table();
  const Parameter& head = table.rows().at(static_cast<std::size_t>(table.head_index()));
  const std::string& name = head.views.front().name;
  if (are_equal({reader, kHeadName, head.shape}, {reader, name, head.shape})) return;
  throw ResourceError(
      fmt::format("[checkpoint] {} and {} differ, but the model ties them; set model.tied (in "
                  "config.json tie_word_embeddings) to false, or take {} out of the file",
                  kHeadName, name, kHeadName));
}

/// A tensor that the model has no place for means that the model is another one.
void check_all_are_used(const ShardedReader& reader, const Tensors& tensors,
                        const ModelState& state) {
  std::set<std::string_view> known;
  for (const StateTensor& tensor : tensors) known.insert(tensor.name);
  for (const std::string& name : reader.names()) {
    if (known.contains(name) || is_constant_buffer(name)) continue;
    if (name == kHeadName) {
      if (state.rank() == 0) check_tied_head(reader, state);  // reads both tables
      continue;
    }
    throw ResourceError(
        fmt::format("[checkpoint] tensor {} has no place in this model of {} tensors; correct "
                    "[model] or config.json, so that the model has it, or take it out of the file",
                    name, tensors.size()));
  }
}

}  // namespace

std::int64_t checkpoint_bytes(const ModelState& state) {
  return SafetensorsWriter::file_bytes(specs_of(state, model_tensors(state))) +
         SafetensorsWriter::file_bytes(specs_of(state, optimizer_tensors(state)));
}

std::filesystem::path save_checkpoint(CheckpointStore* store, const ModelState& state,
                                      const SaveRequest& request, Communicator* group) {
  if (store == nullptr) {  // a rank that only sends its shards
    write_tensors(state, model_tensors(state), group, nullptr);
    write_tensors(state, optimizer_tensors(state), group, nullptr);
    return {};
  }
  const CheckpointState header{.step = request.run.step,
                               .tokens = request.run.tokens,
                               .data_position = {{"train", request.run.next_sample}},
                               .rng_seed = static_cast<std::uint64_t>(request.config.run.seed),
                               .config_hash = config_hash(request.config),
                               .trainer_json = trainer_json(request).dump()};
  const auto report = store->save(header, checkpoint_bytes(state), [&](CheckpointDraft& draft) {
    const Tensors model = model_tensors(state), optimizer = optimizer_tensors(state);
    draft.write_tensors(
        "model.safetensors", specs_of(state, model),
        [&](SafetensorsWriter& writer) { write_tensors(state, model, group, &writer); },
        {{"format", "pt"}});
    draft.write_tensors(
        "optimizer.safetensors", specs_of(state, optimizer),
        [&](SafetensorsWriter& writer) { write_tensors(state, optimizer, group, &writer); });
    draft.write_text("config.json", hf_config_json(request.config.model.spec));
  });
  return report.dir;
}

Resumed resume_checkpoint(const Checkpoint& checkpoint, ModelState& state,
                          const TrainConfig& config, const Environment& environment) {
  Resumed resumed;
  try {
    const auto trainer = nlohmann::json::parse(checkpoint.state.trainer_json);
    resumed.notes = option_differences(trainer.value("training", ""), config);
    add_environment_notes(trainer, environment, resumed.notes);
    resumed.run.updates = trainer.value("updates", checkpoint.state.step);
    resumed.run.skipped = trainer.value("skipped", std::int64_t{0});
  } catch (const nlohmann::json::exception& error) {
    throw ResourceError(
        fmt::format("[checkpoint] {}: its member \"trainer\" is not what a trainer wrote ({}); use "
                    "another checkpoint",
                    (checkpoint.dir / "state.json").string(), error.what()));
  }
  const ShardedReader reader(checkpoint.dir, "optimizer");
  load_tensors(reader, optimizer_tensors(state), state);
  resumed.bytes_read = reader.bytes_read();
  const auto position = checkpoint.state.data_position.find("train");
  resumed.run.step = checkpoint.state.step;
  resumed.run.tokens = checkpoint.state.tokens;
  resumed.run.next_sample = position == checkpoint.state.data_position.end()
                                ? checkpoint.state.step * config.batch.global_batch
                                : position->second;
  return resumed;
}

void load_weights(const std::filesystem::path& folder, ModelState& state) {
  const ShardedReader reader(folder);
  const Tensors tensors = model_tensors(state);
  check_all_are_used(reader, tensors, state);
  load_tensors(reader, tensors, state);
  if (state.has_finite_parameters()) return;
  throw ResourceError(fmt::format(
      "[checkpoint] {}: some weights are not finite; the file is damaged or its training "
      "diverged: use an earlier checkpoint",
      folder.string()));
}

void make_dump_folder(const std::filesystem::path& dir) {
  std::error_code error;
  std::filesystem::create_directories(dir, error);
  if (error || !std::filesystem::is_directory(dir, error)) {
    throw ResourceError(fmt::format("[dump] {}: {}; name a folder that can be written",
                                    dir.string(), error ? error.message() : "it is no folder"));
  }
}

void dump_step(const ModelState& state, const DumpRequest& request, Communicator* group) {
  Tensors tensors = state.tensors(StateKind::kGradient, "grad.", "");
  const Tensors weights = state.tensors(StateKind::kMaster, "weight.", "");
  tensors.insert(tensors.end(), weights.begin(), weights.end());
  if (group != nullptr && group->rank() != 0) return write_tensors(state, tensors, group, nullptr);
  make_dump_folder(request.dir);
  std::error_code error;
  const std::filesystem::path path = request.dir / fmt::format("step_{}.safetensors", request.step);
  std::filesystem::remove(path, error);
  SafetensorsWriter writer(path, specs_of(state, tensors));
  write_tensors(state, tensors, group, &writer);
  writer.finish();
  const nlohmann::json summary = {
      {"step", request.step}, {"loss", request.loss}, {"grad_norm", request.grad_norm}};
  const std::filesystem::path summary_path =
      request.dir / fmt::format("step_{}.json", request.step);
  std::filesystem::remove(summary_path, error);
  write_text(summary_path, summary.dump() + "\n");
}

}  // namespace trireme
