// V6 and V7, what the ranks of a communicator owe each other, V15 across ranks, and V18.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "trireme/program/verify_step.h"

namespace trireme {
namespace {

/// One communication of one rank.
struct Event {
  At at;
  const Instruction* instruction = nullptr;
  [[nodiscard]] const Comm& comm() const { return *instruction->comm; }
};

/// Communications of one rank by communicator, in program order.
using Sequences = std::map<std::string, std::vector<Event>, std::less<>>;

bool is_collective(Op op) {
  return op == Op::kAllReduce || op == Op::kReduceScatter || op == Op::kAllGather;
}
bool is_message(Op op) {
  return sends(op) || receives(op);
}

/// Between ranks that hold the same parameters.
bool is_over_replicas(const Program& program, std::string_view group) {
  const Replicas replicas = replicas_of(program.request);
  return group == replicas.group || group == replicas.shard_group || group == replicas.copy_group;
}

/// In which an operand travels: its own type, but for gradients over dp.
DType due_dtype(const Program& program, const std::vector<bool>& gradients,
                const Instruction& instruction, const Use& use) {
  const Buffer& buffer = program.buffer(use.range.buffer);
  const bool is_sum_of_gradients = gradients[static_cast<std::size_t>(use.range.buffer)] &&
                                   instruction.op != Op::kAllGather &&
                                   is_over_replicas(program, instruction.comm->group);
  return is_sum_of_gradients ? program.request.reduce : buffer.dtype;
}

std::string event_text(const Program& program, const Event& event) {
  const Comm& comm = event.comm();
  std::string text = fmt::format("{} of {} {}", op_name(event.instruction->op), comm.elems,
                                 dtype_name(comm.dtype));
  if (is_message(event.instruction->op)) {
    const Call& call = program.calls[static_cast<std::size_t>(event.at.call)];
    text += fmt::format(" with tag {}", message_tag(call, comm));
  }
  return text;
}

Access due_access(Op op, Role role) {
  if (op == Op::kAllReduce) return Access::kReadWrite;
  if (op == Op::kExchange) return role == Role::kData ? Access::kRead : Access::kWrite;
  const bool is_in = op == Op::kSend || (op == Op::kReduceScatter) == (role == Role::kData);
  if (op == Op::kRecv) return Access::kWrite;
  return is_in ? Access::kRead : Access::kWrite;
}

/// A reduction into a buffer of its own may add to it, and gathers the sum in its own part of the
/// data.
bool is_due_access(const Instruction& instruction, const Use& use) {
  const Use* data = instruction.find(Role::kData);
  const Use* shard = instruction.find(Role::kShard);
  const bool is_apart = instruction.op == Op::kReduceScatter && data != nullptr &&
                        shard != nullptr && data->range.buffer != shard->range.buffer;
  if (is_apart && shard->access == Access::kAccumulate)
    return use.role == Role::kShard || use.access == Access::kReadWrite;
  if (is_apart && use.role == Role::kData)
    return use.access == Access::kRead || use.access == Access::kReadWrite;
  return use.access == due_access(instruction.op, use.role);
}

/// What is wrong with one communication by itself.
std::optional<Violation> check_event(const Program& program, const std::vector<bool>& gradients,
                                     const Event& event) {
  const Op op = event.instruction->op;
  const std::string_view rule = is_message(op) ? "V7" : "V6";
  const Comm& comm = event.comm();
  const auto extent = static_cast<int>(group_ranks(program.request, comm.group).size());
  if (extent == 0) {
    return violation(
        program, rule, event.at,
        {fmt::format("communicator '{}'", comm.group),
         "an axis of the mesh, replicas, or a pair of stages that this rank belongs to"});
  }
  if (is_message(op)) {
    for (const int peer : {comm.peer, source_of(*event.instruction)}) {
      if (peer >= 0 && peer < extent) continue;
      return violation(program, rule, event.at,
                       {fmt::format("peer {}", peer), fmt::format("a rank of {}", extent)});
    }
  } else if (comm.peer != -1 || comm.tag != 0) {
    return violation(
        program, rule, event.at,
        {fmt::format("peer {} and tag {}", comm.peer, comm.tag), "none: all take part"});
  }
  if (op != Op::kExchange && comm.source != -1) {
    return violation(program, rule, event.at,
                     {fmt::format("a rank {} to receive from", comm.source),
                      "none but of EXCHANGE, which has two peers"});
  }
  if (comm.is_max && op != Op::kAllReduce)
    return violation(program, rule, event.at, {"a maximum", "no maximum but by ALL_REDUCE"});
  std::vector<Role> roles = {Role::kData};
  if (op == Op::kReduceScatter || op == Op::kAllGather) roles.push_back(Role::kShard);
  if (op == Op::kExchange) roles.push_back(Role::kReceived);
  if (op == Op::kAllGather) std::swap(roles.front(), roles.back());
  if (event.instruction->uses.size() != roles.size() ||
      event.instruction->uses.front().role != roles.front()) {
    return violation(program, rule, event.at,
                     {fmt::format("{} operands", event.instruction->uses.size()),
                      fmt::format("{}, {} first", roles.size(), role_name(roles.front()))});
  }
  for (const Role role : roles) {
    const Use* use = event.instruction->find(role);
    if (use == nullptr) {
      return violation(program, rule, event.at,
                       {fmt::format("no operand {}", role_name(role)), "the operand"});
    }
    const DType dtype = program.buffer(use->range.buffer).dtype;
    const std::int64_t due_bytes =
        comm.elems * dtype_bytes(dtype) / (role == Role::kShard ? extent : 1);
    if (comm.dtype == due_dtype(program, gradients, *event.instruction, *use) &&
        use->range.bytes == due_bytes && is_due_access(*event.instruction, *use))
      continue;
    return violation(program, rule, event.at, role, use->range,
                     {fmt::format("{} of {} bytes of {}", access_name(use->access),
                                  use->range.bytes, dtype_name(dtype)),
                      fmt::format("{} of {} bytes of {}", access_name(due_access(op, role)),
                                  due_bytes, dtype_name(comm.dtype))});
  }
  return std::nullopt;
}

/// Fills `sequences`; each communicator stays on one stream, so that program order is call order.
std::optional<Violation> collect(const Program& program, const std::vector<bool>& gradients,
                                 Sequences& sequences) {
  for (std::size_t c = 0; c < program.calls.size(); ++c) {
    const auto& instructions = program.at(program.calls[c].template_index).instructions;
    for (std::size_t i = 0; i < instructions.size(); ++i) {
      const Instruction& instruction = instructions[i];
      const Event event{.at = {static_cast<int>(c), static_cast<int>(i)},
                        .instruction = &instruction};
      const bool needs_comm = is_collective(instruction.op) || is_message(instruction.op);
      if (needs_comm != instruction.comm.has_value()) {
        return violation(program, is_message(instruction.op) ? "V7" : "V6", event.at,
                         {needs_comm ? "no communicator" : "a communicator",
                          needs_comm ? "one" : "none for this operation"});
      }
      if (!needs_comm) continue;
      if (auto found = check_event(program, gradients, event)) return found;
      auto& sequence = sequences[instruction.comm->group];
      if (!sequence.empty() && sequence.back().instruction->stream != instruction.stream) {
        return violation(
            program, "V9", event.at,
            {fmt::format("communicator '{}' on a second stream", instruction.comm->group),
             "one stream"});
      }
      sequence.push_back(event);
    }
  }
  return std::nullopt;
}

class PeerCheck {
 public:
  explicit PeerCheck(const std::vector<Program>& programs)
      : programs_(programs), sequences_(programs.size()) {}

  std::optional<Violation> run() {
    for (std::size_t p = 0; p < programs_.size(); ++p) {
      const Program& program = programs_[p];
      const Program& first = programs_.front();
      const bool is_peer = program.kind == first.kind &&
                           program.request.layout == first.request.layout &&
                           program.request.spec == first.request.spec &&
                           program.request.batch == first.request.batch;
      if (!is_peer) {
        return violation(
            program, "V6",
            {"another kind, model, layout or batch than its peers have", "programs of one step"});
      }
      gradients_.push_back(gradient_buffers(program));
      first_replicas_.try_emplace(place_of(program), p);
      if (auto found = check_slots(program)) return found;
      if (!by_rank_.try_emplace(program.request.rank, p).second)
        return violation(program, "V6", {"a second program of this rank", "one"});
      if (auto found = collect(program, gradients_[p], sequences_[p])) return found;
    }
    for (std::size_t p = 0; p < programs_.size(); ++p) {
      if (auto found = check_groups(p)) return found;
    }
    for (std::size_t p = 0; p < programs_.size(); ++p) {
      if (auto found = check_messages(p)) return found;
    }
    return std::nullopt;
  }

 private:
  /// The same place on two ranks, by name: their buffers need not bear the same numbers.
  [[nodiscard]] static bool is_same_place(const Program& program, const Range& a,
                                          const Program& peer, const Range& b) {
    if (a.buffer < 0 || b.buffer < 0) return a.buffer == b.buffer;
    return program.buffer(a.buffer).name == peer.buffer(b.buffer).name && a.offset == b.offset &&
           a.bytes == b.bytes;
  }

  /// Ranks reduce bytes with bytes: a parameter must lie at the same place on each replica.
  [[nodiscard]] std::optional<Violation> check_slots(const Program& program) const {
    const Program& first = first_replica(program);
    for (std::size_t row = 0; row < first.parameters.size(); ++row) {
      const ParameterSlot& mine = program.parameters[row];
      const ParameterSlot& theirs = first.parameters[row];
      if (is_same_place(program, mine.parameter, first, theirs.parameter) &&
          is_same_place(program, mine.gradient, first, theirs.gradient))
        continue;
      return violation(
          program, "V6",
          {fmt::format("parameter {} at {}", row, range_label(program, mine.parameter)),
           fmt::format("{}, as on rank {}", range_label(first, theirs.parameter),
                       first.request.rank)});
    }
    return std::nullopt;
  }

  /// The first program given that differs from this one along dp and cp alone.
  [[nodiscard]] const Program& first_replica(const Program& program) const {
    return programs_[first_replicas_.at(place_of(program))];
  }
  /// The rank of its first replica.
  [[nodiscard]] static int place_of(const Program& program) {
    const Mesh mesh = program.request.layout.mesh();
    MeshCoord coord = mesh.coord_of(program.request.rank);
    coord.dp = coord.cp = 0;
    return mesh.rank_of(coord);
  }

  /// Communicators that `p` or its peers use.
  [[nodiscard]] std::set<std::string, std::less<>> groups() const {
    std::set<std::string, std::less<>> names;
    for (const Sequences& sequences : sequences_) {
      for (const auto& [name, events] : sequences) names.insert(name);
    }
    return names;
  }
  [[nodiscard]] std::vector<int> members(std::size_t p, std::string_view group) const {
    return group_ranks(programs_[p].request, group);
  }
  [[nodiscard]] std::vector<Event> collectives(std::size_t p, std::string_view group) const {
    std::vector<Event> events;
    const auto found = sequences_[p].find(group);
    if (found == sequences_[p].end()) return events;
    std::copy_if(found->second.begin(), found->second.end(), std::back_inserter(events),
                 [](const Event& event) { return is_collective(event.instruction->op); });
    return events;
  }

  /// Against the first given member of each group: equality is transitive.
  std::optional<Violation> check_groups(std::size_t p) const {
    for (const std::string& group : groups()) {
      for (const int member : members(p, group)) {
        const auto peer = by_rank_.find(member);
        if (peer == by_rank_.end()) continue;
        if (peer->second == p) break;
        if (auto found = compare(p, peer->second, group)) return found;
        break;
      }
    }
    return std::nullopt;
  }

  std::optional<Violation> compare(std::size_t p, std::size_t peer, std::string_view group) const {
    const std::vector<Event> mine = collectives(p, group), theirs = collectives(peer, group);
    const int peer_rank = programs_[peer].request.rank;
    for (std::size_t k = 0; k < std::min(mine.size(), theirs.size()); ++k) {
      const auto key = [](const Event& event) {
        return std::tuple(event.instruction->op, event.comm().elems, event.comm().dtype,
                          event.comm().is_max);
      };
      const Range& data = mine[k].instruction->find(Role::kData)->range;
      const Range& due = theirs[k].instruction->find(Role::kData)->range;
      if (key(mine[k]) == key(theirs[k])) {
        if (is_same_data(p, mine[k], peer, theirs[k], group)) continue;
        return violation(
            programs_[p], "V6", mine[k].at, Role::kData, data,
            {fmt::format("as number {} on '{}'", k, group),
             fmt::format("{}, as on rank {}", range_label(programs_[peer], due), peer_rank)});
      }
      return violation(
          programs_[p], "V6", mine[k].at,
          {fmt::format("{} as number {} on '{}'", event_text(programs_[p], mine[k]), k, group),
           fmt::format("{}, as on rank {}", event_text(programs_[peer], theirs[k]), peer_rank)});
    }
    if (mine.size() == theirs.size()) return std::nullopt;
    return violation(programs_[p], "V6",
                     {fmt::format("{} collectives on '{}'", mine.size(), group),
                      fmt::format("{}, as on rank {}", theirs.size(), peer_rank)});
  }

  /// Replicas along dp sum the same places; others the same part of the model, or the same scalar.
  [[nodiscard]] bool is_same_data(std::size_t p, const Event& a, std::size_t peer, const Event& b,
                                  std::string_view group) const {
    const Program& mine = programs_[p];
    const Program& theirs = programs_[peer];
    const Range& data = a.instruction->find(Role::kData)->range;
    const Range& due = b.instruction->find(Role::kData)->range;
    if (is_over_replicas(mine, group) || !gradients_[p][static_cast<std::size_t>(data.buffer)])
      return is_same_place(mine, data, theirs, due);
    const int row = row_of(mine, *a.instruction);
    return row >= 0 && row == row_of(theirs, *b.instruction);
  }
  /// The row whose gradient an instruction sums; -1 if it does not say so.
  [[nodiscard]] static int row_of(const Program& program, const Instruction& sum) {
    const auto row = static_cast<std::size_t>(sum.parameter);
    const bool is_right = sum.parameter >= 0 && row < program.parameters.size() &&
                          program.parameters[row].gradient == sum.find(Role::kData)->range;
    return is_right ? sum.parameter : -1;
  }

  /// What `p` sends to `peer`, or receives from it.
  [[nodiscard]] std::vector<Event> messages(std::size_t p, std::string_view group, bool is_sent,
                                            int peer) const {
    std::vector<Event> events;
    const auto found = sequences_[p].find(group);
    if (found == sequences_[p].end()) return events;
    for (const Event& event : found->second) {
      const Op op = event.instruction->op;
      const bool is_one = is_sent ? sends(op) && event.comm().peer == peer
                                  : receives(op) && source_of(*event.instruction) == peer;
      if (is_one) events.push_back(event);
    }
    return events;
  }

  std::optional<Violation> check_messages(std::size_t p) const {
    for (const std::string& group : groups()) {
      const std::vector<int> ranks = members(p, group);
      const auto own = static_cast<int>(
          std::find(ranks.begin(), ranks.end(), programs_[p].request.rank) - ranks.begin());
      for (int peer = 0; peer < static_cast<int>(ranks.size()); ++peer) {
        const auto other = by_rank_.find(ranks[static_cast<std::size_t>(peer)]);
        if (other == by_rank_.end()) continue;
        const auto sent = messages(p, group, true, peer);
        const auto received = messages(other->second, group, false, own);
        if (auto found = match(p, other->second, sent, received)) return found;
      }
    }
    return std::nullopt;
  }

  std::optional<Violation> match(std::size_t from, std::size_t to, const std::vector<Event>& sent,
                                 const std::vector<Event>& received) const {
    const int source = programs_[from].request.rank, target = programs_[to].request.rank;
    for (std::size_t k = 0; k < std::min(sent.size(), received.size()); ++k) {
      const auto key = [](const Program& program, const Event& event) {
        const Call& call = program.calls[static_cast<std::size_t>(event.at.call)];
        return std::tuple(message_tag(call, event.comm()), event.comm().elems, event.comm().dtype);
      };
      if (key(programs_[from], sent[k]) == key(programs_[to], received[k])) continue;
      return violation(programs_[to], "V7", received[k].at,
                       {fmt::format("{} as message {} from rank {}",
                                    event_text(programs_[to], received[k]), k, source),
                        event_text(programs_[from], sent[k])});
    }
    if (sent.size() == received.size()) return std::nullopt;
    return violation(
        programs_[to], "V7",
        {fmt::format("{} RECV from rank {}", received.size(), source),
         fmt::format("{}, as many as rank {} sends to rank {}", sent.size(), source, target)});
  }

  const std::vector<Program>& programs_;
  std::vector<Sequences> sequences_;           ///< by program
  std::vector<std::vector<bool>> gradients_;   ///< by program: see gradient_buffers
  std::map<int, std::size_t> first_replicas_;  ///< by place_of
  std::map<int, std::size_t> by_rank_;
};

// V15 across ranks
// --------------------------------------------------------------------------------------------------

/// Bytes [begin, end) of a shard of a parameter's gradient that a rank adds to the norm.
struct Piece {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::size_t program = 0;
};

/// By row of the parameter table and tp rank whose shard it is; 0 for what is on all of them.
using Cover = std::map<std::pair<std::size_t, int>, std::vector<Piece>>;

/// Of the ranks that hold the same shard, the first.
bool is_of_first_copy(const Program& program) {
  const Replicas replicas = replicas_of(program.request);
  return replicas.copy_group.empty() ||
         group_ranks(program.request, replicas.copy_group).front() == program.request.rank;
}

int owner_of_shard(const LocalModel& model, std::size_t row) {
  return is_cut(model.row(row).tp_sharding) ? model.coord().tp : 0;
}

void add_pieces(const Program& program, const LocalModel& model, std::size_t index, Cover& cover) {
  const ParameterRoots roots = roots_of(program);
  for (const Call& call : program.calls) {
    for (const Instruction& instruction : program.at(call.template_index).instructions) {
      if (instruction.op != Op::kNormSquare) continue;
      const auto row = static_cast<std::size_t>(instruction.parameter);
      const Range& range = instruction.find(Role::kX)->range;
      const RootPart part = *reduced_gradients(program, roots.rows[row].root);
      const std::int64_t begin =
          range.offset + (part.elems.begin - roots.rows[row].offset) * dtype_bytes(DType::kF32);
      cover[{row, owner_of_shard(model, row)}].push_back({begin, begin + range.bytes, index});
    }
  }
}

// V18
// --------------------------------------------------------------------------------------------------

/// What an instruction does, but for which elements a rank owns.
struct Action {
  Op op{};
  Part part{};
  int layer = -1, stage = 0, chunk = -1, micro_batch = -1;
  Site site{};
  Stream stream{};
  std::string_view group = {};
  bool operator==(const Action&) const = default;
};

std::string action_text(const std::vector<Action>& actions, std::size_t index) {
  if (index >= actions.size()) return "the end of the step";
  const Action& action = actions[index];
  return fmt::format("{} {} layer={} stage={} chunk={} site={} {} '{}' micro_batch={}",
                     op_name(action.op), part_name(action.part), action.layer, action.stage,
                     action.chunk, site_name(action.site), stream_name(action.stream), action.group,
                     action.micro_batch);
}

/// Without updates, norms and padding, which follow shards, and without what a rank says to its
/// own replicas.
std::vector<Action> actions(const Program& program) {
  std::vector<Action> all;
  for_each_instruction(program, [&](const Call& call, int, const Instruction& i, int) {
    if (i.op == Op::kNormSquare || i.op == Op::kOptStep || i.op == Op::kZero) return;
    const bool is_single = i.op == Op::kSend || i.op == Op::kRecv;
    if (is_single && i.comm && i.comm->group != axis_name(Axis::kPp)) return;
    all.push_back({.op = i.op,
                   .part = i.part,
                   .layer = i.layer,
                   .stage = i.stage,
                   .chunk = i.chunk,
                   .micro_batch = call.micro_batch,
                   .site = i.site,
                   .stream = i.stream,
                   .group = i.comm ? std::string_view(i.comm->group) : std::string_view()});
  });
  return all;
}

}  // namespace

std::optional<Violation> check_peers(const std::vector<Program>& programs) {
  return PeerCheck(programs).run();
}

std::optional<Violation> check_norm_cover(const std::vector<Program>& programs) {
  if (programs.empty() || programs.front().kind != ProgramKind::kTrain) return std::nullopt;
  const Program& first = programs.front();
  const Mesh mesh = first.request.layout.mesh();
  const bool has_all_ranks = static_cast<int>(programs.size()) == mesh.size();
  Cover cover;
  std::map<std::pair<std::size_t, int>, std::int64_t> due_bytes;
  for (std::size_t p = 0; p < programs.size(); ++p) {
    // Each copy of the shards has the whole norm: one of them is checked.
    if (!is_of_first_copy(programs[p])) continue;
    const LocalModel model(programs[p]);
    add_pieces(programs[p], model, p, cover);
    for (std::size_t row = 0; row < programs[p].parameters.size(); ++row) {
      const Range& gradient = programs[p].parameters[row].gradient;
      if (gradient.buffer >= 0) due_bytes[{row, owner_of_shard(model, row)}] = gradient.bytes;
    }
  }
  for (const auto& [key, bytes] : due_bytes) {
    auto& pieces = cover[key];
    std::sort(pieces.begin(), pieces.end(),
              [](const Piece& a, const Piece& b) { return a.begin < b.begin; });
    std::int64_t covered = 0;
    for (const Piece& piece : pieces) {
      if (piece.begin == covered || (!has_all_ranks && piece.begin > covered)) {
        covered = piece.end;
        continue;
      }
      return violation(programs[piece.program], "V15",
                       {fmt::format("bytes [{}:{}] of the gradient of parameter {} {} the norm",
                                    std::min(piece.begin, covered), std::max(piece.begin, covered),
                                    key.first, piece.begin < covered ? "twice in" : "missing in"),
                        "each element once over all ranks"});
    }
    if (!has_all_ranks || covered == bytes) continue;
    return violation(
        first, "V15",
        {fmt::format("bytes [{}:{}] of the gradient of parameter {} missing in the norm", covered,
                     bytes, key.first),
         "each element once over all ranks"});
  }
  return std::nullopt;
}

std::optional<Violation> check_replicas(const std::vector<Program>& programs) {
  std::map<int, std::vector<const Program*>> by_stage;
  for (const Program& program : programs)
    by_stage[program.request.layout.mesh().coord_of(program.request.rank).pp].push_back(&program);
  for (const auto& [pp, replicas] : by_stage) {
    if (replicas.size() == 1) continue;
    const std::vector<Action> due = actions(*replicas.front());
    for (const Program* program : replicas) {
      const std::vector<Action> own = actions(*program);
      const auto [mine, theirs] = std::mismatch(own.begin(), own.end(), due.begin(), due.end());
      if (mine == own.end() && theirs == due.end()) continue;
      const auto index = static_cast<std::size_t>(mine - own.begin());
      return violation(*program, "V18",
                       {fmt::format("{} as action {}", action_text(own, index), index),
                        fmt::format("{}, as on rank {}", action_text(due, index),
                                    replicas.front()->request.rank)});
    }
  }
  return std::nullopt;
}

}  // namespace trireme
