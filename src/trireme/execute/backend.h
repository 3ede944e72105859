// The backend seam: what runs one instruction on one device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "trireme/program/program.h"

namespace trireme {

/// Where a step's tokens come from. Called from the compute stream of one rank.
class BatchSource {
 public:
  BatchSource() = default;
  BatchSource(const BatchSource&) = delete;
  BatchSource& operator=(const BatchSource&) = delete;
  virtual ~BatchSource() = default;

  struct MicroBatch {
    std::span<std::int32_t> tokens;  ///< [B*T]; empty but in the first stage
    /// [B*T], negative = not a target; empty but in the last stage, and in generation
    std::span<std::int32_t> labels;
    std::span<std::int64_t>
        samples;  ///< [B] global sample numbers; empty when nothing draws from them
  };
  /// Fills one micro-batch of this rank.
  virtual void load(int micro_batch, const MicroBatch& out) = 0;
  /// Valid targets of all micro-batches of this rank in this step.
  [[nodiscard]] virtual std::int64_t num_valid_tokens() const = 0;
};

/// What an execution of a program depends on beside its buffers.
struct StepContext {
  BatchSource* source = nullptr;
  std::uint64_t seed = 0;  ///< of dropout
  std::int64_t step = 0;   ///< 1-based; of dropout
  double* local_loss =
      nullptr;  ///< receives this rank's own loss sum, before any reduction; may be nullptr
};

/// Addresses of an instruction's operands, in the order of its uses.
using Operands = std::span<std::byte* const>;

/// Runs the compute instructions of one program. One object per rank and program, made in the
/// rank's thread.
class Backend {
 public:
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  virtual ~Backend() = default;

  /// Bytes that the workspace of the compute stream must have.
  [[nodiscard]] virtual std::int64_t workspace_bytes() const = 0;
  /// Fills a buffer of content kConstant.
  virtual void fill_constant(const Buffer& buffer, std::byte* bytes) = 0;
  /// Runs instruction `index` of a template.
  virtual void run(const Call& call, int index, Operands operands, const StepContext& context) = 0;
};

}  // namespace trireme
