// The readable form of programs. It parses back, so that programs can be checked and mutated as
// files.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trireme/base/errors.h"
#include "trireme/program/program.h"

namespace trireme {

/// Header, buffers, parameters, templates and calls of one program, one line each:
///
///     program train rank=0 micro_batches=2 decay_norms=0 compute=f32 reduce=f32
///     model family=llama layers=2 ...
///     layout pp=1 dp=2 ...
///     batch seq=64 global_batch=8
///     pool in_flight frames=2
///     buffer L0.q activations transient f32 bytes=8192
///     buffer L0.h activations framed f32 bytes=4096 pool=in_flight
///     parameter 3 params.0[0:256] grads.0[0:256]
///     template micro.first
///       FWD ACT layer=0 compute | R x=L0.mlp_up, W y=L0.act | free L0.mlp_up
///     call micro.first micro_batch=0 frame=in_flight:0
///     call reduce | wait 0:compute-1:57
///     end
///
/// An operand without brackets is the whole buffer; [a:b] are bytes a to b of it. A wait is
/// stream-calls_back:instruction; before it stands, in a call, the instruction that waits.
[[nodiscard]] std::string program_text(const Program& program);

/// The text names a range outside of its buffer: it breaks rule V13 before it is a program.
class BrokenRange : public UsageError {
 public:
  using UsageError::UsageError;
};

/// Inverse of program_text, for one or more programs in a row. Throws UsageError naming line, token
/// and rule.
[[nodiscard]] std::vector<Program> parse_programs(std::string_view text);

/// Every instruction of one step as a JSON object, one per executed instruction, with buffers and
/// placement-free sizes:
/// {"kind","rank","layout","buffers":[...],"instructions":[{op,stage,part,layer,mb,stream,uses,waits,comm}]}.
[[nodiscard]] std::string program_json(const Program& program);

/// One instruction on one line, as in program_text.
[[nodiscard]] std::string instruction_text(const Program& program, const Instruction& instruction);

}  // namespace trireme
