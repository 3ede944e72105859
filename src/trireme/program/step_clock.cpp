#include "trireme/program/step_clock.h"

#include <charconv>
#include <cstddef>
#include <string_view>
#include <system_error>

#include "trireme/base/errors.h"
#include "trireme/base/units.h"
#include "trireme/program/step_system.h"

namespace trireme {
namespace {

/// The last compute instruction of a template; -1 if it has none.
int last_compute(const Template& item) {
  for (std::size_t i = item.instructions.size(); i-- > 0;) {
    if (item.instructions[i].stream == Stream::kCompute) return narrow<int>(i);
  }
  return -1;
}

}  // namespace

StepClock run_step_clock(const std::vector<Program>& programs, const CallSeconds& seconds) {
  TRI_CHECK(!programs.empty() &&
            static_cast<int>(programs.size()) == programs.front().request.layout.world());
  StepSystem step(programs, DeadlockMode::kPerStream);
  StepClock clock;
  for (std::size_t p = 0; p < programs.size(); ++p) {
    const Program& program = programs[p];
    const std::vector<int> bases = call_bases(program);
    double& busy = clock.busy.emplace_back();
    for (std::size_t c = 0; c < program.calls.size(); ++c) {
      const Call& call = program.calls[c];
      const double lasts = seconds(program, call);
      if (lasts == 0) continue;
      const int last = last_compute(program.at(call.template_index));
      TRI_CHECK(last >= 0);
      step.set_seconds(p, bases[c] + last, lasts);
      busy += lasts;
    }
  }
  const RendezvousResult result = run_rendezvous(step.system());
  TRI_CHECK(result.stuck.empty());
  clock.makespan = result.makespan;
  return clock;
}

std::optional<StageOp> stage_op_of(const Program& program, const Call& call) {
  std::string_view name = program.at(call.template_index).name;
  if (call.micro_batch < 0 || !name.starts_with('S')) return std::nullopt;
  name.remove_prefix(1);
  StageOp op{.micro_batch = call.micro_batch};
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), op.stage);
  const std::size_t dot = name.find('.');
  if (error != std::errc() || dot == std::string_view::npos || end != name.data() + dot)
    return std::nullopt;
  name.remove_prefix(dot + 1);
  const std::string_view letter = name.substr(0, name.find('.'));
  const auto phase = letter.size() == 1 ? parse_phase(letter.front()) : std::nullopt;
  if (!phase) return std::nullopt;
  op.phase = *phase;
  return op;
}

}  // namespace trireme
