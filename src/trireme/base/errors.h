// Exceptions of the whole library: the type says who can repair the cause.
#pragma once

#include <stdexcept>
#include <string>

namespace trireme {

/// Base of everything Trireme throws. A message has four parts: `[where]`, the offending values,
/// the violated rule, the remedy.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The caller or the configuration is at fault. The program's exit code is 2.
class UsageError : public Error {
 public:
  using Error::Error;
};

/// A device, file or peer is at fault. The program's exit code is 1.
class ResourceError : public Error {
 public:
  using Error::Error;
};

/// Another rank of the group failed, so that this rank cannot go on.
class PeerLost : public ResourceError {
 public:
  using ResourceError::ResourceError;
};

/// Our own bug. Thrown only by TRI_CHECK and by the verifier on a program that we built.
class InternalError : public Error {
 public:
  using Error::Error;
};

/// Throws InternalError naming the expression and its place.
[[noreturn]] void throw_internal_error(const char* expression, const char* file, int line);

}  // namespace trireme

/// Always-on check of our own invariants; never for what a user or a file can cause.
#define TRI_CHECK(condition)          \
  ((condition) ? static_cast<void>(0) \
               : ::trireme::throw_internal_error(#condition, __FILE__, __LINE__))
