// Is this text UTF-8?
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace trireme {

/// Offset of the first byte that starts no well-formed UTF-8 sequence (Unicode 15, table 3-7: no
/// overlong forms, no surrogates, nothing above U+10FFFF); nothing if all is well. U+0000 is well
/// formed.
[[nodiscard]] std::optional<std::int64_t> first_invalid_utf8(std::span<const std::uint8_t> bytes);

}  // namespace trireme
