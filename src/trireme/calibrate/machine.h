// What this machine is: for a cluster file.
#pragma once

#include <string>

namespace trireme {

struct Machine {
  std::string cpu;    ///< "AMD EPYC", as the system names it
  int num_cores = 1;  ///< that the process may use
  double memory_bytes = 0;
  double load = 0;  ///< threads that wanted a core in the last minute, on average
};
[[nodiscard]] Machine this_machine();

/// Bytes per second that a thread copies (read and written) while `num_threads` copy.
[[nodiscard]] double measured_copy_bytes_per_second(int num_threads);

}  // namespace trireme
