#include "trireme/execute/rank_executor.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "trireme/base/errors.h"
#include "trireme/base/units.h"
#include "trireme/comm/threads/gate.h"
#include "trireme/execute/operand_check.h"

namespace trireme {
namespace {

/// Thrown by a stream whose partner has failed; never leaves run().
struct PartnerFailed {};

/// y += x, of fp32; by this thread alone, since the rank's team computes meanwhile.
void add_floats(std::span<const std::byte> x, std::span<std::byte> y) {
  TRI_CHECK(x.size() == y.size());
  const auto* const from = reinterpret_cast<const float*>(x.data());
  auto* const to = reinterpret_cast<float*>(y.data());
  for (std::size_t i = 0; i < x.size() / sizeof(float); ++i) to[i] += from[i];
}

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

RankExecutor::RankExecutor(std::vector<const Program*> programs, const Placement& placement,
                           std::vector<std::unique_ptr<Backend>> backends,
                           std::vector<GroupCommunicator> communicators, ExecutorOptions options)
    : programs_(std::move(programs)),
      placement_(placement),
      backends_(std::move(backends)),
      communicators_(std::move(communicators)),
      options_(std::move(options)),
      arena_(placement.arena_bytes) {
  TRI_CHECK(programs_.size() == backends_.size());
  for (std::size_t p = 0; p < programs_.size(); ++p) {
    const std::int64_t planned =
        programs_[p]->buffer(*programs_[p]->find_buffer("workspace.compute")).bytes;
    TRI_CHECK(backends_[p]->workspace_bytes() <= planned);
  }
  prepare_streams();
  fill_constants();
  find_communicators();
  try {
    start_streams();
  } catch (...) {
    join_streams();
    throw;
  }
}

void RankExecutor::start_streams() {
  for (int s = 0; s < kNumStreams; ++s) {
    const auto stream = static_cast<Stream>(s);
    if (stream == Stream::kCompute) continue;
    bool is_used = false;
    for (std::size_t p = 0; p < programs_.size(); ++p)
      is_used = is_used || uses(narrow<int>(p), stream);
    if (is_used) state(stream).thread = std::thread([this, stream] { stream_thread_main(stream); });
  }
}

RankExecutor::~RankExecutor() {
  join_streams();
}

void RankExecutor::join_streams() {
  for (StreamState& stream : streams_) {
    if (!stream.thread.joinable()) continue;
    stream.asked.store(kFailed, std::memory_order_release);
    stream.asked.notify_all();
  }
  for (StreamState& stream : streams_) {
    if (stream.thread.joinable()) stream.thread.join();
  }
}

void RankExecutor::prepare_streams() {
  std::int64_t most_instructions = 0;
  std::size_t most_operands = 0;
  for (const Program* program : programs_) {
    auto& bases = call_bases_.emplace_back();
    for (const int base : call_bases(*program)) bases.push_back(narrow<std::uint32_t>(base));
    most_instructions = std::max(most_instructions, program->num_instructions());
    for (StreamState& stream : streams_)
      stream.instructions.emplace_back(program->templates.size());
    auto& uses = uses_.emplace_back();
    uses.fill(false);
    for (std::size_t t = 0; t < program->templates.size(); ++t) {
      const auto& instructions = program->templates[t].instructions;
      for (std::size_t i = 0; i < instructions.size(); ++i) {
        state(instructions[i].stream).instructions.back()[t].push_back(narrow<int>(i));
        most_operands = std::max(most_operands, instructions[i].uses.size());
        uses.at(static_cast<std::size_t>(instructions[i].stream)) = true;
      }
    }
  }
  for (StreamState& stream : streams_) {
    stream.times.reserve(static_cast<std::size_t>(most_instructions));
    stream.operands.resize(most_operands);
  }
}

Communicator* RankExecutor::communicator_of(const std::string& group) const {
  const auto found =
      std::find_if(communicators_.begin(), communicators_.end(),
                   [&](const GroupCommunicator& each) { return each.group == group; });
  TRI_CHECK(found != communicators_.end() && found->communicator != nullptr);
  return found->communicator;
}

void RankExecutor::find_communicators() {
  for (const Program* program : programs_) {
    auto& of_program = communicator_of_.emplace_back();
    for (const Template& item : program->templates) {
      auto& of_template = of_program.emplace_back();
      for (const Instruction& instruction : item.instructions) {
        of_template.push_back(instruction.comm ? communicator_of(instruction.comm->group)
                                               : nullptr);
      }
    }
  }
}

bool RankExecutor::uses(int program, Stream stream) const {
  return uses_.at(static_cast<std::size_t>(program)).at(static_cast<std::size_t>(stream));
}

std::exception_ptr RankExecutor::first_failure() const {
  for (const StreamState& stream : streams_) {
    const bool has_failed = stream.passed.load(std::memory_order_acquire) == kFailed;
    if (has_failed && stream.failure) return stream.failure;
  }
  return nullptr;
}

void RankExecutor::fill_constants() {
  for (std::size_t p = 0; p < programs_.size(); ++p) {
    for (std::size_t id = 0; id < programs_[p]->buffers.size(); ++id) {
      const Buffer& buffer = programs_[p]->buffers[id];
      if (buffer.content != Content::kConstant) continue;
      backends_[p]->fill_constant(
          buffer, bytes(narrow<int>(p), programs_[p]->whole(narrow<BufferId>(id))).data());
    }
  }
}

std::span<std::byte> RankExecutor::bytes(int program, const Range& range) const {
  const std::int64_t offset = placement_.offset(program, range.buffer) + range.offset;
  return arena_.bytes().subspan(static_cast<std::size_t>(offset),
                                static_cast<std::size_t>(range.bytes));
}

void RankExecutor::run(int program, const StepContext& context) {
  program_ = program;
  context_ = &context;
  for (StreamState& stream : streams_) {
    stream.passed.store(0, std::memory_order_relaxed);
    stream.times.clear();
  }
  for (int s = 0; s < kNumStreams; ++s) {
    if (!uses(program, static_cast<Stream>(s))) continue;
    StreamState& stream = state(static_cast<Stream>(s));
    stream.asked.fetch_add(1, std::memory_order_release);
    stream.asked.notify_all();
  }
  const std::uint32_t end = call_bases_.at(static_cast<std::size_t>(program)).back() + 1;
  try {
    run_stream(Stream::kCompute);
    for (int s = 0; s < kNumStreams; ++s) {
      const auto stream = static_cast<Stream>(s);
      if (stream != Stream::kCompute && uses(program, stream)) wait_for(stream, end);
    }
  } catch (const PartnerFailed&) {
    const std::exception_ptr failure = first_failure();
    if (options_.abort) options_.abort(failure);
    fail(Stream::kCompute);
    std::rethrow_exception(failure);
  } catch (...) {
    if (options_.abort) options_.abort(std::current_exception());
    fail(Stream::kCompute);
    throw;
  }
}

void RankExecutor::stream_thread_main(Stream stream) {
  const std::atomic<std::uint32_t>& word = state(stream).asked;
  std::uint32_t steps = 0;
  while (true) {
    std::uint32_t asked = word.load(std::memory_order_acquire);
    while (asked == steps) {
      await_word(word, asked);
      asked = word.load(std::memory_order_acquire);
    }
    if (asked == kFailed) return;
    steps = asked;
    try {
      run_stream(stream);
    } catch (const PartnerFailed&) {  // the stream that failed first says why
      return fail(stream);
    } catch (...) {
      state(stream).failure = std::current_exception();
      // The rank's other streams may be in a collective whose peers wait for this one.
      if (options_.abort) options_.abort(std::current_exception());
      return fail(stream);
    }
  }
}

void RankExecutor::run_stream(Stream stream) {
  const auto p = static_cast<std::size_t>(program_);
  const Program& program = *programs_[p];
  const auto& bases = call_bases_[p];
  for (std::size_t c = 0; c < program.calls.size(); ++c) {
    const int template_index = program.calls[c].template_index;
    for (const int i : state(stream).instructions[p][static_cast<std::size_t>(template_index)]) {
      run_instruction(stream, narrow<int>(c), i, bases[c]);
    }
    pass(stream, bases[c + 1]);
  }
  pass(stream, bases.back() + 1);
}

void RankExecutor::run_instruction(Stream stream, int call_index, int index, std::uint32_t base) {
  const auto p = static_cast<std::size_t>(program_);
  const Program& program = *programs_[p];
  const Call& call = program.calls[static_cast<std::size_t>(call_index)];
  const Instruction& instruction =
      program.at(call.template_index).instructions[static_cast<std::size_t>(index)];
  for_each_wait(call, instruction, index, [&](const Wait& wait) {
    const auto call_base = call_bases_[p][static_cast<std::size_t>(call_index - wait.calls_back)];
    wait_for(wait.stream, call_base + narrow<std::uint32_t>(wait.instruction) + 1);
  });
  StreamState& own = state(stream);
  for (std::size_t u = 0; u < instruction.uses.size(); ++u) {
    own.operands[u] = operand(call, instruction.uses[u].range);
  }
  const Operands operands(own.operands.data(), instruction.uses.size());
  annotate_operands(instruction, operands);
  const double start = is_recording_ ? now_seconds() : 0.0;
  if (instruction.comm) {
    Communicator* const communicator =
        communicator_of_[p][static_cast<std::size_t>(call.template_index)]
                        [static_cast<std::size_t>(index)];
    communicate(*communicator, call, instruction, operands);
  } else {
    backends_[p]->run(call, index, operands, *context_);
  }
  if (is_recording_) own.times.push_back({call_index, index, start, now_seconds()});
  pass(stream, base + narrow<std::uint32_t>(index) + 1);
}

std::byte* RankExecutor::operand(const Call& call, const Range& range) const {
  const int pool = programs_[static_cast<std::size_t>(program_)]->buffer(range.buffer).pool;
  const std::int64_t offset =
      placement_.offset(program_, range.buffer, pool, call.frame_of(pool)) + range.offset;
  return arena_.bytes().data() + offset;
}

void RankExecutor::communicate(Communicator& communicator, const Call& call,
                               const Instruction& instruction, Operands operands) {
  const auto range_bytes = [&](std::size_t use) {
    return std::span<std::byte>(operands[use],
                                static_cast<std::size_t>(instruction.uses[use].range.bytes));
  };
  const Program& program = *programs_[static_cast<std::size_t>(program_)];
  const DType dtype = program.buffer(instruction.uses.front().range.buffer).dtype;
  const Reduction sum{.dtype = dtype,
                      .op = instruction.comm->is_max ? ReduceOp::kMax : ReduceOp::kSum,
                      .travels_in_bf16 = instruction.comm->dtype != dtype};
  switch (instruction.op) {
    case Op::kAllReduce:
      return communicator.all_reduce(range_bytes(0), sum);
    case Op::kReduceScatter:
      if (instruction.uses[1].access != Access::kAccumulate)
        return communicator.reduce_scatter(range_bytes(0), range_bytes(1), sum);
      communicator.reduce_scatter_in_place(range_bytes(0), sum);
      return add_floats(communicator.own_shard(range_bytes(0)), range_bytes(1));
    case Op::kAllGather:
      return communicator.all_gather(range_bytes(0), range_bytes(1));
    case Op::kSend:
      return communicator.send(range_bytes(0), instruction.comm->peer,
                               message_tag(call, *instruction.comm));
    case Op::kRecv:
      return communicator.recv(range_bytes(0), instruction.comm->peer,
                               message_tag(call, *instruction.comm));
    case Op::kExchange: {
      const int tag = message_tag(call, *instruction.comm);
      const std::array<Transfer, 2> transfers{
          Transfer{.is_send = true,
                   .peer = instruction.comm->peer,
                   .tag = tag,
                   .outgoing = range_bytes(0)},
          Transfer{.peer = instruction.comm->source, .tag = tag, .incoming = range_bytes(1)}};
      return communicator.exchange(transfers);
    }
    default:
      TRI_CHECK(false && "not a communication");
  }
}

void RankExecutor::await_word(const std::atomic<std::uint32_t>& word,
                              std::uint32_t old_value) const {
  for (int i = 0; i < options_.spin_count; ++i) {
    if (word.load(std::memory_order_relaxed) != old_value) return;
    pause_cpu();
  }
  word.wait(old_value, std::memory_order_relaxed);
}

void RankExecutor::wait_for(Stream stream, std::uint32_t target) {
  const std::atomic<std::uint32_t>& passed = state(stream).passed;
  std::uint32_t value = passed.load(std::memory_order_acquire);
  while (value < target) {
    await_word(passed, value);
    value = passed.load(std::memory_order_acquire);
  }
  if (value == kFailed) throw PartnerFailed{};
}

void RankExecutor::pass(Stream stream, std::uint32_t position) {
  state(stream).passed.store(position, std::memory_order_release);
  state(stream).passed.notify_all();
}

void RankExecutor::fail(Stream stream) {
  pass(stream, kFailed);
}

}  // namespace trireme
