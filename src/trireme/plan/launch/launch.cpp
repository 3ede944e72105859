#include "trireme/plan/launch/launch.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "trireme/plan/launch/checks.h"
#include "trireme/plan/launch/targets.h"

namespace trireme {
namespace {

constexpr std::array<std::string_view, 6> kNames = {"trireme",  "torchtitan", "megatron",
                                                    "nanotron", "picotron",   "deepspeed"};

LaunchFiles files_of(Framework framework, const LaunchRequest& request) {
  switch (framework) {
    case Framework::kTrireme:
      return launch::trireme_files(request);
    case Framework::kTorchtitan:
      return launch::torchtitan_files(request);
    case Framework::kMegatron:
      return launch::megatron_files(request);
    case Framework::kNanotron:
      return launch::nanotron_files(request);
    case Framework::kPicotron:
      return launch::picotron_files(request);
    case Framework::kDeepspeed:
      return launch::deepspeed_files(request);
  }
  TRI_CHECK(false);
}

}  // namespace

std::string_view framework_name(Framework framework) {
  return kNames.at(static_cast<std::size_t>(framework));
}

std::optional<Framework> find_framework(std::string_view name) {
  const auto found = std::find(kNames.begin(), kNames.end(), name);
  if (found == kNames.end()) return std::nullopt;
  return static_cast<Framework>(found - kNames.begin());
}

std::string framework_names() {
  return fmt::format("{}", fmt::join(kNames, ", "));
}

LaunchFiles launch_files(Framework framework, const LaunchRequest& request) {
  LaunchRequest complete = request;
  complete.spec = resolved(request.spec);
  launch::check_request(framework_name(framework), complete);
  return files_of(framework, complete);
}

}  // namespace trireme
