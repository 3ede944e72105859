#include "trireme/simulate/step_price.h"

#include <algorithm>
#include <map>

#include "trireme/base/errors.h"
#include "trireme/program/step_system.h"

namespace trireme {
namespace {

/// Prices the instructions of one program, each template once.
class ProgramPrices {
 public:
  ProgramPrices(const Program& program, int num_threads, const MachinePrices& prices)
      : program_(program), model_(program), num_threads_(num_threads), prices_(prices) {
    for (const Template& item : program.templates) {
      auto& row = by_template_.emplace_back();
      for (const Instruction& instruction : item.instructions) row.push_back(price(instruction));
    }
  }

  [[nodiscard]] std::vector<CoreOp> ops() const {
    std::vector<CoreOp> all;
    for (const Call& call : program_.calls) {
      const auto& row = by_template_[static_cast<std::size_t>(call.template_index)];
      all.insert(all.end(), row.begin(), row.end());
    }
    return all;
  }

 private:
  [[nodiscard]] CoreOp price(const Instruction& instruction) const {
    const double overhead = prices_.instruction_seconds();
    if (!instruction.comm) {
      const int bits = program_.request.compute == DType::kBf16 ? 16 : 32;
      CoreSeconds seconds =
          prices_.kernel_seconds(kernel_call(program_, model_, instruction), bits, num_threads_);
      seconds.alone += overhead;
      seconds.busy += overhead;
      return {.seconds = seconds, .threads = num_threads_};
    }
    const TransferCall call = transfer_call(program_, instruction);
    if (call.ranks < 2) return {.seconds = {.alone = overhead, .busy = overhead}};
    // Measured with all members at work; where they were more than the cores, each had a part.
    const double share = std::min(1.0, prices_.num_cores() / call.ranks);
    const double seconds = prices_.transfer_seconds(call) * share + overhead;
    return {.seconds = {.alone = seconds, .busy = seconds},
            .threads = instruction.op == Op::kSend ? 0 : 1};
  }

  const Program& program_;
  LocalModel model_;
  int num_threads_;
  const MachinePrices& prices_;
  std::vector<std::vector<CoreOp>> by_template_;
};

}  // namespace

CoreClock price_step(const std::vector<Program>& programs, int num_threads,
                     const MachinePrices& prices) {
  const StepSystem step(programs, DeadlockMode::kPerStream);
  std::vector<std::vector<CoreOp>> ops;
  for (const Program& program : programs)
    ops.push_back(ProgramPrices(program, num_threads, prices).ops());
  CoreClock clock = run_core_clock(step.system(), ops, prices.num_cores(), prices.wake_seconds());
  clock.makespan += prices.step_seconds();
  return clock;
}

}  // namespace trireme
