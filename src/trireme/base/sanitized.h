// Tests only: whether this build has a sanitizer.
#pragma once

namespace trireme {

// Sanitized builds are many times slower and look for other faults, which fewer cases show as well.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif

}  // namespace trireme
