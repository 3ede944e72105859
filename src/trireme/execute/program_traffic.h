// What a program sends, in closed form.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "trireme/program/program.h"

namespace trireme {

/// Bytes by communicator, see program/groups.h.
using GroupBytes = std::map<std::string, std::int64_t>;

/// Bytes that leave the rank in one run of `program` (comm/traffic.h has the forms).
[[nodiscard]] GroupBytes program_bytes_sent(const Program& program);

}  // namespace trireme
