// How far a search for layouts is. Private to the layer.
#pragma once

#include <cstddef>
#include <cstdio>
#include <string>

#include <fmt/format.h>

#include "trireme/cli/session.h"

namespace trireme {

/// Of the search, on a terminal.
class SearchProgress {
 public:
  explicit SearchProgress(const Session& session) : session_(session) {}
  ~SearchProgress() {
    if (is_open_) write("\r\x1b[K");
  }
  SearchProgress(const SearchProgress&) = delete;
  SearchProgress& operator=(const SearchProgress&) = delete;

  void show(std::size_t done, std::size_t total) {
    if (total == 0) return;
    const std::size_t percent = 100 * done / total;
    if (!session_.is_terminal || percent == percent_) return;
    percent_ = percent;
    is_open_ = true;
    write(fmt::format("\rsearching  {} %", percent));
  }

 private:
  void write(const std::string& text) const {
    std::fwrite(text.data(), 1, text.size(), session_.err);
    std::fflush(session_.err);
  }
  const Session& session_;
  std::size_t percent_ = 101;
  bool is_open_ = false;
};

}  // namespace trireme
