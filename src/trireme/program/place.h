// Static memory planning: every buffer of a rank gets an offset in one arena before the first step.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "trireme/program/program.h"

namespace trireme {

/// Bytes by MemoryKind.
using KindBytes = std::array<std::int64_t, kNumMemoryKinds>;

/// The instruction at which the transient buffers need most.
struct PeakPoint {
  int program = 0;
  int template_index = 0;
  int instruction = 0;
};

/// Offsets for several programs of one rank that share an arena (training and evaluation, prefill
/// and decode). Buffers with memory of their own are shared by name; transient buffers of all
/// programs share one segment, packed by lifetime.
///
/// Framed buffers of a pool lie side by side in a frame, frame after frame; all pools of a program
/// lie below its transient buffers, in the segment that the programs share.
struct Placement {
  std::vector<std::vector<std::int64_t>>
      offsets;  ///< [program][buffer], bytes from the arena's start
  std::vector<std::vector<std::int64_t>>
      frame_bytes;         ///< [program][pool]: from one frame to the next
  KindBytes kind_bytes{};  ///< sums to arena_bytes; the transient segment counts as activations
  std::int64_t arena_bytes = 0;
  std::int64_t lower_bound_bytes = 0;  ///< own memory plus the most transient bytes alive at once
  std::string packing;                 ///< order that packed the transient segment best
  PeakPoint peak;

  [[nodiscard]] std::int64_t offset(int program, BufferId buffer) const {
    return offsets.at(static_cast<std::size_t>(program)).at(static_cast<std::size_t>(buffer));
  }
  /// Offset of the buffer in a frame of its pool (-1: none, frame 0).
  [[nodiscard]] std::int64_t offset(int program, BufferId buffer, int pool, int frame) const {
    if (pool < 0) return offset(program, buffer);
    return offset(program, buffer) +
           frame *
               frame_bytes.at(static_cast<std::size_t>(program)).at(static_cast<std::size_t>(pool));
  }
};

/// Packs by decreasing size, by decreasing size × lifetime and in program order, and keeps the best
/// (dynamic storage allocation; greedy-by-size as in Pisarchyk & Lee 2020, arXiv:2001.03288).
[[nodiscard]] Placement place(const std::vector<const Program*>& programs);

/// A transient buffer's life within one template, instructions [first, last].
struct Lifetime {
  int template_index = 0;
  int first = 0;
  int last = 0;
};

/// By buffer: one entry per template that uses it; empty for what is not transient.
[[nodiscard]] std::vector<std::vector<Lifetime>> lifetimes(const Program& program);

}  // namespace trireme
