// Text files as tokens, each split into a training and a validation part.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace trireme {

/// Vocabulary of tokenizer "bytes": one token per byte, its id the byte's value.
inline constexpr std::int64_t kBytesVocab = 256;

enum class Split : std::uint8_t { kTrain, kValidation };

/// The tokens of a list of UTF-8 text files (tokenizer "bytes"), held in memory once: about as many
/// bytes as the text. A byte-order mark at a file's start is dropped; all else, line ends included,
/// is kept as it is. The last floor(val_fraction * tokens) tokens of each file are its validation
/// part, the rest its training part. Immutable, so that all rank threads may share one.
class Corpus {
 public:
  /// Throws UsageError for an empty list, a val_fraction outside [0, 1), a path that is missing or
  /// no regular file, a file without text, with a NUL byte or with invalid UTF-8 (naming the byte
  /// offset in the file); ResourceError if a file cannot be opened or read.
  Corpus(std::vector<std::string> paths, double val_fraction);

  [[nodiscard]] int num_files() const { return static_cast<int>(files_.size()); }
  [[nodiscard]] const std::string& path(int file) const;
  [[nodiscard]] std::int64_t num_tokens(int file, Split split) const;
  /// Over all files.
  [[nodiscard]] std::int64_t num_tokens(Split split) const;
  /// Copies the tokens [first, first + out.size()) of one file's part; they must exist.
  void read(int file, Split split, std::int64_t first, std::span<std::int32_t> out) const;

 private:
  struct File {
    std::string path;
    std::vector<std::uint8_t> bytes;  ///< may start with the byte-order mark
    std::int64_t begin = 0;           ///< of the training part, in `bytes`
    std::int64_t split = 0;           ///< of the validation part, in `bytes`
  };
  static File load(std::string path, double val_fraction);

  std::vector<File> files_;
};

}  // namespace trireme
