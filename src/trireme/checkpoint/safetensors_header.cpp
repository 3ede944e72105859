#include "trireme/checkpoint/safetensors_header.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "trireme/base/errors.h"
#include "trireme/base/units.h"
#include "trireme/checkpoint/json_text.h"

namespace trireme {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kMetadataKey = "__metadata__";
constexpr std::string_view kRemedy =
    "the file is damaged or of another version: fetch or save it again";
/// Bounds what a hostile header of many numbers can allocate.
constexpr std::size_t kMaxDims = 64;

struct DTypeName {
  DType dtype;
  std::string_view name;
};

constexpr std::array<DTypeName, 6> kDTypeNames = {{{DType::kF32, "F32"},
                                                   {DType::kBf16, "BF16"},
                                                   {DType::kF64, "F64"},
                                                   {DType::kI32, "I32"},
                                                   {DType::kI64, "I64"},
                                                   {DType::kU8, "U8"}}};

std::optional<DType> dtype_of(std::string_view name) {
  for (const DTypeName& row : kDTypeNames) {
    if (row.name == name) return row.dtype;
  }
  return std::nullopt;
}

std::string_view name_of(DType dtype) {
  const auto* row = std::find_if(kDTypeNames.begin(), kDTypeNames.end(),
                                 [&](const DTypeName& each) { return each.dtype == dtype; });
  TRI_CHECK(row != kDTypeNames.end());
  return row->name;
}

/// Nothing if a size is negative or a product leaves 63 bits, even if a later size is 0.
std::optional<std::int64_t> tensor_bytes(DType dtype, const std::vector<std::int64_t>& shape) {
  std::int64_t bytes = dtype_bytes(dtype);
  for (const std::int64_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(bytes, size, &bytes)) return std::nullopt;
  }
  return bytes;
}

/// Follows the parser's events; nothing of a header is kept that does not belong there. The
/// interface and its eleven functions are the JSON library's.
class HeaderHandler final : public nlohmann::json_sax<Json> {
 public:
  explicit HeaderHandler(const HeaderPlace& place) : place_(place) {}

  SafetensorsHeader header;

  bool null() override { refuse_value("null"); }
  bool boolean(bool value) override { refuse_value(value ? "true" : "false"); }
  bool number_integer(number_integer_t value) override {
    refuse_value(fmt::format("{}", value), "sizes and offsets are not negative");
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (at_ != At::kNumbers) refuse_value(fmt::format("{}", value));
    if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      refuse_value(fmt::format("{}", value), "sizes and offsets are below 2^63");
    }
    if (numbers_.size() == kMaxDims) {
      refuse_tensor(fmt::format("{} has more than {} numbers", field_, kMaxDims),
                    "a tensor has at most 64 dimensions");
    }
    numbers_.push_back(static_cast<std::int64_t>(value));
    return true;
  }
  bool number_float(number_float_t, const string_t& text) override {
    refuse_value(text, "sizes and offsets are integers below 2^63");
  }
  bool string(string_t& value) override {
    if (at_ == At::kMetadata) {
      header.metadata[field_] = std::move(value);
    } else if (at_ == At::kEntry && field_ == "dtype") {
      const auto dtype = dtype_of(value);
      if (!dtype) {
        refuse_tensor(fmt::format("dtype {}", shown(value)),
                      "F32, BF16, F64, I32, I64 and U8 are read");
      }
      tensor_.dtype = *dtype;
    } else {
      refuse_value(shown(value));
    }
    return true;
  }
  bool binary(binary_t&) override { refuse_value("binary"); }

  bool start_object(std::size_t) override {
    if (at_ == At::kStart) {
      at_ = At::kRoot;
    } else if (at_ == At::kRoot) {
      at_ = key_ == kMetadataKey ? At::kMetadata : At::kEntry;
      keys_inside_.clear();
    } else {
      refuse_value("an object");
    }
    return true;
  }
  bool key(string_t& name) override {
    if (at_ == At::kRoot) {
      if (!keys_.insert(name).second) refuse_repeated(name);
      key_ = name;
      tensor_ = TensorInfo{.name = name, .dtype = DType::kU8, .shape = {}, .offset = 0, .bytes = 0};
      offsets_.clear();
      return true;
    }
    if (!keys_inside_.insert(name).second) refuse_repeated(name);
    field_ = name;
    if (at_ == At::kEntry && name != "dtype" && name != "shape" && name != "data_offsets") {
      refuse_tensor(fmt::format("unknown field {}", shown(name)),
                    "an entry has dtype, shape and data_offsets");
    }
    return true;
  }
  bool end_object() override {
    if (at_ == At::kEntry) finish_tensor();
    at_ = At::kRoot;
    return true;
  }
  bool start_array(std::size_t) override {
    if (at_ != At::kEntry || field_ == "dtype") refuse_value("a list");
    at_ = At::kNumbers;
    numbers_.clear();
    return true;
  }
  bool end_array() override {
    at_ = At::kEntry;
    (field_ == "shape" ? tensor_.shape : offsets_) = numbers_;
    return true;
  }
  bool parse_error(std::size_t, const std::string&,
                   const nlohmann::detail::exception& error) override {
    refuse(fmt::format("header is not JSON: {}", error.what()), "it must be one JSON object");
  }

 private:
  enum class At : std::uint8_t { kStart, kRoot, kMetadata, kEntry, kNumbers };

  [[noreturn]] void refuse(std::string_view what, std::string_view rule) const {
    throw ResourceError(
        fmt::format("[checkpoint] {}: {}; {}; {}", place_.name, what, rule, kRemedy));
  }
  [[noreturn]] void refuse_tensor(std::string_view what, std::string_view rule) const {
    refuse(fmt::format("tensor {}: {}", shown(key_), what), rule);
  }
  [[noreturn]] void refuse_repeated(std::string_view name) const {
    if (at_ == At::kRoot) {
      refuse(fmt::format("key {} appears twice", shown(name)), "a tensor name may appear once");
    }
    refuse(fmt::format("key {} appears twice in the entry {}", shown(name), shown(key_)),
           "a key may appear once");
  }
  [[noreturn]] void refuse_value(std::string_view value,
                                 std::string_view rule =
                                     "a header maps names to {dtype, shape, data_offsets} and "
                                     "__metadata__ to texts") const {
    if (key_.empty() && keys_.empty()) refuse(fmt::format("header holds {}", value), rule);
    const bool is_inside = at_ != At::kStart && at_ != At::kRoot;
    refuse_tensor(
        is_inside ? fmt::format("{} holds {}", shown(field_), value) : fmt::format("is {}", value),
        rule);
  }

  void finish_tensor() {
    for (const char* field : {"dtype", "shape", "data_offsets"}) {
      if (!keys_inside_.contains(field)) {
        refuse_tensor(fmt::format("has no {}", field),
                      "dtype, shape and data_offsets are required");
      }
    }
    const auto bytes = tensor_bytes(tensor_.dtype, tensor_.shape);
    if (!bytes) {
      refuse_tensor(fmt::format("shape [{}]", fmt::join(tensor_.shape, ",")),
                    "its size in bytes must be below 2^63");
    }
    const std::int64_t data_bytes = place_.file_bytes - place_.data_offset;
    const auto offsets_text = fmt::format("data_offsets [{}]", fmt::join(offsets_, ","));
    if (offsets_.size() != 2) refuse_tensor(offsets_text, "they are two: begin and end");
    if (offsets_[0] > offsets_[1]) refuse_tensor(offsets_text, "begin must not be after end");
    if (offsets_[1] > data_bytes) {
      refuse_tensor(offsets_text, fmt::format("the file holds {} bytes of data", data_bytes));
    }
    if (offsets_[1] - offsets_[0] != *bytes) {
      refuse_tensor(fmt::format("{} are {} bytes", offsets_text, offsets_[1] - offsets_[0]),
                    fmt::format("{} [{}] takes {} bytes", name_of(tensor_.dtype),
                                fmt::join(tensor_.shape, ","), *bytes));
    }
    tensor_.offset = place_.data_offset + offsets_[0];
    tensor_.bytes = *bytes;
    header.tensors.push_back(std::move(tensor_));
  }

  const HeaderPlace& place_;
  At at_ = At::kStart;
  std::string key_;  ///< of the root object
  std::string field_;
  TensorInfo tensor_;
  std::vector<std::int64_t> offsets_;
  std::vector<std::int64_t> numbers_;
  std::set<std::string, std::less<>> keys_;
  std::set<std::string, std::less<>> keys_inside_;
};

/// Tensors must tile the data: no holes (they could hide another file), no overlaps.
void check_tiling(const std::vector<TensorInfo>& tensors, const HeaderPlace& place) {
  std::int64_t next = place.data_offset;
  for (const TensorInfo& tensor : tensors) {
    if (tensor.offset != next) {
      throw ResourceError(fmt::format(
          "[checkpoint] {}: tensor {}: data begins at {}, the data before it ends at {}; tensors "
          "must follow each other without holes and overlaps; {}",
          place.name, shown(tensor.name), tensor.offset - place.data_offset,
          next - place.data_offset, kRemedy));
    }
    next += tensor.bytes;
  }
  if (next != place.file_bytes) {
    throw ResourceError(fmt::format(
        "[checkpoint] {}: {} bytes of data, its tensors take {}; no byte may belong to no tensor; "
        "{}",
        place.name, place.file_bytes - place.data_offset, next - place.data_offset, kRemedy));
  }
}

std::string encoded_text(std::string_view text) {
  try {
    return Json(text).dump();
  } catch (const Json::type_error&) {
    throw UsageError(
        fmt::format("[checkpoint] text {} is not UTF-8; names and metadata are UTF-8; "
                    "correct it",
                    shown(text)));
  }
}

/// In file order, offsets counted from the first byte of data.
std::vector<TensorInfo> place_tensors(std::vector<TensorSpec> specs) {
  std::sort(specs.begin(), specs.end(), [](const TensorSpec& a, const TensorSpec& b) {
    return std::tuple(-dtype_bytes(a.dtype), std::string_view(a.name)) <
           std::tuple(-dtype_bytes(b.dtype), std::string_view(b.name));
  });
  std::set<std::string, std::less<>> names;
  std::vector<TensorInfo> tensors;
  std::int64_t end = 0;
  for (TensorSpec& spec : specs) {
    if (spec.name == kMetadataKey || !names.insert(spec.name).second) {
      throw UsageError(
          fmt::format("[checkpoint] tensor {} is {}; names must differ from each "
                      "other and from __metadata__; rename it",
                      shown(spec.name), spec.name == kMetadataKey ? "reserved" : "given twice"));
    }
    const auto bytes = tensor_bytes(spec.dtype, spec.shape);
    const std::int64_t offset = end;
    if (!bytes || spec.shape.size() > kMaxDims || __builtin_add_overflow(end, *bytes, &end)) {
      throw UsageError(
          fmt::format("[checkpoint] tensor {}: shape [{}]; sizes must be >= 0, at most "
                      "64 of them, and the file below 2^63 bytes; correct it",
                      shown(spec.name), fmt::join(spec.shape, ",")));
    }
    tensors.push_back({.name = std::move(spec.name),
                       .dtype = spec.dtype,
                       .shape = std::move(spec.shape),
                       .offset = offset,
                       .bytes = *bytes});
  }
  return tensors;
}

std::string header_json(const std::vector<TensorInfo>& tensors, const TensorMetadata& metadata) {
  std::vector<std::string> entries;
  if (!metadata.empty()) {
    std::vector<std::string> texts;
    for (const auto& [key, value] : metadata) {
      texts.push_back(encoded_text(key) + ":" + encoded_text(value));
    }
    entries.push_back(fmt::format("\"{}\":{{{}}}", kMetadataKey, fmt::join(texts, ",")));
  }
  for (const TensorInfo& tensor : tensors) {
    entries.push_back(fmt::format("{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                                  encoded_text(tensor.name), name_of(tensor.dtype),
                                  fmt::join(tensor.shape, ","), tensor.offset,
                                  tensor.offset + tensor.bytes));
  }
  return fmt::format("{{{}}}", fmt::join(entries, ","));
}

}  // namespace

SafetensorsHeader parse_header(std::string_view json, const HeaderPlace& place) {
  // The JSON parser would skip leading space and take a NUL for the end of the input.
  if (!json.starts_with('{')) {
    throw ResourceError(
        fmt::format("[checkpoint] {}: header of {} bytes starts with {}; it must "
                    "start with '{{'; {}",
                    place.name, json.size(), shown(json.substr(0, 1)), kRemedy));
  }
  if (const auto nul = json.find('\0'); nul != std::string_view::npos) {
    throw ResourceError(
        fmt::format("[checkpoint] {}: NUL byte at offset {} of the header; headers "
                    "are padded with spaces; {}",
                    place.name, nul, kRemedy));
  }
  HeaderHandler handler(place);
  Json::sax_parse(json, &handler);
  auto& tensors = handler.header.tensors;
  std::sort(tensors.begin(), tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
    return std::tie(a.offset, a.bytes, a.name) < std::tie(b.offset, b.bytes, b.name);
  });
  check_tiling(tensors, place);
  return std::move(handler.header);
}

EncodedHeader encode_header(std::vector<TensorSpec> specs, const TensorMetadata& metadata) {
  constexpr std::int64_t kLengthBytes = 8;
  EncodedHeader encoded;
  encoded.tensors = place_tensors(std::move(specs));
  std::string json = header_json(encoded.tensors, metadata);
  const std::int64_t json_bytes = round_up(std::ssize(json), 8);
  if (json_bytes > kMaxHeaderBytes) {
    throw UsageError(
        fmt::format("[checkpoint] header of {} bytes; readers refuse more than {}; "
                    "write fewer tensors or less metadata to a file",
                    json_bytes, kMaxHeaderBytes));
  }
  json.resize(static_cast<std::size_t>(json_bytes), ' ');
  for (int byte = 0; byte < kLengthBytes; ++byte) {
    encoded.bytes.push_back(static_cast<char>((json_bytes >> (8 * byte)) & 0xFF));
  }
  encoded.bytes += json;
  encoded.file_bytes = std::ssize(encoded.bytes);
  for (TensorInfo& tensor : encoded.tensors) {
    tensor.offset += std::ssize(encoded.bytes);
    encoded.file_bytes += tensor.bytes;
  }
  return encoded;
}

}  // namespace trireme
