#include "trireme/base/dtype.h"

#include <array>
#include <cstddef>

namespace trireme {
namespace {

struct DTypeRow {
  std::string_view name;
  std::int64_t bytes;
};

constexpr std::array<DTypeRow, 6> kDTypes = {
    {{"f32", 4}, {"bf16", 2}, {"f64", 8}, {"i32", 4}, {"i64", 8}, {"u8", 1}}};

}  // namespace

std::int64_t dtype_bytes(DType dtype) {
  return kDTypes.at(static_cast<std::size_t>(dtype)).bytes;
}

std::string_view dtype_name(DType dtype) {
  return kDTypes.at(static_cast<std::size_t>(dtype)).name;
}

std::optional<DType> parse_dtype(std::string_view name) {
  for (std::size_t i = 0; i < kDTypes.size(); ++i) {
    if (kDTypes.at(i).name == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

}  // namespace trireme
