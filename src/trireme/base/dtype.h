// Element types of tensors in memory and in files.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace trireme {

/// `kU8` also serves as "raw bytes".
enum class DType : std::uint8_t { kF32, kBf16, kF64, kI32, kI64, kU8 };

/// Bytes of one element.
[[nodiscard]] std::int64_t dtype_bytes(DType dtype);

/// "f32", "bf16", "f64", "i32", "i64", "u8".
[[nodiscard]] std::string_view dtype_name(DType dtype);

/// Inverse of dtype_name; nothing for an unknown name.
[[nodiscard]] std::optional<DType> parse_dtype(std::string_view name);

}  // namespace trireme
