// Makes the operands of instructions visible to the thread sanitizer, which cannot see into
// libraries.
#pragma once

#include "trireme/execute/backend.h"
#include "trireme/program/instruction.h"

namespace trireme {

/// True in builds with the thread sanitizer.
[[nodiscard]] bool is_thread_sanitized();

/// Reports the reads and writes of an instruction to the thread sanitizer; does nothing in other
/// builds.
void annotate_operands(const Instruction& instruction, Operands operands);

}  // namespace trireme
