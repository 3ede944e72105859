// The steps of all ranks of a world as one rendezvous system.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "trireme/program/program.h"
#include "trireme/program/rendezvous.h"
#include "trireme/program/verify.h"

namespace trireme {

/// Op i of a rank is the instruction at position i of its step; its meetings are messages and
/// collectives, matched in the order of their communicator (V6 and V7 hold).
class StepSystem {
 public:
  struct Place {
    int call = 0;
    int instruction = 0;
  };

  StepSystem(const std::vector<Program>& programs, DeadlockMode mode);

  [[nodiscard]] const RendezvousSystem& system() const { return system_; }
  [[nodiscard]] const Place& at(std::size_t program, int position) const {
    return places_.at(program).at(static_cast<std::size_t>(position));
  }
  void set_seconds(std::size_t program, int position, double seconds) {
    system_.ranks.at(program).at(static_cast<std::size_t>(position)).seconds = seconds;
  }

 private:
  /// (communicator, its first rank or the sender, 0 or 1 + the receiver, how many before it)
  using Key = std::tuple<std::string, int, int, int>;

  void add(const Program& program);
  /// The meetings of a communication: one, or the two messages of an EXCHANGE.
  [[nodiscard]] std::vector<int> meetings_of(const Program& program, const Instruction& instruction,
                                             std::map<Key, int>& counts);

  DeadlockMode mode_;
  RendezvousSystem system_;
  std::vector<std::vector<Place>> places_;  ///< by program and position
  std::map<Key, int> numbers_;
};

}  // namespace trireme
