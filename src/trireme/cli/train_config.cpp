#include "trireme/cli/train_config.h"

#include <algorithm>

#include <fmt/format.h>

#include "trireme/base/errors.h"
#include "trireme/checkpoint/hf_config.h"
#include "trireme/cli/model_folder.h"

namespace trireme {
namespace {

/// The checkpoint's model with the given dropout and context.
ModelSpec spec_beside(const ModelSpec& given, const ModelFolder& folder) {
  ModelSpec spec = folder.spec;
  spec.dropout = given.dropout;
  if (given.max_seq > 0 && spec.is_llama()) spec.max_seq = given.max_seq;
  ModelSpec sizes = given;
  sizes.dropout = 0.0;
  sizes.max_seq = 0;
  if (sizes == ModelSpec{} || resolved(given) == resolved(spec)) return spec;
  throw UsageError(fmt::format(
      "[model] checkpoint = {}: its config.json holds another model than the sizes in [model]; "
      "leave the sizes out, the checkpoint has them",
      folder.path.string()));
}

}  // namespace

bool is_given(const std::vector<ConfigOverride>& overrides, std::string_view name) {
  return std::any_of(overrides.begin(), overrides.end(),
                     [&](const ConfigOverride& each) { return each.name == name; });
}

TrainConfig train_config(const ConfigArguments& arguments) {
  for (const ConfigOverride& option : arguments.overrides) {
    if (arguments.layout.empty() || !option.name.starts_with("layout.")) continue;
    throw UsageError(fmt::format(
        "[command line] --layout and --{}: both say how training is cut; give one of them",
        option.name));
  }
  TrainConfig config = load_config(arguments.path, arguments.overrides);
  if (arguments.layout == kAutoLayout) {
    config.layout = {.cp_comm = config.layout.cp_comm, .bucket_mib = config.layout.bucket_mib};
    if (!is_given(arguments.overrides, "batch.micro_batch")) config.batch.micro_batch = 1;
  } else {
    parse_layout_text(arguments.layout, config.layout, config.batch);
  }
  if (!config.model.checkpoint.empty()) {
    const ModelFolder folder = find_model(config.model.checkpoint);
    config.model.checkpoint = folder.path.string();
    config.model.spec = spec_beside(config.model.spec, folder);
  }
  config = checked(std::move(config));
  static_cast<void>(hf_config_json(config.model.spec));  // refuses what cannot be saved
  return config;
}

}  // namespace trireme
