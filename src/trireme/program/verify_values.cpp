// V16: value numbering. Equal numbers mean equal values: a recomputed value bears the number of the
// kept one, and an operand must bear the number of the value that the model names for it.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "trireme/base/units.h"
#include "trireme/program/model_parts.h"
#include "trireme/program/verify_step.h"

namespace trireme {
namespace {

/// A value number is a hash of what the value is computed from; two of the about 1e6 numbers of a
/// step are equal by accident with a probability of 1e12 / 2^65 < 1e-7. 0 means none.
using Number = std::uint64_t;

/// Finaliser of SplitMix64 (Steele et al. 2014, doi:10.1145/2660193.2660195).
Number scramble(Number x) {
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return (x ^ (x >> 31)) | 1ULL;  // never 0
}

template <typename... Parts>
Number mix(Parts... parts) {
  Number result = 0;
  ((result = scramble(result ^ static_cast<Number>(parts))), ...);
  return result;
}

enum Tag : Number {
  kEntry = 1,
  kLoaded,
  kComputed,
  kGradientValue,
  kReduced,
  kReceived,
  kGatheredValue,
  kSum,
  kOther
};

/// What one part of one micro-batch read and wrote, by role.
struct Record {
  int micro_batch = -1;
  std::array<Number, kNumRoles> numbers{};
  [[nodiscard]] Number& at(Role role) { return numbers[static_cast<std::size_t>(role)]; }
};

class ValueCheck {
 public:
  explicit ValueCheck(const StepView& step)
      : step_(step),
        wiring_(step.wiring),
        records_(static_cast<std::size_t>(step.program.num_micro_batches) *
                 static_cast<std::size_t>(wiring_.size())) {
    numbers_.reserve(static_cast<std::size_t>(step.atoms.size()));
    for (int atom = 0; atom < step.atoms.size(); ++atom) numbers_.push_back(mix(kEntry, atom));
  }

  std::optional<Violation> run() {
    auto found = step_.find_first([this](At at, const Call& call, const Instruction& instruction) {
      return visit(at, call, instruction);
    });
    if (found || !partial_logits_) return found;
    return violation(
        step_.program, "V16", *partial_logits_,
        {"logits of this rank's vocabulary alone", "their ALL_REDUCE over tp after it"});
  }

 private:
  std::optional<Violation> visit(At at, const Call& call, const Instruction& instruction) {
    if (auto found = check_accesses(step_, at, instruction)) return found;
    if (instruction.op == Op::kLoad) {
      load(at, call, instruction);
      return std::nullopt;
    }
    if (is_forward(instruction.op) || is_backward(instruction.op))
      return run_part(at, call, instruction);
    if (instruction.op == Op::kCopy && instruction.part == Part::kNone) {
      copy(at, instruction);
      return std::nullopt;
    }
    if (is_ring(instruction.part)) return hop(at, call, instruction);
    if (instruction.part != Part::kNone) return pass(at, call, instruction);
    if (instruction.op == Op::kAllGather &&
        step_.is_kind(instruction.uses.front(), MemoryKind::kParameters) &&
        !step_.is_kind(instruction.uses.back(), MemoryKind::kParameters)) {
      gather(instruction);
      return std::nullopt;
    }
    const auto axis = instruction.comm ? axis_of(instruction.comm->group) : std::nullopt;
    if ((axis == Axis::kTp || axis == Axis::kCp) &&
        step_.is_kind(instruction.uses.front(), MemoryKind::kActivations)) {
      reduce(at, instruction, *axis);
      return std::nullopt;
    }
    for (std::size_t u = 0; u < instruction.uses.size(); ++u) {
      if (instruction.uses[u].writes()) {
        write(step_.atoms_of(at, u), mix(kOther, step_.order.position(at.call, at.instruction), u));
      }
    }
    return std::nullopt;
  }

  /// A collective over tp or cp makes a new value of one.
  void reduce(At at, const Instruction& instruction, Axis axis) {
    const Reduced how = instruction.op == Op::kAllGather       ? Reduced::kGathered
                        : instruction.op == Op::kReduceScatter ? Reduced::kScattered
                        : instruction.comm->is_max             ? Reduced::kMax
                                                               : Reduced::kSum;
    const AtomSpan in = step_.atoms_of(at, 0);
    const AtomSpan out = step_.atoms_of(at, instruction.uses.size() - 1);
    write(out, mix(kReduced, how, axis, read(in)));
    const Use& use = instruction.uses.front();
    const bool is_whole = use.range == step_.program.whole(use.range.buffer);
    if (how == Reduced::kSum && is_whole && use.range.buffer == logits_) partial_logits_.reset();
  }

  /// y = x, atom by atom or as a whole.
  void copy(At at, const Instruction& instruction) {
    const auto x = index_of(instruction, Role::kX), y = index_of(instruction, Role::kY);
    if (!x || !y) return;
    const AtomSpan from = step_.atoms_of(at, *x), to = step_.atoms_of(at, *y);
    if (from.end - from.begin != to.end - to.begin) return write(to, read(from));
    const auto first = numbers_.begin() + from.begin;
    std::copy(first, first + (from.end - from.begin), numbers_.begin() + to.begin);
  }

  // Between stages
  // ------------------------------------------------------------------

  /// SEND, RECV and COPY at the end of a stage: the value of this stage and micro-batch, under the
  /// tag that says so.
  std::optional<Violation> pass(At at, const Call& call, const Instruction& instruction) {
    const int number = wiring_.number(instruction);
    if (number < 0 || !is_stage_edge(instruction.part) || call.micro_batch < 0) {
      return violation(step_.program, "V16", at,
                       {"no end of a stage of a micro-batch", "STAGE_IN or STAGE_OUT"});
    }
    if (instruction.op == Op::kSend) {
      if (auto found = check_stage_address(step_, at, call, instruction)) return found;
      return check_sent(at, call, wiring_.part(number), instruction, Role::kData);
    }
    const Role source = instruction.part == Part::kStageIn ? Role::kY : Role::kDy;
    if (instruction.op == Op::kRecv) {
      if (auto found = check_stage_address(step_, at, call, instruction)) return found;
      const AtomSpan span = step_.atoms_of(at, 0);
      write(span, mix(kReceived, number, call.micro_batch));
      record(call, number).at(source) = read(span);
      return std::nullopt;
    }
    if (instruction.op != Op::kCopy) {
      return violation(step_.program, "V16", at,
                       {"an operation between stages", "SEND, RECV or COPY"});
    }
    Instruction other = instruction;  // the end of the stage that hands over
    other.part = instruction.part == Part::kStageIn ? Part::kStageOut : Part::kStageIn;
    other.stage += instruction.part == Part::kStageIn ? -1 : 1;
    const int from = wiring_.number(other);
    if (from < 0)
      return violation(step_.program, "V16", at, {"no stage to take from", "the next stage"});
    if (auto found = check_sent(at, call, wiring_.part(from), instruction, Role::kX)) return found;
    copy(at, instruction);
    record(call, number).at(source) = read(step_.atoms_of(at, *index_of(instruction, Role::kY)));
    return std::nullopt;
  }

  std::optional<Violation> check_sent(At at, const Call& call, const WiredPart& part,
                                      const Instruction& instruction, Role role) {
    for (Need need : part.sent) {
      need.role = role;
      if (auto found = check_need(at, call, need, instruction)) return found;
    }
    return std::nullopt;
  }

  // Between context-parallel ranks
  // ------------------------------------------------------------------

  /// EXCHANGE of a ring: sends what the hop before has brought (or the rank has made), and names
  /// what comes. All ranks do the same, so that after h hops a rank has what the h-th before it had
  /// at first. ADD, of gradients: this rank's to those that come.
  std::optional<Violation> hop(At at, const Call& call, const Instruction& instruction) {
    const int number = wiring_.number(instruction);
    if (number < 0 || call.micro_batch < 0) {
      return violation(step_.program, "V16", at,
                       {"no hop of a micro-batch", "a layer and hop of the ring"});
    }
    const WiredPart& part = wiring_.part(number);
    if (instruction.op == Op::kExchange) {
      if (auto found = check_ring_address(step_, at, part, instruction)) return found;
      if (auto found = check_halves(at, call, part.sent, instruction, Role::kData)) return found;
      receive(at, call, number, instruction);
      return std::nullopt;
    }
    if (instruction.op != Op::kAdd || part.added.empty())
      return violation(step_.program, "V16", at, {"an operation on a ring", "EXCHANGE or ADD"});
    for (const Role role : {Role::kX, Role::kY}) {
      if (auto found = check_halves(at, call, part.added, instruction, role)) return found;
    }
    const AtomSpan y = step_.atoms_of(at, *index_of(instruction, Role::kY));
    write(y, mix(kSum, read(step_.atoms_of(at, *index_of(instruction, Role::kX))), read(y)));
    record(call, number).at(Role::kSums) = read(y);
    return std::nullopt;
  }

  /// An operand holds the value that the needs of its role name, or two of them, one half each.
  std::optional<Violation> check_halves(At at, const Call& call, const std::vector<Need>& needs,
                                        const Instruction& instruction, Role role) {
    const auto u = index_of(instruction, role);
    if (!u) return missing(at, role);
    Number due = 0;
    for (const Need& need : needs) {
      if (need.role != role) continue;
      const Number value = record(call, need.part).at(need.source);
      if (value == 0) return differs(at, instruction.uses[*u], "what goes round at this hop");
      due = due == 0 ? value : mix(due, value);
    }
    if (due != 0 && read(step_.atoms_of(at, *u)) == due) return std::nullopt;
    return differs(at, instruction.uses[*u], "what goes round at this hop");
  }

  /// Keys and values, or their gradients: the two halves of what comes.
  void receive(At at, const Call& call, int number, const Instruction& instruction) {
    const bool is_gradient = instruction.part == Part::kRingDkv;
    const Number first = mix(kReceived, number, call.micro_batch, 1);
    const Number second = mix(kReceived, number, call.micro_batch, 2);
    Record& own = record(call, number);
    own.at(is_gradient ? Role::kDk : Role::kK) = first;
    own.at(is_gradient ? Role::kDv : Role::kV) = second;
    const auto u = index_of(instruction, Role::kReceived);
    if (!u) return;  // V7 names it
    const AtomSpan span = step_.atoms_of(at, *u);
    if (span.end - span.begin != 2) return write(span, mix(first, second));  // read as a whole
    write({span.begin, span.begin + 1}, first);
    write({span.begin + 1, span.end}, second);
  }

  // Numbers of atoms and of operands
  // ------------------------------------------------------------------

  [[nodiscard]] Number read(AtomSpan span) const {
    Number result = numbers_[static_cast<std::size_t>(span.begin)];
    for (int atom = span.begin + 1; atom < span.end; ++atom)
      result = mix(result, numbers_[static_cast<std::size_t>(atom)]);
    return result;
  }
  void write(AtomSpan span, Number number) {
    numbers_[static_cast<std::size_t>(span.begin)] = number;
    for (int atom = span.begin + 1; atom < span.end; ++atom)
      numbers_[static_cast<std::size_t>(atom)] = mix(number, atom - span.begin);
  }

  Record& record(const Call& call, int part) {
    Record& result = records_[static_cast<std::size_t>(call.micro_batch) *
                                  static_cast<std::size_t>(wiring_.size()) +
                              static_cast<std::size_t>(part)];
    if (result.micro_batch != call.micro_batch) result = {.micro_batch = call.micro_batch};
    return result;
  }

  void load(At at, const Call& call, const Instruction& instruction) {
    for (std::size_t u = 0; u < instruction.uses.size(); ++u) {
      const Role role = instruction.uses[u].role;
      write(step_.atoms_of(at, u), mix(kLoaded, role, call.micro_batch));
      record(call, wiring_.number(instruction)).at(role) = read(step_.atoms_of(at, u));
    }
  }

  // Parts
  // ------------------------------------------------------------------------------------------------

  std::optional<Violation> run_part(At at, const Call& call, const Instruction& instruction) {
    const int number = wiring_.number(instruction);
    const WiredPart& part = wiring_.part(number);
    Record& own = record(call, number);
    auto found = check_parameters(at, part, instruction);
    if (!found) found = check_tables(at, part, instruction);
    if (!found) found = check_in_place(at, part, instruction);
    if (!found && instruction.op != Op::kRecompute)
      found = check_needs(at, call, part, instruction);
    // The backward pass of attention reads what its last step has made, as its needs say.
    const bool is_named_by_needs =
        instruction.op == Op::kForward || (is_backward(instruction.op) && part.part == Part::kAttn);
    if (!found && !is_named_by_needs) found = check_kept(at, own, instruction);
    if (found) return found;
    const Number inputs = number_of_inputs(at, instruction);
    if (instruction.op == Op::kForward) remember_reads(at, own, instruction);
    for (std::size_t u = 0; u < instruction.uses.size(); ++u) {
      const Use& use = instruction.uses[u];
      if (!use.writes() || step_.has_gradients(use)) continue;
      if (instruction.part == Part::kLogits && use.role == Role::kLogits) write_logits(at, use);
      const Number value = output_number(at, instruction, use.role, inputs);
      write(step_.atoms_of(at, u), value);
      const Number written = read(step_.atoms_of(at, u));
      if (instruction.op == Op::kRecompute) {
        if (written != own.at(use.role)) return differs(at, use, "what the forward part wrote");
      } else {
        own.at(use.role) = written;
      }
    }
    if (instruction.op == Op::kForward && is_norm(instruction.part) && !instruction.has(Role::kH))
      own.at(Role::kH) = own.at(Role::kX);  // no branch to add: h is x
    return std::nullopt;
  }

  /// What no later part reads is to be complete at the end.
  void write_logits(At at, const Use& use) {
    logits_ = use.range.buffer;
    if (step_.program.request.layout.tp > 1) partial_logits_ = at;
  }

  Violation differs(At at, const Use& use, std::string_view due) const {
    return violation(step_.program, "V16", at, use.role, use.range,
                     {"with another value", std::string(due)});
  }

  /// The range has the row's parameter: its own place, or with ZeRO-3 the same place in a buffer
  /// into which its root has been gathered.
  [[nodiscard]] bool is_parameter_at(const Range& range, const Range& own, std::size_t row) const {
    if (step_.program.buffer(own.buffer).kind == MemoryKind::kParameters) return range == own;
    return range.offset == own.offset && range.bytes == own.bytes &&
           gathered_root(range.buffer) == step_.roots.rows[row].root;
  }
  /// The root whose parameters a buffer has; -1 if none.
  [[nodiscard]] int gathered_root(BufferId buffer) const {
    const auto found = gathered_.find(buffer);
    return found == gathered_.end() ? -1 : found->second;
  }

  /// All of a root's parameters: the same values in whichever buffer, at the same place.
  void gather(const Instruction& instruction) {
    const Range& data = instruction.find(Role::kData)->range;
    const BufferId shard = instruction.find(Role::kShard)->range.buffer;
    const int root = step_.root_of_params(shard);
    gathered_[data.buffer] = root;
    const AtomSpan span = step_.atoms.of(data);
    for (int atom = span.begin; atom < span.end; ++atom) {
      numbers_[static_cast<std::size_t>(atom)] =
          mix(kGatheredValue, root, step_.atoms.range_of(atom).offset);
    }
  }

  /// Weights are those of the part and layer.
  std::optional<Violation> check_parameters(At at, const WiredPart& part,
                                            const Instruction& instruction) const {
    for (const ParameterUse& due : part.parameters) {
      const Range& range = step_.program.parameters[static_cast<std::size_t>(due.row)].parameter;
      const Use* use = instruction.find(due.role);
      if (use == nullptr && !needs_parameter(part, instruction, due.role)) continue;
      if (use == nullptr) return missing(at, due.role);
      const bool is_there = is_parameter_at(use->range, range, static_cast<std::size_t>(due.row));
      if (is_there && use->access == Access::kRead) continue;
      return violation(step_.program, "V16", at, due.role, use->range,
                       {fmt::format("with access {}", access_name(use->access)),
                        fmt::format("R {}, {}", range_label(step_.program, range),
                                    step_.model().row(static_cast<std::size_t>(due.row)).name)});
    }
    return std::nullopt;
  }

  /// Rotations read the tables of their angles.
  std::optional<Violation> check_tables(At at, const WiredPart& part,
                                        const Instruction& instruction) const {
    if (part.part != Part::kRope || !step_.program.request.spec.is_llama()) return std::nullopt;
    for (const auto& [role, name] :
         {std::pair(Role::kCos, "rope.cos"), std::pair(Role::kSin, "rope.sin")}) {
      const Use* use = instruction.find(role);
      if (use == nullptr) return missing(at, role);
      const auto table = step_.program.find_buffer(name);
      if (table && use->range == step_.program.whole(*table)) continue;
      return differs(at, *use, name);
    }
    return std::nullopt;
  }

  /// A part adds to gradients and to the loss alone, and changes in place what the model says: what
  /// else it writes has no old value.
  std::optional<Violation> check_in_place(At at, const WiredPart& part,
                                          const Instruction& instruction) const {
    const auto& needs = is_forward(instruction.op) ? part.forward : part.backward;
    for (const Use& use : instruction.uses) {
      if (step_.buffer_of(use).content == Content::kState) continue;  // a cache
      const bool is_needed = std::any_of(needs.begin(), needs.end(),
                                         [&](const Need& need) { return need.role == use.role; });
      const bool is_sum = step_.has_gradients(use) || use.role == Role::kLoss;
      const bool is_in_place = is_needed && is_changed_in_place(instruction, use.role);
      if (is_in_place
              ? use.access == Access::kReadWrite
              : use.access != Access::kReadWrite && (is_sum || use.access != Access::kAccumulate))
        continue;
      return violation(
          step_.program, "V16", at, use.role, use.range,
          {fmt::format("with access {}", access_name(use.access)),
           is_in_place ? "RW, in place" : "R or W: its old value is none of the part's"});
    }
    return std::nullopt;
  }
  [[nodiscard]] static bool is_changed_in_place(const Instruction& instruction, Role role) {
    const Part part = instruction.part;
    if (part == Part::kAttn) {
      return is_forward(instruction.op) ? role == Role::kY || role == Role::kLse
                                        : role == Role::kDq;
    }
    if (role == Role::kDh) return is_norm(part);
    if (role == Role::kLogits) return part == Part::kHeadLoss;
    return role == Role::kY &&
           (part == Part::kRowBias || part == Part::kPosition || part == Part::kDropout);
  }

  [[nodiscard]] static bool needs_parameter(const WiredPart& part, const Instruction& instruction,
                                            Role role) {
    if (is_forward(instruction.op)) return true;
    if (instruction.op == Op::kBackwardWeight || part.part == Part::kEmbed) return false;
    return role != Role::kBias;
  }

  Violation missing(At at, Role role) const {
    return violation(step_.program, "V16", at,
                     {fmt::format("no operand {}", role_name(role)), "the operand"});
  }

  /// Operands come from the parts that the model names.
  std::optional<Violation> check_needs(At at, const Call& call, const WiredPart& part,
                                       const Instruction& instruction) {
    for (const Need& need : instruction.op == Op::kForward ? part.forward : part.backward) {
      if (need.half == Half::kWeight && instruction.op == Op::kBackwardInput) continue;
      if (need.half == Half::kInput && instruction.op == Op::kBackwardWeight) continue;
      if (auto found = check_need(at, call, need, instruction)) return found;
    }
    return std::nullopt;
  }

  std::optional<Violation> check_need(At at, const Call& call, const Need& need,
                                      const Instruction& instruction) {
    const auto u = index_of(instruction, need.role);
    if (!u) return missing(at, need.role);
    const Use& use = instruction.uses[*u];
    AtomSpan span = step_.atoms_of(at, *u);
    if (need.chunk >= 0) {
      if (use.range != rows_of_chunk(use, need.chunk))
        return differs(at, use, fmt::format("the rows of chunk {}", need.chunk));
      span = whole_of(span, use);
    }
    if (use.reads() && is_value(call, need, span)) return std::nullopt;
    const WiredPart& source = wiring_.part(need.part);
    const std::string name =
        source.part == Part::kNone
            ? "LOAD"
            : fmt::format(
                  "{}{}{}", part_name(source.part),
                  source.layer < 0 ? std::string() : fmt::format(" layer={}", source.layer),
                  source.chunk < 0 ? std::string() : fmt::format(" chunk={}", source.chunk));
    return differs(
        at, use,
        fmt::format("a read of {} of {}{} in micro-batch {}", role_name(need.source), name,
                    need.reduced == Reduced::kNot
                        ? ""
                        : fmt::format(", reduced over {},", axis_name(need.axis)),
                    call.micro_batch));
  }

  /// The atoms hold what the parts named have made, and what a collective has made of that.
  [[nodiscard]] bool is_value(const Call& call, const Need& need, AtomSpan span) {
    Number due = record(call, need.part).at(need.source);
    if (due == 0) return false;
    for (int i = 1; i < need.num_parts; ++i)
      due = mix(due, record(call, need.part + i).at(need.source));
    if (need.reduced == Reduced::kNot) return read(span) == due;
    return read(span) ==
           as_read(mix(kReduced, need.reduced, need.axis, due), span.end - span.begin);
  }

  /// What read() gives of so many atoms after write() of a number.
  [[nodiscard]] static Number as_read(Number number, int num_atoms) {
    Number result = number;
    for (int i = 1; i < num_atoms; ++i) result = mix(result, mix(number, i));
    return result;
  }

  [[nodiscard]] Range rows_of_chunk(const Use& use, int chunk) const {
    const std::int64_t num_tokens = token_shape(step_.program).tokens();
    const std::int64_t row_bytes = step_.buffer_of(use).bytes / num_tokens;
    const std::int64_t first = chunk * kHeadChunkTokens;
    return {use.range.buffer, first * row_bytes,
            std::min(kHeadChunkTokens, num_tokens - first) * row_bytes};
  }
  /// Atoms of the buffer of an operand, in the same frame.
  [[nodiscard]] AtomSpan whole_of(AtomSpan span, const Use& use) const {
    const AtomSpan whole = step_.atoms.of(step_.program.whole(use.range.buffer));
    const int shift = span.begin - step_.atoms.of(use.range).begin;
    return {.begin = whole.begin + shift, .end = whole.end + shift};
  }

  [[nodiscard]] static std::optional<std::size_t> index_of(const Instruction& instruction,
                                                           Role role) {
    for (std::size_t u = 0; u < instruction.uses.size(); ++u) {
      if (instruction.uses[u].role == role) return u;
    }
    return std::nullopt;
  }

  /// RECOMP and the backward parts read what the forward part of the same name had.
  std::optional<Violation> check_kept(At at, Record& own, const Instruction& instruction) const {
    for (std::size_t u = 0; u < instruction.uses.size(); ++u) {
      const Use& use = instruction.uses[u];
      if (use.access != Access::kRead) continue;
      const Number due = own.at(use.role);
      if (due == 0 || read(step_.atoms_of(at, u)) == due) continue;
      return differs(at, use, "the value that the forward part had");
    }
    return std::nullopt;
  }

  void remember_reads(At at, Record& own, const Instruction& instruction) const {
    for (std::size_t u = 0; u < instruction.uses.size(); ++u) {
      const Use& use = instruction.uses[u];
      if (use.access == Access::kRead) own.at(use.role) = read(step_.atoms_of(at, u));
    }
  }

  /// Independent of the order of operands.
  [[nodiscard]] Number number_of_inputs(At at, const Instruction& instruction) const {
    Number sum = 0;
    for (std::size_t u = 0; u < instruction.uses.size(); ++u) {
      const Use& use = instruction.uses[u];
      if (use.reads()) sum += mix(use.role, read(step_.atoms_of(at, u)));
    }
    return sum;
  }

  /// Number of operand `role` among those with these roles; a fixed one if it is absent.
  [[nodiscard]] Number operand(At at, const Instruction& instruction, Role role) const {
    const auto u = index_of(instruction, role);
    return u ? read(step_.atoms_of(at, *u)) : mix(kEntry, -1);
  }

  /// A norm's y and statistics are functions of h, whether h = x + delta was just made or kept.
  [[nodiscard]] Number output_number(At at, const Instruction& instruction, Role role,
                                     Number inputs) const {
    const Number name = mix(kComputed, wiring_.number(instruction));
    if (is_backward(instruction.op)) return mix(kGradientValue, name, instruction.op, role, inputs);
    if (!is_norm(instruction.part)) return mix(name, role, inputs);
    const bool is_summed = instruction.has(Role::kX);
    const Number h = !is_summed                      ? operand(at, instruction, Role::kH)
                     : instruction.has(Role::kDelta) ? mix(name, Role::kH, sum_of(at, instruction))
                                                     : operand(at, instruction, Role::kX);
    if (role == Role::kH) return h;
    if (role == Role::kStats) return mix(name, role, h);
    return mix(name, role, h, operand(at, instruction, Role::kWeight),
               operand(at, instruction, Role::kBias));
  }
  [[nodiscard]] Number sum_of(At at, const Instruction& norm) const {
    return mix(operand(at, norm, Role::kX), operand(at, norm, Role::kDelta));
  }

  const StepView& step_;
  const ModelWiring& wiring_;
  std::vector<Record> records_;       ///< by (frame, part)
  std::vector<Number> numbers_;       ///< by atom
  std::map<BufferId, int> gathered_;  ///< roots by buffer
  BufferId logits_ = -1;
  std::optional<At> partial_logits_;  ///< the part whose logits are not summed over tp yet
};

}  // namespace

std::optional<Violation> check_values(const StepView& step) {
  return ValueCheck(step).run();
}

}  // namespace trireme
