// The JSON header of a safetensors file, as text and as values. Private to the layer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/checkpoint/safetensors.h"

namespace trireme {

struct SafetensorsHeader {
  std::vector<TensorInfo> tensors;  ///< in the order of their data
  TensorMetadata metadata;
};

/// Where a header stands; `name` starts the messages.
struct HeaderPlace {
  std::string name;
  std::int64_t data_offset = 0;  ///< first byte after the header
  std::int64_t file_bytes = 0;
};

/// Checks all that the reference reader checks (tensor.rs, Metadata::validate) and refuses repeated
/// keys and unknown fields. Throws ResourceError naming the tensor and the reason.
[[nodiscard]] SafetensorsHeader parse_header(std::string_view json, const HeaderPlace& place);

struct EncodedHeader {
  std::string bytes;                ///< length, JSON and spaces: a multiple of 8
  std::vector<TensorInfo> tensors;  ///< in the order of their data
  std::int64_t file_bytes = 0;
};

/// Throws UsageError as SafetensorsWriter's constructor does.
[[nodiscard]] EncodedHeader encode_header(std::vector<TensorSpec> specs,
                                          const TensorMetadata& metadata);

}  // namespace trireme
