#include "trireme/checkpoint/json_text.h"

#include <limits>
#include <set>
#include <vector>

#include <fmt/format.h>

#include "trireme/base/errors.h"

namespace trireme {
namespace {

constexpr int kMaxDepth = 64;
constexpr std::string_view kRemedy = "the file is damaged: fetch or save it again";

using Json = nlohmann::json;

[[noreturn]] void refuse(std::string_view where, std::string_view what, std::string_view rule) {
  throw ResourceError(fmt::format("[checkpoint] {}: {}; {}; {}", where, what, rule, kRemedy));
}

/// Sees each key before the object that would keep only the last of two equal ones.
class KeyWatch {
 public:
  explicit KeyWatch(std::string_view where) : where_(where) {}

  bool operator()(int depth, Json::parse_event_t event, const Json& parsed) {
    if (depth > kMaxDepth) {
      refuse(where_, fmt::format("nested deeper than {} levels", kMaxDepth),
             "such nesting has no meaning here");
    }
    if (event == Json::parse_event_t::object_start) keys_.emplace_back();
    if (event == Json::parse_event_t::object_end) keys_.pop_back();
    if (event == Json::parse_event_t::key) {
      const auto& key = parsed.get_ref<const std::string&>();
      if (!keys_.back().insert(key).second) {
        refuse(where_, fmt::format("key {} appears twice", shown(key)),
               "a key may appear once in an object");
      }
    }
    return true;
  }

 private:
  std::string_view where_;
  std::vector<std::set<std::string>> keys_;
};

const Json& required(const Json& object, const std::string& key, std::string_view where) {
  const auto found = object.find(key);
  if (found == object.end()) refuse(where, fmt::format("has no {}", shown(key)), "it is required");
  return *found;
}

}  // namespace

std::string shown(std::string_view text) {
  constexpr std::size_t kMaxBytes = 200;
  const std::string_view start = text.substr(0, kMaxBytes);
  return Json(start).dump(-1, ' ', true, Json::error_handler_t::replace) +
         (text.size() > kMaxBytes ? "..." : "");
}

Json parse_json_object(std::string_view text, std::string_view where) {
  // The parser takes a NUL for the end of the input, so what follows one would go unseen.
  if (const auto nul = text.find('\0'); nul != std::string_view::npos) {
    refuse(where, fmt::format("NUL byte at offset {}", nul), "JSON text holds none");
  }
  Json root;
  // The parser wants a copyable callback; the keys must outlive its copies.
  KeyWatch watch(where);
  try {
    root = Json::parse(text, [&watch](int depth, Json::parse_event_t event, Json& parsed) {
      return watch(depth, event, parsed);
    });
  } catch (const Json::parse_error& error) {
    refuse(where, fmt::format("not JSON: {}", error.what()), "it must be one JSON object");
  }
  if (!root.is_object())
    refuse(where, fmt::format("a JSON {}", root.type_name()), "it must be one JSON object");
  return root;
}

std::int64_t required_count(const Json& object, const std::string& key, std::string_view where) {
  const std::uint64_t value = required_unsigned(object, key, where);
  if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    refuse(where, fmt::format("{} = {}", shown(key), value), "it must be below 2^63");
  }
  return static_cast<std::int64_t>(value);
}

std::uint64_t required_unsigned(const Json& object, const std::string& key,
                                std::string_view where) {
  const Json& value = required(object, key, where);
  if (!value.is_number_unsigned()) {
    refuse(where, fmt::format("{} is no unsigned integer", shown(key)), "it must be one");
  }
  return value.get<std::uint64_t>();
}

std::string required_text(const Json& object, const std::string& key, std::string_view where) {
  const Json& value = required(object, key, where);
  if (!value.is_string()) {
    refuse(where, fmt::format("{} is a {}", shown(key), value.type_name()), "it must be text");
  }
  return value.get<std::string>();
}

const Json& required_object(const Json& object, const std::string& key, std::string_view where) {
  const Json& value = required(object, key, where);
  if (!value.is_object()) {
    refuse(where, fmt::format("{} is a {}", shown(key), value.type_name()), "it must be an object");
  }
  return value;
}

}  // namespace trireme
