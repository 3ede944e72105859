// Context parallelism: attention of a rank's two pieces of a sequence to the keys of all ranks.
#include <array>
#include <cstddef>
#include <utility>

#include <fmt/format.h>

#include "trireme/base/errors.h"
#include "trireme/base/units.h"
#include "trireme/program/passes/passes.h"
#include "trireme/program/steps.h"

namespace trireme {
namespace {

class ContextParallelPass {
 public:
  ContextParallelPass(Program& program, const LocalModel& model)
      : program_(program), model_(model), num_ranks_(model.num_cp_ranks()) {}

  std::vector<Instruction> apply(std::vector<Instruction> body) {
    for (Instruction& instruction : body) {
      if (instruction.part != Part::kAttn) {
        out_.push_back(std::move(instruction));
      } else if (!model_.has_ring()) {
        attend_to_all(std::move(instruction));
      } else if (is_forward(instruction.op)) {
        go_round(instruction);
      } else {
        go_round_backward(instruction);
      }
    }
    return std::exchange(out_, {});
  }

 private:
  /// A buffer beside that of a range, of as many elements.
  Range beside(const Range& range, std::string_view name, DType dtype, std::int64_t times = 1) {
    Buffer buffer = program_.buffer(range.buffer);
    buffer.name += fmt::format(".{}{}", name, num_buffers_++);
    buffer.bytes = times * num_elems(program_, range) * dtype_bytes(dtype);
    buffer.dtype = dtype;
    return program_.whole(program_.add_buffer(std::move(buffer)));
  }
  [[nodiscard]] DType dtype_of(const Range& range) const {
    return program_.buffer(range.buffer).dtype;
  }

  // All-gather
  // ------------------------------------------------------------------

  /// Keys and values of all ranks at once; their gradients are summed over the ranks.
  void attend_to_all(Instruction attn) {
    for (const Role role : {Role::kK, Role::kV}) {
      Range& keys = attn.find(role)->range;
      const Range own = std::exchange(keys, of_all_ranks(keys, role));
      out_.push_back(all_gather(program_, own, keys, axis_name(Axis::kCp)));
    }
    std::vector<Instruction> sums;
    for (const Role role : {Role::kDk, Role::kDv}) {
      if (!attn.has(role)) continue;
      Range& gradient = attn.find(role)->range;
      const Range own = std::exchange(gradient, of_all_ranks(gradient, role));
      sums.push_back(reduce_scatter(program_, gradient, own, axis_name(Axis::kCp)));
    }
    out_.push_back(std::move(attn));
    std::move(sums.begin(), sums.end(), std::back_inserter(out_));
  }

  Range of_all_ranks(const Range& own, Role role) {
    return beside(own, fmt::format("{}.all", role_name(role)), dtype_of(own), num_ranks_);
  }

  // Ring
  // ------------------------------------------------------------------

  /// Calls `add(step, attention)` for the keys of each rank, this one's first. Those of the next
  /// step travel meanwhile.
  template <typename Add>
  void for_each_step(const Instruction& attn, Add add) {
    Range keys = both(attn, Role::kK, Role::kV);
    slots_ = {};
    for (int step = 0; step < num_ranks_; ++step) {
      const Range held = keys;
      if (step + 1 < num_ranks_) keys = pass_keys(attn, step + 1, held);
      add(step, step_of(attn, step, held));
    }
  }

  void go_round(const Instruction& attn) {
    const Range y = attn.find(Role::kY)->range, sum = in_fp32(y);
    for_each_step(attn, [&](int step, Instruction part) {
      part.find(Role::kY)->range = sum;
      if (step > 0)
        part.find(Role::kY)->access = part.find(Role::kLse)->access = Access::kReadWrite;
      out_.push_back(std::move(part));
    });
    round(sum, y, attn);
  }

  /// The same again, and the gradients of keys and values behind them: each rank adds its own to
  /// what comes, and the last hop brings the sums home.
  void go_round_backward(const Instruction& attn) {
    const Range dq = attn.find(Role::kDq)->range, dq_sum = in_fp32(dq);
    const Range d_keys = both(attn, Role::kDk, Role::kDv), home = in_fp32(d_keys);
    const Range other = beside(d_keys, "away", DType::kF32);
    const Range addend = beside(d_keys, "addend", DType::kF32);
    const auto sum = [&](int hop) { return hop % 2 == num_ranks_ % 2 ? home : other; };
    for_each_step(attn, [&](int step, Instruction part) {
      part.find(Role::kDq)->range = dq_sum;
      if (step > 0) part.find(Role::kDq)->access = Access::kReadWrite;
      set(part, Role::kDk, Role::kDv, step == 0 ? sum(0) : addend);
      out_.push_back(std::move(part));
      if (step > 0) add(attn, step, addend, sum(step));
      exchange(attn, Part::kRingDkv, step + 1, sum(step), sum(step + 1));
    });
    round(dq_sum, dq, attn);
    for (const bool is_second : {false, true})
      round(half(home, is_second), half(d_keys, is_second), attn);
  }

  /// Two operands, one behind the other.
  [[nodiscard]] static Range both(const Instruction& attn, Role first, Role second) {
    const Range& a = attn.find(first)->range;
    const Range& b = attn.find(second)->range;
    TRI_CHECK(a.buffer == b.buffer && a.offset + a.bytes == b.offset && a.bytes == b.bytes);
    return {a.buffer, a.offset, a.bytes + b.bytes};
  }
  [[nodiscard]] static Range half(const Range& both, bool is_second) {
    const std::int64_t bytes = both.bytes / 2;
    return {both.buffer, both.offset + (is_second ? bytes : 0), bytes};
  }
  static void set(Instruction& attn, Role first, Role second, const Range& both) {
    attn.find(first)->range = half(both, false);
    attn.find(second)->range = half(both, true);
  }

  [[nodiscard]] static Instruction step_of(const Instruction& attn, int step, const Range& keys) {
    Instruction part = attn;
    part.chunk = step;
    set(part, Role::kK, Role::kV, keys);
    return part;
  }

  /// Sends the keys and values at hand on, and returns where those of the rank before arrive: in
  /// one slot while the other is in use.
  Range pass_keys(const Instruction& attn, int hop, const Range& held) {
    Range& slot = slots_.at(static_cast<std::size_t>(hop % 2));
    if (slot.buffer < 0) slot = beside(held, "slot", dtype_of(held));
    exchange(attn, Part::kRingKv, hop, held, slot);
    return slot;
  }

  void exchange(const Instruction& attn, Part part, int hop, const Range& out, const Range& in) {
    Instruction instruction = of_ring(attn, part, hop,
                                      make(Op::kExchange, {{Role::kData, Access::kRead, out},
                                                           {Role::kReceived, Access::kWrite, in}}));
    instruction.stream = Stream::kContext;
    const int own = model_.coord().cp;
    const int layers = narrow<int>(program_.request.spec.layers);
    const int line = (part == Part::kRingDkv ? layers : 0) + attn.layer;
    instruction.comm = Comm{.group = std::string(axis_name(Axis::kCp)),
                            .dtype = dtype_of(out),
                            .elems = num_elems(program_, out),
                            .peer = (own + 1) % num_ranks_,
                            .source = (own + num_ranks_ - 1) % num_ranks_,
                            .tag = (line * num_ranks_ + hop) * program_.num_micro_batches};
    out_.push_back(std::move(instruction));
  }

  void add(const Instruction& attn, int step, const Range& addend, const Range& sum) {
    out_.push_back(of_ring(
        attn, Part::kRingDkv, step,
        make(Op::kAdd, {{Role::kX, Access::kRead, addend}, {Role::kY, Access::kAccumulate, sum}})));
  }

  [[nodiscard]] static Instruction of_ring(const Instruction& attn, Part part, int hop,
                                           Instruction instruction) {
    instruction.part = part;
    instruction.layer = attn.layer;
    instruction.stage = attn.stage;
    instruction.chunk = hop;
    return instruction;
  }

  /// Where steps sum up what becomes `result`: there, or apart until all are added.
  Range in_fp32(const Range& result) {
    return dtype_of(result) == DType::kF32 ? result : beside(result, "sum", DType::kF32);
  }
  void round(const Range& sum, const Range& result, const Instruction& attn) {
    if (sum == result) return;
    out_.push_back(
        make(Op::kCopy, {{Role::kX, Access::kRead, sum}, {Role::kY, Access::kWrite, result}}));
    out_.back().stage = attn.stage;
  }

  Program& program_;
  const LocalModel& model_;
  int num_ranks_;
  int num_buffers_ = 0;
  std::vector<Instruction> out_;
  std::array<Range, 2> slots_;  ///< for keys and values of other ranks
};

}  // namespace

void context_parallel(Program& program, const LocalModel& model) {
  if (model.num_cp_ranks() == 1) return;
  ContextParallelPass pass(program, model);
  for (Template& item : program.templates) {
    std::vector<Instruction> body = std::move(item.instructions);
    item.instructions = pass.apply(std::move(body));
  }
}

}  // namespace trireme
