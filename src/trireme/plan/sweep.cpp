#include "trireme/plan/sweep.h"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>

#include "trireme/base/errors.h"
#include "trireme/base/numbers.h"

namespace trireme {
namespace {

/// The columns of a table, by name.
class Columns {
 public:
  Columns(const CsvTable& table, const std::string& name) : table_(table), name_(name) {}

  [[nodiscard]] std::size_t index(std::string_view column) const {
    const auto found = std::find(table_.header.begin(), table_.header.end(), column);
    if (found == table_.header.end()) {
      throw UsageError(fmt::format(
          "[{}] no column \"{}\": a table of runs has model, nodes, dp, tp, pp, mbs, zero and "
          "tok_s_gpu; add it",
          name_, column));
    }
    return static_cast<std::size_t>(found - table_.header.begin());
  }

  template <typename Number>
  [[nodiscard]] Number number(const std::vector<std::string>& row, std::string_view column) const {
    const std::size_t at = index(column);
    const std::string& cell = at < row.size() ? row[at] : std::string();
    Number value{};
    if (is_number(cell, value)) return value;
    throw UsageError(
        fmt::format("[{}] {} = \"{}\": must be a number; correct it", name_, column, cell));
  }

 private:
  const CsvTable& table_;
  const std::string& name_;
};

Workload workload_of(const PlanRequest& request, const PublishedRun& run) {
  Workload workload{.model = request.model,
                    .layout = run.layout,
                    .batch = {.seq = request.seq,
                              .micro_batch = run.micro_batch,
                              .global_batch = request.global_batch},
                    .precision = request.precision};
  workload.layout.sp = request.profile.default_sp && run.layout.tp > 1;
  return workload;
}

}  // namespace

std::vector<PublishedRun> published_runs(const CsvTable& table, const std::string& name) {
  const Columns columns(table, name);
  const auto flag = std::find(table.header.begin(), table.header.end(), "flag");
  const auto flag_index = static_cast<std::size_t>(flag - table.header.begin());
  const std::size_t model = columns.index("model");
  std::vector<PublishedRun> runs;
  for (const std::vector<std::string>& row : table.rows) {
    if (flag_index < row.size() && !row[flag_index].empty()) continue;
    PublishedRun run;
    run.model = model < row.size() ? row[model] : "";
    run.nodes = columns.number<int>(row, "nodes");
    run.layout.dp = columns.number<int>(row, "dp");
    run.layout.tp = columns.number<int>(row, "tp");
    run.layout.pp = columns.number<int>(row, "pp");
    run.layout.zero = columns.number<int>(row, "zero");
    run.micro_batch = columns.number<std::int64_t>(row, "mbs");
    run.tokens_per_second_per_device = columns.number<double>(row, "tok_s_gpu");
    runs.push_back(run);
  }
  return runs;
}

SweepCell sweep_cell(const PlanRequest& request, const std::vector<PublishedRun>& runs,
                     const PlanOptions& options) {
  SweepCell cell{.model = request.model_name, .nodes = request.nodes()};
  cell.best = fastest_layout(request, options);
  double least_seconds = 0;
  for (const PublishedRun& run : runs) {
    if (run.model != cell.model || run.nodes != cell.nodes) continue;
    const PlannedLayout predicted = planned_layout(request, workload_of(request, run));
    if (!cell.chosen || predicted.step_seconds() < least_seconds) {
      cell.chosen = run;
      least_seconds = predicted.step_seconds();
    }
    if (cell.published &&
        cell.published->tokens_per_second_per_device >= run.tokens_per_second_per_device) {
      continue;
    }
    cell.published = run;
    cell.published_as = predicted;
  }
  return cell;
}

}  // namespace trireme
