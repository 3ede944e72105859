// V1, exactly once, and V3, the ends of transient buffers.
#include <cstddef>
#include <cstdint>

#include <fmt/format.h>

#include "trireme/program/model_wiring.h"
#include "trireme/program/verify_step.h"

namespace trireme {
namespace {

/// How often one part of one micro-batch has run so far.
struct Runs {
  std::int8_t forward = 0, backward = 0, input = 0, weight = 0, recompute = 0;
};

class PartCount {
 public:
  explicit PartCount(const Program& program) : program_(program), wiring_(program) {}

  std::optional<Violation> run() {
    if (auto found = check_calls()) return found;
    runs_.resize(static_cast<std::size_t>(program_.num_micro_batches) *
                 static_cast<std::size_t>(wiring_.size()));
    for (std::size_t c = 0; c < program_.calls.size(); ++c) {
      const Call& call = program_.calls[c];
      const auto& instructions = program_.at(call.template_index).instructions;
      for (std::size_t i = 0; i < instructions.size(); ++i) {
        if (auto found = count({static_cast<int>(c), static_cast<int>(i)}, call, instructions[i]))
          return found;
      }
    }
    return find_missing();
  }

 private:
  std::optional<Violation> check_calls() const {
    const Batch& batch = program_.request.batch;
    const std::int64_t sequences =
        batch.micro_batch * program_.request.layout.dp * program_.num_micro_batches;
    if (program_.kind == ProgramKind::kTrain && sequences != batch.global_batch) {
      return violation(program_, "V1",
                       {fmt::format("{} micro-batches, {} sequences over all ranks",
                                    program_.num_micro_batches, sequences),
                        fmt::format("a global batch of {} sequences", batch.global_batch)});
    }
    if (program_.num_micro_batches < 1 ||
        static_cast<std::size_t>(program_.num_micro_batches) > program_.calls.size()) {
      return violation(program_, "V1",
                       {fmt::format("{} calls", program_.calls.size()),
                        fmt::format("one for each of {} micro-batches, at least one",
                                    program_.num_micro_batches)});
    }
    return std::nullopt;
  }

  Runs& runs(int micro_batch, int part) {
    return runs_[static_cast<std::size_t>(micro_batch) * static_cast<std::size_t>(wiring_.size()) +
                 static_cast<std::size_t>(part)];
  }

  std::optional<Violation> count(At at, const Call& call, const Instruction& instruction) {
    const bool is_part = is_forward(instruction.op) || is_backward(instruction.op);
    if (!is_part && instruction.op != Op::kLoad) return std::nullopt;
    if (call.micro_batch < 0)
      return violation(program_, "V1", at,
                       {"a part outside a micro-batch", "a micro-batch's call"});
    const int number = wiring_.number(instruction);
    if (number < 0) {
      return violation(program_, "V1", at,
                       {"a part that this model does not have", "the parts of the model"});
    }
    if (!wiring_.is_due(number, call.micro_batch)) {
      return violation(program_, "V1", at,
                       {fmt::format("a part of stage {}, which another rank computes",
                                    wiring_.part(number).stage),
                        "the stages of this rank"});
    }
    if (!is_named_in_full(instruction, wiring_.part(number))) {
      return violation(program_, "V1", at,
                       {fmt::format("stage {}, layer {}, chunk {}", instruction.stage,
                                    instruction.layer, instruction.chunk),
                        fmt::format("stage {}, layer {}, chunk {}", wiring_.part(number).stage,
                                    wiring_.part(number).layer, wiring_.part(number).chunk)});
    }
    return advance(at, instruction.op, wiring_.part(number), runs(call.micro_batch, number));
  }

  /// The wiring has found the part by its layer, its chunk, or both.
  static bool is_named_in_full(const Instruction& instruction, const WiredPart& part) {
    return instruction.stage == part.stage && instruction.layer == part.layer &&
           instruction.chunk == part.chunk;
  }

  std::optional<Violation> advance(At at, Op op, const WiredPart& part, Runs& done) const {
    const auto twice = [&](std::int8_t& times) -> std::optional<Violation> {
      if (++times == 1) return std::nullopt;
      return violation(program_, "V1", at, {"it a second time in its micro-batch", "once"});
    };
    const auto early = [&](const char* what) {
      return violation(program_, "V1", at, {fmt::format("it before its {}", what), "the reverse"});
    };
    if (op == Op::kLoad && !part.has_forward)
      return violation(program_, "V1", at, {"a LOAD", "none: this stage needs nothing"});
    const bool is_half = op == Op::kBackwardInput || op == Op::kBackwardWeight;
    const bool is_unknown = (is_forward(op) && !part.has_forward) ||
                            (is_backward(op) && !part.has_backward) || (is_half && !part.is_linear);
    if (is_unknown)
      return violation(program_, "V1", at,
                       {"an operation that this part does not have in this kind of program",
                        "FWD and, in training, BWD (linear parts: BWD_I and BWD_W); HEAD trains in "
                        "one BWD"});
    const bool needs_forward = op == Op::kRecompute || (is_backward(op) && part.has_forward);
    if (needs_forward && done.forward == 0) return early("forward");
    if (op == Op::kBackwardWeight && done.input == 0) return early("input half");
    if (op == Op::kBackward && done.input + done.weight > 0) return twice(done.input);
    if (is_half && done.backward > 0) return twice(done.backward);
    if (op == Op::kRecompute) return twice(done.recompute);
    if (op == Op::kBackward) return twice(done.backward);
    if (op == Op::kBackwardInput) return twice(done.input);
    if (op == Op::kBackwardWeight) return twice(done.weight);
    return twice(done.forward);  // FWD, and LOAD
  }

  std::optional<Violation> find_missing() {
    for (int m = 0; m < program_.num_micro_batches; ++m) {
      for (int number = 0; number < wiring_.size(); ++number) {
        const WiredPart& part = wiring_.part(number);
        if (!wiring_.is_due(number, m)) continue;
        const Runs& done = runs(m, number);
        const bool is_load = part.part == Part::kNone;
        const char* missing = nullptr;
        if (part.has_forward && done.forward == 0) missing = is_load ? "LOAD" : "FWD";
        if (part.has_backward && done.backward == 0) {
          if (done.input == 0) missing = "BWD";
          if (done.input > 0 && done.weight == 0) missing = "BWD_W";
        }
        if (missing == nullptr) continue;
        std::string name = is_load ? "" : fmt::format(" {}", part_name(part.part));
        if (part.layer >= 0) name += fmt::format(" layer={}", part.layer);
        if (part.chunk >= 0) name += fmt::format(" chunk={}", part.chunk);
        if (part.site != Site::kNone) name += fmt::format(" site={}", site_name(part.site));
        return violation(
            program_, "V1",
            {fmt::format("no {}{} in micro-batch {}", missing, name, m), "exactly one"});
      }
    }
    return std::nullopt;
  }

  const Program& program_;
  ModelWiring wiring_;
  std::vector<Runs> runs_;  ///< by (micro-batch, part)
};

enum class Life : std::uint8_t { kUnborn, kAlive, kFreed };

class FreeCheck {
 public:
  FreeCheck(const Program& program, int call)
      : program_(program), call_(call), lives_(program.buffers.size(), Life::kUnborn) {}

  std::optional<Violation> run() {
    const auto& instructions =
        program_.at(program_.calls[static_cast<std::size_t>(call_)].template_index).instructions;
    for (std::size_t i = 0; i < instructions.size(); ++i) {
      const At at{.call = call_, .instruction = static_cast<int>(i)};
      for (const Use& use : instructions[i].uses) {
        Life& life = lives_[static_cast<std::size_t>(use.range.buffer)];
        if (life == Life::kFreed) {
          return violation(program_, "V3", at, use.role, use.range,
                           {"after its buffer was freed", "use before free"});
        }
        life = Life::kAlive;
      }
      for (const BufferId id : instructions[i].frees) {
        if (auto found = end(at, id)) return found;
      }
    }
    return find_leak();
  }

 private:
  std::optional<Violation> end(At at, BufferId id) {
    const Buffer& buffer = program_.buffer(id);
    Life& life = lives_[static_cast<std::size_t>(id)];
    const char* found = nullptr;
    if (buffer.content != Content::kTransient) found = "which has memory of its own";
    if (life == Life::kUnborn) found = "which this call has not used";
    if (life == Life::kFreed) found = "for a second time";
    life = Life::kFreed;
    if (found == nullptr) return std::nullopt;
    return violation(program_, "V3", at,
                     {fmt::format("free of {}[0:{}] {}", buffer.name, buffer.bytes, found),
                      "one free of each transient buffer, after its last use"});
  }

  std::optional<Violation> find_leak() const {
    for (std::size_t id = 0; id < lives_.size(); ++id) {
      const Buffer& buffer = program_.buffers[id];
      if (buffer.content != Content::kTransient || lives_[id] != Life::kAlive) continue;
      Violation leak = violation(
          program_, "V3",
          {fmt::format(
               "{}[0:{}] alive at the end of call {} ({})", buffer.name, buffer.bytes, call_,
               program_.at(program_.calls[static_cast<std::size_t>(call_)].template_index).name),
           "a free in the call that uses it"});
      leak.call = call_;
      return leak;
    }
    return std::nullopt;
  }

  const Program& program_;
  int call_;
  std::vector<Life> lives_;
};

}  // namespace

std::optional<Violation> check_parts(const Program& program) {
  return PartCount(program).run();
}

std::optional<Violation> check_frees(const Program& program) {
  std::vector<bool> is_done(program.templates.size(), false);
  for (std::size_t c = 0; c < program.calls.size(); ++c) {
    const auto index = static_cast<std::size_t>(program.calls[c].template_index);
    if (is_done[index]) continue;
    is_done[index] = true;
    if (auto found = FreeCheck(program, static_cast<int>(c)).run()) return found;
  }
  return std::nullopt;
}

}  // namespace trireme
