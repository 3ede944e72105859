// Deadlock: can ranks whose operations meet ever finish, and if so, when?
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace trireme {

/// An operation of one rank: a computation, or its part in messages and collectives. It starts when
/// the one before it in its queue, and all of `after`, have completed and all of `needs` have
/// arrived; it completes when all its meetings have taken place.
struct RendezvousOp {
  std::string name = {};        ///< for messages to people
  int queue = 0;                ///< of its rank; ops of one queue run in order
  double seconds = 0;           ///< of a computation
  std::vector<int> after = {};  ///< earlier ops of the same rank
  std::vector<int> needs = {};  ///< meetings whose data it uses
  std::vector<int> meets = {};  ///< meetings that it takes part in: it waits for the others there
};

/// Ranks, each with its ops in order of issue. A meeting is a number from 0 on: a message has two
/// ops that meet, a collective one of each member. Several meetings in one op begin at once.
struct RendezvousSystem {
  std::vector<std::vector<RendezvousOp>> ranks;
  double meeting_seconds = 0;
};

/// Where a rank hangs.
struct StuckOp {
  int rank = 0;
  int op = 0;            ///< the first that never completes
  int never_begun = -1;  ///< the first that never starts: the same one, or one behind it
};

struct RendezvousResult {
  double makespan = 0;         ///< the longest path, if nothing is stuck
  std::vector<StuckOp> stuck;  ///< one per rank that cannot finish; empty = no deadlock
};

/// The ranks finish if and only if the graph of starts, meetings and completions has no cycle; its
/// longest path is the makespan. A meeting in which fewer than two ops take part never happens.
[[nodiscard]] RendezvousResult run_rendezvous(const RendezvousSystem& system);

/// "rank 0 at recv g1.0, rank 1 at recv f0.1"
[[nodiscard]] std::string stuck_text(const RendezvousSystem& system,
                                     const RendezvousResult& result);

}  // namespace trireme
