// The communicators that programs name: the mesh axes, and what pipelines need beside them.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/program/program.h"

namespace trireme {

/// Two ranks of a pipeline that hold the two copies of a tied table, first and last stage.
inline constexpr std::string_view kTiedGroup = "tied";
/// Two ranks of a pipeline that hold the same stages (DualPipe).
inline constexpr std::string_view kMirrorGroup = "mirror";

/// Sets of communicators, as bits.
using Groups = unsigned;
/// The bit of a communicator; 0 for an unknown one.
[[nodiscard]] Groups group_bit(std::string_view group);
/// "dp and tp"; "no group".
[[nodiscard]] std::string groups_text(Groups groups);

/// The mesh axis that a communicator runs along; nothing if it runs along none.
[[nodiscard]] std::optional<Axis> axis_of(std::string_view group);
/// The stream on which a rank issues the operations of a communicator.
[[nodiscard]] Stream stream_of(std::string_view group);
/// All communicators that the programs name, in the order of their names.
[[nodiscard]] std::set<std::string> groups_of(const std::vector<Program>& programs);
/// World ranks of a communicator (see also replicas.h) that has `request.rank`, ascending; empty if
/// there is none.
[[nodiscard]] std::vector<int> group_ranks(const BuildRequest& request, std::string_view group);

}  // namespace trireme
