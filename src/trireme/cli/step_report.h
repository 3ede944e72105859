// What trireme simulate says of a training step. Private to the layer.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trireme/cli/verification.h"
#include "trireme/cost/cluster.h"
#include "trireme/cost/estimate.h"
#include "trireme/report/html_report.h"
#include "trireme/report/trace.h"
#include "trireme/simulate/memory_use.h"
#include "trireme/simulate/step_simulation.h"

namespace trireme {

/// A simulated step with what is asked about it.
class StepReport {
 public:
  /// `name` is that of the model or of the run; `threads_per_rank` 0: ranks have devices of their
  /// own. What was verified is said, if anything was.
  StepReport(std::string name, Cluster cluster, StepSimulation simulation, int threads_per_rank,
             std::optional<Verification> verification = {});

  /// Gantt, ranks, the peak with what lives then, what the step is made of, and a summary.
  [[nodiscard]] std::string text() const;
  [[nodiscard]] std::string json() const;
  /// For ui.perfetto.dev, with the memory of each rank.
  [[nodiscard]] std::string trace() const;
  /// A page with pictures; with the timeline of a measured run below the simulated one.
  [[nodiscard]] std::string html(const std::optional<Timeline>& measured) const;
  /// What that page shows: the timeline, the memory of the fullest rank, terms and ranks.
  [[nodiscard]] std::vector<HtmlSection> sections(const std::optional<Timeline>& measured) const;

 private:
  using Rows = std::vector<std::vector<std::string>>;

  [[nodiscard]] const BuildRequest& request() const { return simulation_.programs.front().request; }
  [[nodiscard]] int rank(std::size_t index) const {
    return simulation_.programs[index].request.rank;
  }
  [[nodiscard]] std::string subtitle() const;
  [[nodiscard]] std::string peak_text(std::size_t index) const;
  [[nodiscard]] double tokens_per_second() const;
  [[nodiscard]] double bubble_ratio() const;
  /// Of the dense peak, attention as a full square; nothing where the peak is not known.
  [[nodiscard]] std::optional<double> mfu() const;
  [[nodiscard]] Timeline timeline() const;
  [[nodiscard]] Rows rank_rows() const;
  [[nodiscard]] Rows live_rows() const;
  [[nodiscard]] Rows term_rows() const;
  [[nodiscard]] std::vector<std::string> term_header() const;
  [[nodiscard]] std::vector<std::pair<std::string, double>> named_terms() const;
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> facts() const;
  [[nodiscard]] HtmlSection timeline_section(const std::optional<Timeline>& measured) const;
  [[nodiscard]] std::string memory_picture() const;

  std::string name_;
  Cluster cluster_;
  StepSimulation simulation_;
  int threads_per_rank_;
  std::vector<MemoryUse> memory_;           ///< by simulated rank
  std::size_t fullest_ = 0;                 ///< index of the rank with the highest peak
  std::size_t busiest_ = 0;                 ///< index of the rank that computes longest
  StepSeconds terms_;                       ///< of the busiest rank
  std::optional<StepSeconds> closed_form_;  ///< on a published cluster
  std::optional<Verification> verification_;
};

}  // namespace trireme
