#include "trireme/plan/launch/text.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include <fmt/format.h>

#include "trireme/base/words.h"

namespace trireme::launch {

std::string file_stem(std::string_view name) {
  std::string stem;
  for (const char each : name) {
    stem += is_letter_or_digit(each) || each == '.' || each == '-' ? each : '_';
  }
  if (stem.starts_with('.') || stem.starts_with('-')) stem.front() = '_';
  return stem;
}

std::string python_name(std::string_view name) {
  std::string result;
  for (const char each : name) {
    result += is_letter_or_digit(each) ? lower_case(each) : '_';
  }
  return result;
}

std::string number(double value) {
  std::string text = fmt::format("{}", value);
  const std::size_t exponent = text.find('e');
  if (text.find('.') == std::string::npos) text.insert(std::min(exponent, text.size()), ".0");
  return text;
}

std::string quoted(std::string_view text) {
  return nlohmann::json(std::string(text)).dump();
}

std::string shell_word(std::string_view text) {
  const bool is_plain = !text.empty() && std::all_of(text.begin(), text.end(), [](char each) {
    return is_letter_or_digit(each) ||
           std::string_view("-_./:=,@%+").find(each) != std::string_view::npos;
  });
  if (is_plain) return std::string(text);
  std::string result = "'";
  for (const char each : text) {
    if (each == '\'') {
      result += "'\\''";
    } else {
      result += each;
    }
  }
  return result + "'";
}

std::string comment(std::string_view framework, std::string_view commit,
                    const LaunchRequest& request, const LaunchFiles& files) {
  std::string model(request.model_name);
  std::replace_if(
      model.begin(), model.end(), [](char each) { return each == '\n' || each == '\r'; }, ' ');
  std::string text =
      fmt::format("# {}{}: {}, seq={} gbs={}\n# {}\n", framework,
                  commit.empty() ? "" : fmt::format(" {}", commit), model, request.batch.seq,
                  request.batch.global_batch, layout_text(request.layout, request.batch));
  for (const std::string& note : files.notes) text += fmt::format("# {}\n", note);
  return text;
}

std::string torchrun_command(const LaunchSetting& setting, std::string_view environment,
                             std::string_view program) {
  // Rendezvous as torchtitan's run_train.sh and multinode_trainer.slurm (b5bcd76) set it up.
  if (setting.nodes == 1) {
    return fmt::format(
        "{}torchrun --nnodes 1 --nproc-per-node {} --rdzv-backend c10d "
        "--rdzv-endpoint localhost:0 {}\n",
        environment, setting.devices_per_node, program);
  }
  constexpr int kPort = 29500;
  constexpr int kJob = 101;
  std::string prefix(environment);
  if (!prefix.empty()) prefix = "env " + prefix;
  return fmt::format(
      "head=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)\n"
      "srun --nodes {0} --ntasks {0} --ntasks-per-node 1 {1}torchrun --nnodes {0} "
      "--nproc-per-node {2} --rdzv-id {3} --rdzv-backend c10d --rdzv-endpoint \"$head:{4}\" {5}\n",
      setting.nodes, prefix, setting.devices_per_node, kJob, kPort, program);
}

}  // namespace trireme::launch
