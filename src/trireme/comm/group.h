// Who takes part in the calls of one purpose.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trireme {

/// Members of a group by their rank in it, and what they communicate for.
class Group {
 public:
  Group(std::vector<int> world_ranks, std::string_view purpose)
      : world_ranks_(std::move(world_ranks)), purpose_(purpose) {}

  [[nodiscard]] int size() const { return static_cast<int>(world_ranks_.size()); }
  [[nodiscard]] const std::vector<int>& world_ranks() const { return world_ranks_; }
  [[nodiscard]] const std::string& purpose() const { return purpose_; }

  /// "group 'dp' of ranks {0, 2}".
  [[nodiscard]] std::string description() const;
  /// "rank 1 (world rank 2)".
  [[nodiscard]] std::string member_name(int member) const;

  bool operator==(const Group&) const = default;

 private:
  std::vector<int> world_ranks_;
  std::string purpose_;
};

}  // namespace trireme
