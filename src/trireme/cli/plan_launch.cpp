#include "trireme/cli/plan_launch.h"

#include <filesystem>

#include <fmt/format.h>

#include "trireme/base/errors.h"
#include "trireme/checkpoint/file.h"
#include "trireme/cli/run_log.h"

namespace trireme {
namespace {

constexpr std::int64_t kMaxConfigBytes = std::int64_t{1} << 26;

/// Without the folder and the extension of a path; names themselves have dots, as llama-3.1-405b.
std::string model_stem(const std::string& name_or_path) {
  const std::filesystem::path path(name_or_path);
  return (path.extension() == ".toml" ? path.stem() : path.filename()).string();
}

LaunchRequest launch_request(const PlanRequest& request, const PlannedLayout& planned) {
  const int devices = planned.workload.layout.world();
  // As few nodes as hold the devices, as many on each.
  int nodes = request.cluster.is_cpu ? 1 : request.nodes();
  while (devices % nodes != 0) ++nodes;
  return {.model_name = model_stem(request.model_name),
          .spec = *request.spec,
          .layout = planned.workload.layout,
          .batch = planned.workload.batch,
          .precision = request.precision,
          .setting = {.nodes = nodes, .devices_per_node = devices / nodes}};
}

std::string written(const LaunchFiles& files, const std::string& folder) {
  const std::filesystem::path path = std::filesystem::path(folder) / files.config_name;
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored) &&
      read_text(path, kMaxConfigBytes, kPlainFile) != files.config) {
    throw UsageError(
        fmt::format("[command line] --emit: {} exists with another content, which would be lost; "
                    "move it, or give --emit-folder",
                    path.string()));
  }
  replace_file(path, files.config);
  std::string text = fmt::format("wrote {}; start it, where that file is, with\n\n{}\n",
                                 path.string(), files.command);
  for (const std::string& note : files.notes) text += fmt::format("note: {}\n", note);
  return text;
}

}  // namespace

EmitTarget emit_target(const std::string& framework, const std::string& folder) {
  const auto found = find_framework(framework);
  if (!found) {
    throw UsageError(
        fmt::format("[command line] --emit {}: must be one of {}", framework, framework_names()));
  }
  if (!std::filesystem::is_directory(folder)) {
    throw UsageError(fmt::format(
        "[command line] --emit-folder {}: must be a folder that exists; make it", folder));
  }
  return {.framework = *found, .folder = folder};
}

std::string emit_launch(const PlanRequest& request, const Plan& plan, const EmitTarget& target) {
  const std::string_view name = framework_name(target.framework);
  if (!request.spec) {
    throw UsageError(
        fmt::format("[command line] --emit {}: {} is known by its sizes alone; name a model of "
                    "models/, or the path of such a file",
                    name, request.model_name));
  }
  const std::string note =
      name == request.profile.name
          ? ""
          : fmt::format("note: planned and priced as {} runs it; --framework names another\n",
                        request.profile.name);
  std::string passed_over;
  for (std::size_t i = 0; i < plan.layouts.size(); ++i) {
    LaunchFiles files;
    try {
      files = launch_files(target.framework, launch_request(request, plan.layouts[i]));
    } catch (const UsageError& error) {
      passed_over += fmt::format("layout {} is not for {}: {}\n", i + 1, name, error.what());
      continue;
    }
    return note + passed_over + fmt::format("layout {} for {}: ", i + 1, name) +
           written(files, target.folder);
  }
  throw UsageError(
      fmt::format("[command line] --emit {}: none of the {} layouts; the first because: {}", name,
                  plan.layouts.size(), passed_over.substr(0, passed_over.find('\n'))));
}

}  // namespace trireme
