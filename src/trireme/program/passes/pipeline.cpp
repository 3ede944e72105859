// Pipeline parallelism: the calls of a rank, from its schedule.
#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "trireme/base/units.h"
#include "trireme/program/model_parts.h"
#include "trireme/program/passes/passes.h"
#include "trireme/program/passes/split_backward.h"
#include "trireme/program/steps.h"

namespace trireme {
namespace {

class PipelinePass {
 public:
  PipelinePass(Program& program, const LocalModel& model)
      : program_(program), model_(model), stages_(model.pipeline()), own_(model.coord().pp) {}

  void apply() {
    for (const int stage : model_.computed_stages()) cut(stage);
    for (const Issue& issue : issue_by_clock(stages_.schedule(), {}, own_)) {
      if (issue.message) {
        call(message_template(*issue.message), issue.message->micro_batch);
        continue;
      }
      const Order& order = stages_.schedule().orders.at(static_cast<std::size_t>(own_));
      for_each_op(order.at(static_cast<std::size_t>(issue.step)), [&](const StageOp& op) {
        call(phase_name(op.phase, op.stage), op.micro_batch);
        pass_on(op);
      });
    }
  }

 private:
  [[nodiscard]] std::string prefix(int stage) const { return stage_prefix(stages_, stage); }
  [[nodiscard]] std::string phase_name(Phase phase, int stage) const {
    return prefix(stage) + phase_letter(phase);
  }

  void call(const std::string& name, int micro_batch) {
    program_.calls.push_back(
        {.template_index = *program_.find_template(name), .micro_batch = micro_batch});
  }

  /// What follows the last forward belongs to the backward, if the program has one.
  [[nodiscard]] std::vector<Instruction>::iterator end_of_forward(
      std::vector<Instruction>& body) const {
    if (program_.kind != ProgramKind::kTrain) return body.end();
    return std::find_if(
               body.rbegin(), body.rend(),
               [](const Instruction& i) { return i.op == Op::kForward || i.op == Op::kLoad; })
        .base();
  }

  /// The body of a stage becomes its forward and backward templates.
  void cut(int stage) {
    const int body = *program_.find_template(prefix(stage) + "micro");
    std::vector<Instruction> all = std::move(program_.at(body).instructions);
    const auto middle = end_of_forward(all);
    std::vector<Instruction> backward(std::make_move_iterator(middle),
                                      std::make_move_iterator(all.end()));
    all.erase(middle, all.end());
    program_.at(body) = {.name = phase_name(Phase::kForward, stage),
                         .instructions = std::move(all)};
    if (runs(Phase::kBackwardInput, stage)) {
      BackwardHalves halves = split_backward(program_, backward);
      add(phase_name(Phase::kBackwardInput, stage), std::move(halves.input));
      add(phase_name(Phase::kBackwardWeight, stage), std::move(halves.weight));
    }
    if (runs(Phase::kBackward, stage))
      add(phase_name(Phase::kBackward, stage), std::move(backward));
  }

  [[nodiscard]] bool runs(Phase phase, int stage) const {
    bool found = false;
    for (const ScheduleStep& step : stages_.schedule().orders.at(static_cast<std::size_t>(own_))) {
      for_each_op(step, [&](const StageOp& op) {
        found = found || (op.phase == phase && op.stage == stage);
      });
    }
    return found;
  }

  void add(const std::string& name, std::vector<Instruction> instructions) {
    program_.at(program_.template_index(name)).instructions = std::move(instructions);
  }

  /// The buffer of a stage's end: where it takes the residual stream, leaves it, or both for its
  /// gradient.
  [[nodiscard]] Range edge(Part part, int stage, bool is_gradient) const {
    const std::string name = is_gradient              ? stream_gradient_name(stages_, stage)
                             : part == Part::kStageIn ? stage_in_name(stages_, stage)
                                                      : stage_out_name(stages_, stage);
    return program_.whole(*program_.find_buffer(name));
  }

  /// Ends of the way from a stage to the one after it (before it, for gradients).
  struct Way {
    Part from{}, to{};
    int target = 0;  ///< stage
  };
  [[nodiscard]] static Way way(bool is_gradient, int stage) {
    if (is_gradient) return {.from = Part::kStageIn, .to = Part::kStageOut, .target = stage - 1};
    return {.from = Part::kStageOut, .to = Part::kStageIn, .target = stage + 1};
  }

  const std::string& message_template(const StageMessage& message) {
    const bool is_send = message.source == own_;
    const Way ends = way(message.is_gradient, message.stage);
    const int stage = is_send ? message.stage : ends.target;
    auto& name =
        messages_[{is_send, message.is_gradient, stage, is_send ? message.target : message.source}];
    if (!name.empty()) return name;
    const int peer = is_send ? message.target : message.source;
    name = fmt::format("{}{}{}.{}", prefix(stage), is_send ? "send" : "recv",
                       message.is_gradient ? "_gradient" : "", peer);
    Instruction instruction =
        make(is_send ? Op::kSend : Op::kRecv,
             {{Role::kData, is_send ? Access::kRead : Access::kWrite,
               edge(is_send ? ends.from : ends.to, stage, message.is_gradient)}});
    instruction.part = is_send ? ends.from : ends.to;
    instruction.stage = stage;
    instruction.stream = Stream::kPipe;
    instruction.comm = Comm{.group = std::string(axis_name(Axis::kPp)),
                            .dtype = program_.request.compute,
                            .elems = num_elems(program_, instruction.uses.front().range),
                            .peer = peer,
                            .tag = first_tag(message)};
    add(name, {std::move(instruction)});
    return name;
  }

  [[nodiscard]] int first_tag(const StageMessage& message) const {
    const int kind = message.is_gradient ? stages_.num_stages() : 0;
    return (kind + message.stage) * program_.num_micro_batches;
  }

  /// What the next stage needs from an op goes there by a copy if it is on this rank too.
  void pass_on(const StageOp& op) {
    if (op.phase == Phase::kBackwardWeight) return;
    const bool is_gradient = makes_input_gradient(op.phase);
    const Way ends = way(is_gradient, op.stage);
    if (ends.target < 0 || ends.target >= stages_.num_stages()) return;
    if (stages_.rank_of(ends.target, op.micro_batch) != own_) return;
    const std::string name =
        fmt::format("{}take{}", prefix(ends.target), is_gradient ? "_gradient" : "");
    if (!program_.find_template(name)) {
      Instruction copy =
          make(Op::kCopy, {{Role::kX, Access::kRead, edge(ends.from, op.stage, is_gradient)},
                           {Role::kY, Access::kWrite, edge(ends.to, ends.target, is_gradient)}});
      copy.part = ends.to;
      copy.stage = ends.target;
      add(name, {std::move(copy)});
    }
    call(name, op.micro_batch);
  }

  Program& program_;
  const LocalModel& model_;
  const Pipeline& stages_;
  int own_;
  std::map<std::tuple<bool, bool, int, int>, std::string> messages_;
};

}  // namespace

void pipeline(Program& program, const LocalModel& model) {
  if (model.pipeline().num_stages() > 1) return PipelinePass(program, model).apply();
  const int body = *program.find_template("micro");
  for (int i = 0; i < program.num_micro_batches; ++i) {
    program.calls.push_back({.template_index = body, .micro_batch = i});
  }
}

}  // namespace trireme
