// trireme predict
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "trireme/base/csv.h"
#include "trireme/base/nearest.h"
#include "trireme/base/words.h"
#include "trireme/checkpoint/file.h"
#include "trireme/cli/commands.h"
#include "trireme/cli/program_price.h"
#include "trireme/cli/run_log.h"
#include "trireme/cli/safe_text.h"
#include "trireme/cli/validators.h"
#include "trireme/plan/predict_table.h"
#include "trireme/plan/program_memory.h"

namespace trireme {
namespace {

constexpr std::int64_t kMaxTableBytes = std::int64_t{1} << 30;

struct PredictArguments {
  std::string cluster;
  std::string framework;
  std::string cases;
  std::string output;
  bool is_closed_form = false;
};

/// " (is it gbs?)" for a column that looks like one that is read.
std::string guess_text(const std::string& name) {
  std::string plain;
  for (const char each : name) {
    if (each != ' ') plain += lower_case(each);
  }
  const std::string_view nearest = nearest_name(plain, case_columns());
  constexpr std::size_t kLeastLength = 5;  // of names in which one letter may be wrong
  const std::int64_t distance = edit_distance(plain, nearest);
  const bool is_near = distance == 0 || (distance == 1 && nearest.size() >= kLeastLength);
  return is_near ? fmt::format(" (is it {}?)", nearest) : "";
}

/// A name that is misspelt is not read either, so all that are not are named.
void note_unread(const CsvTable& cases, const Session& session) {
  const auto& read = case_columns();
  std::vector<std::string> unread;
  for (const std::string& name : cases.header) {
    const bool is_read = std::find(read.begin(), read.end(), name) != read.end();
    if (!is_read && !name.starts_with("pred_"))
      unread.push_back(fmt::format("\"{}\"{}", safe_text(name), guess_text(name)));
  }
  if (!unread.empty())
    session.note(fmt::format("columns that are not read: {}", fmt::join(unread, ", ")));
}

void run_predict(const PredictArguments& arguments, const Session& session) {
  PredictRequest request{.cluster = read_cluster(arguments.cluster),
                         .framework = arguments.framework,
                         .is_closed_form = arguments.is_closed_form};
  if (read_profile(arguments.framework, request.cluster).name == "trireme" &&
      !arguments.is_closed_form) {
    request.price_programs = request.cluster.is_cpu ? program_prediction : predict_programs;
  }
  const CsvTable cases =
      parse_csv(read_text(arguments.cases, kMaxTableBytes, kPlainFile), arguments.cases);
  note_unread(cases, session);
  const CsvTable predicted = predict_table(cases, request);
  std::string text = csv_line(predicted.header);
  for (const std::vector<std::string>& row : predicted.rows) text += csv_line(row);
  if (arguments.output.empty()) return session.print(text);
  replace_file(arguments.output, text);
  std::size_t num_unpriced = 0;
  for (const std::vector<std::string>& row : predicted.rows) {
    num_unpriced += row.back().empty() ? 1 : 0;  // the last column is a number in a priced row
  }
  session.print(fmt::format("{}: {} rows priced, {} not (pred_note says why)\n", arguments.output,
                            predicted.rows.size() - num_unpriced, num_unpriced));
}

}  // namespace

void add_predict_command(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<PredictArguments>();  // owned by the command's callback
  CLI::App* const command = app.add_subcommand(
      "predict", "Append predicted memory, time and MFU to a CSV table of layouts");
  command->add_option("--cluster", arguments->cluster, "name of a cluster, or PATH.toml")
      ->required()
      ->check(non_empty("cluster"));
  command->add_option("--framework", arguments->framework, "name of a profile, or PATH.toml")
      ->required()
      ->check(non_empty("framework"));
  command->add_option("cases", arguments->cases, "CSV table, one layout a row")
      ->required()
      ->check(non_empty("file"));
  command->add_option("-o,--output", arguments->output, "CSV table to write; else it is printed")
      ->check(output_file());
  command->add_flag("--closed-form", arguments->is_closed_form,
                    "no simulated schedules, and none of Trireme's programs: faster, less exact");
  command->footer(
      fmt::format("Clusters: {}\nFrameworks: {}\nColumns: docs/prediction.md\n"
                  "Example: trireme predict --cluster h100-playbook --framework nanotron "
                  "published/playbook_dev.csv -o predicted.csv",
                  built_in_names("clusters"), built_in_names("profiles")));
  command->callback([arguments, &session] { run_predict(*arguments, session); });
}

}  // namespace trireme
