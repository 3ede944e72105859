#include "trireme/checkpoint/safetensors.h"

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "trireme/base/errors.h"
#include "trireme/base/test_files.h"
#include "trireme/checkpoint/safetensors_bytes.h"

namespace trireme {
namespace {

template <typename T>
std::vector<T> values_of(const SafetensorsReader& reader, std::string_view name) {
  std::vector<T> values(static_cast<std::size_t>(reader.at(name).bytes) / sizeof(T));
  reader.read(name, std::as_writable_bytes(std::span(values)));
  return values;
}

std::string open_error(const std::string& path) {
  return message_of<ResourceError>([&] { SafetensorsReader{path}; });
}

std::string open_error_of(std::string_view bytes) {
  const TestFolder folder;
  return open_error(folder.write("m.safetensors", bytes));
}

TEST(Safetensors, WrittenTensorsReadBack) {
  const TestFolder folder;
  const std::filesystem::path path = folder.path() / "m.safetensors";
  const std::vector<float> w = {1.5F, -2.0F, 0.1F, 4.0F};
  const std::vector<std::uint8_t> u = {1, 2, 3};
  SafetensorsWriter writer(path,
                           {{.name = "u", .dtype = DType::kU8, .shape = {3}},
                            {.name = "none", .dtype = DType::kF32, .shape = {0, 7}},
                            {.name = "w", .dtype = DType::kF32, .shape = {2, 2}}},
                           {{"format", "pt"}});
  writer.write("w", std::as_bytes(std::span(w).first(3)));
  writer.write("w", std::as_bytes(std::span(w).last(1)));
  writer.write("u", std::as_bytes(std::span(u)));
  const FileDigest digest = writer.finish();
  EXPECT_EQ(digest, digest_of(path));
  EXPECT_EQ(digest.bytes,
            SafetensorsWriter::file_bytes({{.name = "u", .dtype = DType::kU8, .shape = {3}},
                                           {.name = "none", .dtype = DType::kF32, .shape = {0, 7}},
                                           {.name = "w", .dtype = DType::kF32, .shape = {2, 2}}},
                                          {{"format", "pt"}}));
  const SafetensorsReader reader(path);
  EXPECT_EQ(reader.tensors(), writer.tensors());
  EXPECT_EQ(values_of<float>(reader, "w"), w);
  EXPECT_EQ(values_of<std::uint8_t>(reader, "u"), u);
  EXPECT_EQ(reader.metadata(), (TensorMetadata{{"format", "pt"}}));
}

TEST(Safetensors, ReadsTheSmallestFile) {
  const TestFolder folder;
  const SafetensorsReader reader(folder.write("m", std::string("\x08\0\0\0\0\0\0\0{}      ", 16)));
  EXPECT_TRUE(reader.tensors().empty());
}

TEST(Safetensors, ReadsUnalignedData) {
  const TestFolder folder;
  std::string data = "\x01\x02\x03";
  const float value = 1.25F;
  data.append(reinterpret_cast<const char*>(&value), sizeof value);
  const SafetensorsReader reader(folder.write(
      "m", safetensors_bytes(R"({"u":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},)"
                             R"("w":{"dtype":"F32","shape":[1],"data_offsets":[3,7]}})",
                             data)));
  EXPECT_EQ(values_of<float>(reader, "w"), std::vector<float>{1.25F});
}

TEST(Safetensors, ReadsAPieceOfATensor) {
  const TestFolder folder;
  const SafetensorsReader reader(folder.write(
      "m",
      safetensors_bytes(R"({"u":{"dtype":"U8","shape":[6],"data_offsets":[0,6]}})", "abcdef")));
  std::string piece = "...";
  reader.read_range("u", 2, std::as_writable_bytes(std::span(piece)));
  EXPECT_EQ(piece, "cde");
  EXPECT_THROW(reader.read_range("u", 4, std::as_writable_bytes(std::span(piece))), InternalError);
}

TEST(Safetensors, ReadsBeyond4GiB) {
  const TestFolder folder;
  const std::string header =
      R"({"big":{"dtype":"U8","shape":[5000000000],"data_offsets":[0,5000000000]},)"
      R"("w":{"dtype":"U8","shape":[2],"data_offsets":[5000000000,5000000002]}})";
  const std::string path = folder.write("m", safetensors_bytes(header, ""));
  std::filesystem::resize_file(path, 8 + header.size() + 5'000'000'000);  // sparse
  std::ofstream(path, std::ios::binary | std::ios::app) << "hi";
  const SafetensorsReader reader(path);
  EXPECT_EQ(values_of<char>(reader, "w"), (std::vector<char>{'h', 'i'}));
  std::array<std::byte, 1> last{std::byte{1}};
  reader.read_range("big", 4'999'999'999, last);
  EXPECT_EQ(last[0], std::byte{0});
}

TEST(Safetensors, NamesATensorThatIsNotThere) {
  const TestFolder folder;
  const SafetensorsReader reader(folder.write("m", safetensors_bytes("{}", "")));
  EXPECT_EQ(reader.find("w"), std::nullopt);
  EXPECT_CONTAINS(message_of<ResourceError>([&] { static_cast<void>(reader.at("w")); }),
                  "no tensor \"w\"");
}

TEST(Safetensors, AMissingFileIsNamed) {
  EXPECT_CONTAINS(open_error("/no/such.safetensors"), "/no/such.safetensors: cannot be opened");
}

TEST(Safetensors, RefusesAnEmptyFile) {
  EXPECT_CONTAINS(open_error_of(""), ": 0 bytes; ");
}

TEST(Safetensors, RefusesSevenBytes) {
  EXPECT_CONTAINS(open_error_of("1234567"), ": 7 bytes; ");
}

TEST(Safetensors, RefusesALengthWithoutAHeader) {
  EXPECT_CONTAINS(open_error_of(little_endian(2)), "within the 0 bytes that follow");
}

TEST(Safetensors, RefusesALengthOf2To64Minus1) {
  EXPECT_CONTAINS(open_error_of(little_endian(~std::uint64_t{0}) + "{}"),
                  "header length 18446744073709551615");
}

TEST(Safetensors, RefusesALengthOf2To63) {
  EXPECT_CONTAINS(open_error_of(little_endian(std::uint64_t{1} << 63) + "{}"),
                  "header length 9223372036854775808");
}

TEST(Safetensors, RefusesALengthBeyondTheLimitThoughTheFileIsAsLong) {
  const TestFolder folder;
  const std::string path = folder.write("m", little_endian(100'000'001) + "{");
  std::filesystem::resize_file(path, 200'000'000);
  EXPECT_CONTAINS(open_error(path), "header length 100000001; it must be at least 1, at most 1000");
}

TEST(Safetensors, RefusesALengthOneBeyondTheFile) {
  EXPECT_CONTAINS(open_error_of(little_endian(3) + "{}"), "header length 3");
}

TEST(Safetensors, RefusesALengthOfZero) {
  EXPECT_CONTAINS(open_error_of(little_endian(0) + "{}"), "header length 0");
}

TEST(Safetensors, RefusesALengthOfOne) {
  EXPECT_CONTAINS(open_error_of(little_endian(1) + "{}"), "header is not JSON");
}

const std::string& small_file() {
  static const std::string bytes =
      safetensors_bytes(R"({"__metadata__":{"a":"b"},)"
                        R"("w":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},)"
                        R"("v":{"dtype":"BF16","shape":[],"data_offsets":[8,10]}}  )",
                        "0123456789");
  return bytes;
}

TEST(Safetensors, AFileCutAnywhereIsRefused) {
  const TestFolder folder;
  for (std::size_t length = 0; length < small_file().size(); ++length) {
    SCOPED_TRACE(length);
    const std::string path = folder.write("m", std::string_view(small_file()).substr(0, length));
    EXPECT_THROW(SafetensorsReader{path}, ResourceError);
  }
}

// A changed byte may make another valid file, but never anything but a ResourceError.
TEST(Safetensors, AFileChangedInOneByteIsReadOrRefused) {
  const TestFolder folder;
  for (std::size_t at = 0; at < small_file().size(); ++at) {
    for (const char byte : {'\0', '"', '{', '}', '[', '9', '-', '.', '\\', '\xFF'}) {
      SCOPED_TRACE(at);
      std::string bytes = small_file();
      bytes[at] = byte;
      const std::string path = folder.write("m", bytes);
      try {
        const SafetensorsReader reader(path);
        for (const TensorInfo& tensor : reader.tensors()) values_of<char>(reader, tensor.name);
      } catch (const ResourceError&) {
      }
    }
  }
}

std::vector<TensorSpec> two_specs() {
  return {{.name = "a", .dtype = DType::kU8, .shape = {2}},
          {.name = "b", .dtype = DType::kU8, .shape = {2}}};
}

TEST(Safetensors, WritingOutOfOrderIsRefused) {
  const TestFolder folder;
  SafetensorsWriter writer(folder.path() / "m", two_specs());
  EXPECT_CONTAINS(message_of<UsageError>([&] { writer.write("b", {}); }),
                  "data of tensor \"b\" where \"a\" is due");
}

TEST(Safetensors, WritingTooMuchIsRefused) {
  const TestFolder folder;
  SafetensorsWriter writer(folder.path() / "m", two_specs());
  EXPECT_CONTAINS(
      message_of<UsageError>([&] { writer.write("a", std::as_bytes(std::span("abc", 3))); }),
      "tensor \"a\": 3 bytes where 2 of 2 are missing");
}

TEST(Safetensors, FinishingEarlyIsRefusedAndTheFileRemoved) {
  const TestFolder folder;
  {
    SafetensorsWriter writer(folder.path() / "m", two_specs());
    writer.write("a", std::as_bytes(std::span("abc", 1)));
    EXPECT_CONTAINS(message_of<UsageError>([&] { writer.finish(); }),
                    "tensor \"a\": 1 of 2 bytes written");
    EXPECT_TRUE(std::filesystem::exists(folder.path() / "m"));
  }
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "m"));
}

TEST(Safetensors, WritingNeverTouchesAFileThatExists) {
  const TestFolder folder;
  const std::string path = folder.write("m", "mine");
  EXPECT_CONTAINS(message_of<ResourceError>([&] { SafetensorsWriter(path, {}); }), "File exists");
  EXPECT_EQ(read_text(path, 10), "mine");
}

}  // namespace
}  // namespace trireme
