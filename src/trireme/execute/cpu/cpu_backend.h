// Instructions on CPU kernels.
#pragma once

#include <memory>

#include "trireme/execute/backend.h"

namespace trireme {

/// Creates every matrix product of a program, which must outlive the backend. Make it in the rank's
/// thread after its OpenMP thread count is set: the count is part of the products and of the
/// workspace size.
[[nodiscard]] std::unique_ptr<Backend> make_cpu_backend(const Program& program, int num_threads);

}  // namespace trireme
