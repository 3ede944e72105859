// Test only: runs the program as a shell would.
#pragma once

#include <array>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <sys/wait.h>

#include "trireme/base/test_files.h"

namespace trireme {

struct CommandResult {
  int exit_code = -1;
  std::string out;
  std::string err;
};

inline std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// `arguments` as typed after the program's name, in `folder`.
inline CommandResult run_trireme(const TestFolder& folder, const std::string& arguments) {
  const std::string err_path = (folder.path() / "stderr.txt").string();
  const std::string line = "cd '" + folder.path().string() + "' || exit; '" + TRIREME_BINARY +
                           "' " + arguments + " 2>'" + err_path + "'";
  CommandResult result;
  std::FILE* const pipe = ::popen(line.c_str(), "r");
  if (pipe == nullptr) return result;
  std::array<char, 4096> buffer{};
  while (const std::size_t count = std::fread(buffer.data(), 1, buffer.size(), pipe)) {
    result.out.append(buffer.data(), count);
  }
  const int status = ::pclose(pipe);
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  result.err = content_of(err_path);
  return result;
}

}  // namespace trireme
