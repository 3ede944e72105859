// Text as a JSON string.
#pragma once

#include <string>
#include <string_view>

namespace trireme {

/// `text` in quotes, with everything escaped that strict JSON wants escaped. Bytes that are not
/// UTF-8 become U+FFFD, one for each byte.
[[nodiscard]] std::string json_text(std::string_view text);

}  // namespace trireme
