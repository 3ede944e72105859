// Runs the programs of one rank: one arena, one thread per stream, waits on counters.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "trireme/comm/communicator.h"
#include "trireme/execute/arena.h"
#include "trireme/execute/backend.h"
#include "trireme/program/place.h"

namespace trireme {

/// When one instruction ran, in seconds of a clock that all ranks of the process share.
struct InstructionTime {
  int call = 0;
  int instruction = 0;
  double start_seconds = 0;
  double end_seconds = 0;
};

/// What one stream of a rank did in one run of `program`.
struct StreamRecord {
  const Program* program = nullptr;
  int rank = 0;
  Stream stream{};
  std::vector<InstructionTime> times = {};
};

/// This rank's end of a group that programs name. Each is used by one stream.
struct GroupCommunicator {
  std::string group;  ///< see program/groups.h
  Communicator* communicator = nullptr;
};

/// How the streams of a rank wait, and what they do when one fails.
struct ExecutorOptions {
  int spin_count = 0;  ///< pauses before a stream that waits for the other one sleeps
  /// Called before a failing stream's rank waits for its other streams, which may be blocked in a
  /// collective: it must wake the peers' world.
  std::function<void(std::exception_ptr)> abort;
};

/// Everything of one rank that holds memory. Made, run and destroyed in the rank's thread.
class RankExecutor {
 public:
  /// `programs`, in the order of `placement`, must outlive the executor; `backends` belong to them,
  /// in the same order. `communicators` are those of all groups that the programs name. Throws
  /// ResourceError if the arena cannot be had, InternalError if a backend needs more workspace than
  /// planned or a group is missing.
  RankExecutor(std::vector<const Program*> programs, const Placement& placement,
               std::vector<std::unique_ptr<Backend>> backends,
               std::vector<GroupCommunicator> communicators, ExecutorOptions options);
  RankExecutor(const RankExecutor&) = delete;
  RankExecutor& operator=(const RankExecutor&) = delete;
  ~RankExecutor();

  /// Runs one step of program `program`. Returns when all streams are done. An exception of any
  /// stream is rethrown; the executor can then only be destroyed. Allocates nothing of its own.
  void run(int program, const StepContext& context);

  /// The bytes of a range, for the host: inputs before a step, results after it.
  [[nodiscard]] std::span<std::byte> bytes(int program, const Range& range) const;
  template <typename T>
  [[nodiscard]] std::span<T> values(int program, const Range& range) const {
    const std::span<std::byte> raw = bytes(program, range);
    return {reinterpret_cast<T*>(raw.data()), raw.size() / sizeof(T)};
  }
  /// The first value of a named buffer.
  template <typename T>
  [[nodiscard]] T& scalar(int program, std::string_view name) const {
    const Program& of = *programs_.at(static_cast<std::size_t>(program));
    return values<T>(program, of.whole(*of.find_buffer(name))).front();
  }

  [[nodiscard]] std::int64_t arena_bytes() const {
    return static_cast<std::int64_t>(arena_.bytes().size());
  }

  /// Records the next run()s until called with false.
  void record_times(bool is_on) { is_recording_ = is_on; }
  /// What the last recorded run did on a stream, in order.
  [[nodiscard]] const std::vector<InstructionTime>& times(Stream stream) const {
    return streams_.at(static_cast<std::size_t>(stream)).times;
  }

 private:
  /// Instructions of one stream, and what it has completed.
  struct StreamState {
    std::vector<std::vector<std::vector<int>>>
        instructions;  ///< [program][template]: indices of this stream
    std::vector<InstructionTime> times;
    std::vector<std::byte*> operands;
    std::exception_ptr failure;
    /// Positions of the step that this stream has passed; kFailed after an exception. Orders what
    /// the instructions wrote before the reads of a stream that waits for it.
    alignas(64) std::atomic<std::uint32_t> passed{0};
    /// Number of steps that the stream's thread was asked to run; kFailed ends the thread.
    alignas(64) std::atomic<std::uint32_t> asked{0};
    std::thread thread = {};  ///< the compute stream runs on the caller's
  };
  static constexpr std::uint32_t kFailed = 0xffffffffU;

  void prepare_streams();
  void start_streams();
  void join_streams();
  void fill_constants();
  [[nodiscard]] Communicator* communicator_of(const std::string& group) const;
  void find_communicators();
  [[nodiscard]] StreamState& state(Stream stream) {
    return streams_.at(static_cast<std::size_t>(stream));
  }
  void run_stream(Stream stream);
  [[nodiscard]] bool uses(int program, Stream stream) const;
  [[nodiscard]] std::exception_ptr first_failure() const;
  void run_instruction(Stream stream, int call, int instruction, std::uint32_t base);
  void wait_for(Stream stream, std::uint32_t target);
  void pass(Stream stream, std::uint32_t position);
  void fail(Stream stream);
  [[nodiscard]] std::byte* operand(const Call& call, const Range& range) const;
  void communicate(Communicator& communicator, const Call& call, const Instruction& instruction,
                   Operands operands);
  void stream_thread_main(Stream stream);
  void await_word(const std::atomic<std::uint32_t>& word, std::uint32_t old_value) const;

  std::vector<const Program*> programs_;
  Placement placement_;
  std::vector<std::unique_ptr<Backend>> backends_;
  std::vector<GroupCommunicator> communicators_;
  ExecutorOptions options_;
  Arena arena_;
  std::array<StreamState, kNumStreams> streams_;
  std::vector<std::vector<std::uint32_t>>
      call_bases_;  ///< [program][call]: position of its first instruction; then the end
  std::vector<std::array<bool, kNumStreams>> uses_;  ///< by program
  /// [program][template][instruction]; nullptr for what is no communication.
  std::vector<std::vector<std::vector<Communicator*>>> communicator_of_;
  bool is_recording_ = false;

  int program_ = 0;  ///< of the step that runs
  const StepContext* context_ = nullptr;
};

}  // namespace trireme
