#include "trireme/base/errors.h"

#include <cstring>

#include <fmt/format.h>

namespace trireme {

void throw_internal_error(const char* expression, const char* file, int line) {
  const char* source = std::strstr(file, "trireme/");
  throw InternalError(fmt::format("[internal] {}:{}: '{}' does not hold; please report this bug",
                                  source != nullptr ? source : file, line, expression));
}

}  // namespace trireme
