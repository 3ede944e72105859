// Static verification: what a program must satisfy before a device is touched.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/program/place.h"
#include "trireme/program/program.h"

namespace trireme {

/// The first instruction that breaks a rule, and how.
struct Violation {
  std::string rule;  ///< "V1" … "V18"
  int rank = 0;
  int call = -1;         ///< index of the call, or -1 when no single instruction is at fault
  int instruction = -1;  ///< index in the call's template
  std::string message;   ///< names the instruction, the operand, what was found and what is due
};

struct Rule {
  std::string_view name;
  std::string_view claim;       ///< one line
  bool is_among_ranks = false;  ///< needs the programs of all ranks to be checked in full
};

/// The rules that verify() checks, in order.
[[nodiscard]] const std::vector<Rule>& verified_rules();

/// Checks the programs of one kind for some or all ranks of a world: each by itself, and the ranks
/// given against each other (Rule::is_among_ranks). Nothing if all rules hold. Throws UsageError as
/// Pipeline does if a request cannot be cut.
[[nodiscard]] std::optional<Violation> verify(const std::vector<Program>& programs);

/// How the communication of a rank is issued.
enum class DeadlockMode : std::uint8_t {
  kPerStream,     ///< streams side by side, as the executor runs them
  kDeviceSerial,  ///< all of a rank's communication in one order, as NCCL may need it
  kBlocking,      ///< every instruction waits for the one before it
};

/// V8: nothing if the steps of all ranks of a world finish. V6 and V7 hold.
[[nodiscard]] std::optional<Violation> check_deadlock(const std::vector<Program>& programs,
                                                      DeadlockMode mode);

/// V13 on a placement: operands inside their buffers, buffers inside the arena and aligned, and two
/// buffers share bytes only if their lives are ordered by happens-before.
[[nodiscard]] std::optional<Violation> verify_placement(const std::vector<const Program*>& programs,
                                                        const Placement& placement);

/// For programs that we built: InternalError with the violation's rule, rank, instruction and
/// message, if there is one.
void require_valid(const std::optional<Violation>& violation);

}  // namespace trireme
