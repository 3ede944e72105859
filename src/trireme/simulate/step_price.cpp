#include "trireme/simulate/step_price.h"

#include <algorithm>

#include "trireme/program/local_model.h"
#include "trireme/program/step_system.h"

namespace trireme {
namespace {

/// Prices the instructions of one program, each template once.
std::vector<CoreOp> price_program(const Program& program, const StepPrices& prices) {
  const LocalModel model(program);
  std::vector<std::vector<CoreOp>> by_template;
  for (const Template& item : program.templates) {
    auto& row = by_template.emplace_back();
    for (const Instruction& instruction : item.instructions)
      row.push_back(prices.price(program, model, instruction));
  }
  std::vector<CoreOp> ops;
  for (const Call& call : program.calls) {
    const auto& row = by_template[static_cast<std::size_t>(call.template_index)];
    ops.insert(ops.end(), row.begin(), row.end());
  }
  return ops;
}

CoreOp machine_op(const MachinePrices& prices, int num_threads, const Program& program,
                  const LocalModel& model, const Instruction& instruction) {
  const double overhead = prices.instruction_seconds();
  if (!instruction.comm) {
    const int bits = program.request.compute == DType::kBf16 ? 16 : 32;
    CoreSeconds seconds =
        prices.kernel_seconds(kernel_call(program, model, instruction), bits, num_threads);
    seconds.alone += overhead;
    seconds.busy += overhead;
    return {.seconds = seconds, .threads = num_threads};
  }
  const TransferCall call = transfer_call(program, instruction);
  if (call.ranks < 2) return {.seconds = {.alone = overhead, .busy = overhead}};
  // Measured with all members at work; where they were more than the cores, each had a part.
  const double share = std::min(1.0, prices.num_cores() / call.ranks);
  const double seconds = prices.transfer_seconds(call) * share + overhead;
  return {.seconds = {.alone = seconds, .busy = seconds},
          .threads = instruction.op == Op::kSend ? 0 : 1};
}

}  // namespace

StepPrices machine_step_prices(const MachinePrices& prices, int num_threads) {
  return {.price =
              [&prices, num_threads](const Program& program, const LocalModel& model,
                                     const Instruction& instruction) {
                return machine_op(prices, num_threads, program, model, instruction);
              },
          .num_cores = prices.num_cores(),
          .wake_seconds = prices.wake_seconds(),
          .step_seconds = prices.step_seconds()};
}

CoreClock price_step(const std::vector<Program>& programs, const StepPrices& prices) {
  const StepSystem step(programs, DeadlockMode::kPerStream);
  std::vector<std::vector<CoreOp>> ops;
  for (const Program& program : programs) ops.push_back(price_program(program, prices));
  CoreClock clock = run_core_clock(step.system(), ops, prices.num_cores, prices.wake_seconds);
  clock.makespan += prices.step_seconds;
  return clock;
}

}  // namespace trireme
