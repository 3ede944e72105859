#include "trireme/execute/operand_check.h"

#include <cstddef>

#if defined(__SANITIZE_THREAD__)
extern "C" {
void __tsan_read_range(void* address, unsigned long size);   // NOLINT: the runtime's names
void __tsan_write_range(void* address, unsigned long size);  // NOLINT: the runtime's names
}
#endif

namespace trireme {

#if defined(__SANITIZE_THREAD__)

bool is_thread_sanitized() {
  return true;
}

void annotate_operands(const Instruction& instruction, Operands operands) {
  for (std::size_t i = 0; i < instruction.uses.size(); ++i) {
    const Use& use = instruction.uses[i];
    const auto bytes = static_cast<unsigned long>(use.range.bytes);
    if (use.reads()) __tsan_read_range(operands[i], bytes);
    if (use.writes()) __tsan_write_range(operands[i], bytes);
  }
}

#else

bool is_thread_sanitized() {
  return false;
}

void annotate_operands(const Instruction&, Operands) {}

#endif

}  // namespace trireme
