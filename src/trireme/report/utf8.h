// UTF-8 as far as reports need it.
#pragma once

#include <cstddef>
#include <string_view>

namespace trireme {

/// Bytes of the well-formed UTF-8 sequence at the start of non-empty `text` (RFC 3629, section 4);
/// 0 if there is none.
[[nodiscard]] std::size_t utf8_sequence_bytes(std::string_view text);

/// Code points of UTF-8, a stray byte counting as one: an estimate of the columns that a text
/// takes.
[[nodiscard]] std::size_t num_code_points(std::string_view text);

}  // namespace trireme
