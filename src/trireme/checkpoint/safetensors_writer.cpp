#include <cstddef>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "trireme/base/errors.h"
#include "trireme/base/units.h"
#include "trireme/checkpoint/json_text.h"
#include "trireme/checkpoint/safetensors.h"
#include "trireme/checkpoint/safetensors_header.h"
#include "trireme/checkpoint/xxh64.h"

namespace trireme {

struct SafetensorsWriter::State {
  File file;
  EncodedHeader header;
  Xxh64 hash{};
  std::size_t tensor = 0;          ///< index of the one being written
  std::int64_t written_bytes = 0;  ///< of that one
  bool is_finished = false;

  void append(std::span<const std::byte> bytes) {
    file.write(bytes);
    hash.update(bytes);
  }
  void skip_complete() {
    while (tensor < header.tensors.size() && header.tensors[tensor].bytes == written_bytes) {
      ++tensor;
      written_bytes = 0;
    }
  }
};

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path,
                                     std::vector<TensorSpec> specs,
                                     const TensorMetadata& metadata) {
  EncodedHeader header = encode_header(std::move(specs), metadata);
  state_.reset(new State{.file = File::create(path), .header = std::move(header)});
  state_->append(std::as_bytes(std::span(state_->header.bytes)));
  state_->skip_complete();
}

SafetensorsWriter::SafetensorsWriter(SafetensorsWriter&&) noexcept = default;

SafetensorsWriter::~SafetensorsWriter() {
  if (state_ == nullptr || state_->is_finished) return;
  std::error_code ignored;
  std::filesystem::remove(state_->file.path(), ignored);
}

std::int64_t SafetensorsWriter::file_bytes(std::vector<TensorSpec> specs,
                                           const TensorMetadata& metadata) {
  return encode_header(std::move(specs), metadata).file_bytes;
}

const std::vector<TensorInfo>& SafetensorsWriter::tensors() const {
  return state_->header.tensors;
}

void SafetensorsWriter::write(std::string_view name, std::span<const std::byte> piece) {
  const std::string where = state_->file.path().string();
  const bool is_full = state_->tensor == state_->header.tensors.size();
  if (is_full || state_->header.tensors[state_->tensor].name != name) {
    throw UsageError(fmt::format(
        "[checkpoint] {}: data of tensor {} where {} is due; data comes in the order of tensors(); "
        "write in that order",
        where, shown(name), is_full ? "nothing" : shown(tensors()[state_->tensor].name)));
  }
  const std::int64_t bytes = tensors()[state_->tensor].bytes;
  if (std::ssize(piece) > bytes - state_->written_bytes) {
    throw UsageError(
        fmt::format("[checkpoint] {}: tensor {}: {} bytes where {} of {} are missing; "
                    "pieces must add up to the tensor; correct the shape or the data",
                    where, shown(name), piece.size(), bytes - state_->written_bytes, bytes));
  }
  state_->append(piece);
  state_->written_bytes += std::ssize(piece);
  state_->skip_complete();
}

FileDigest SafetensorsWriter::finish() {
  if (state_->tensor != tensors().size()) {
    const TensorInfo& tensor = tensors()[state_->tensor];
    throw UsageError(fmt::format(
        "[checkpoint] {}: tensor {}: {} of {} bytes written; a file holds "
        "all its tensors; write the rest",
        state_->file.path().string(), shown(tensor.name), state_->written_bytes, tensor.bytes));
  }
  state_->file.sync();
  state_->is_finished = true;
  return {.bytes = state_->header.file_bytes, .xxh64 = state_->hash.hex()};
}

}  // namespace trireme
