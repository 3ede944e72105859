// JSON that may come from anywhere. Private to the layer: it exposes <nlohmann/json.hpp>.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace trireme {

/// `text` in double quotes, control characters and invalid UTF-8 escaped, cut after 200 bytes: safe
/// to print whatever a file holds.
[[nodiscard]] std::string shown(std::string_view text);

/// Strict JSON whose root is an object. ResourceError starting with `[checkpoint] where:` for a
/// syntax error, a NUL byte, a repeated key (named) or nesting beyond 64.
[[nodiscard]] nlohmann::json parse_json_object(std::string_view text, std::string_view where);

/// object[key] of the type asked for; ResourceError naming the key if it is absent or of another.
[[nodiscard]] std::int64_t required_count(const nlohmann::json& object, const std::string& key,
                                          std::string_view where);
[[nodiscard]] std::uint64_t required_unsigned(const nlohmann::json& object, const std::string& key,
                                              std::string_view where);
[[nodiscard]] std::string required_text(const nlohmann::json& object, const std::string& key,
                                        std::string_view where);
[[nodiscard]] const nlohmann::json& required_object(const nlohmann::json& object,
                                                    const std::string& key, std::string_view where);

}  // namespace trireme
