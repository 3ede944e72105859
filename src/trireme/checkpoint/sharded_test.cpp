// Model folders with an index of shards, the index from anywhere.
#include <string>

#include <gtest/gtest.h>

#include "trireme/base/errors.h"
#include "trireme/base/test_files.h"
#include "trireme/checkpoint/safetensors.h"
#include "trireme/checkpoint/safetensors_bytes.h"

namespace trireme {
namespace {

std::string one_byte_tensor(const std::string& name, const std::string& byte) {
  return safetensors_bytes("{\"" + name + R"(":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
                           byte);
}

class Sharded : public testing::Test {
 protected:
  Sharded() : folder_(files_.path() / "model") {
    std::filesystem::create_directory(folder_);
    files_.write("model/s1.safetensors", one_byte_tensor("a", "A"));
    files_.write("model/s2.safetensors", one_byte_tensor("b", "B"));
    files_.write("x.safetensors", one_byte_tensor("a", "X"));
  }

  void write_index(const std::string& weight_map) const {
    files_.write("model/model.safetensors.index.json",
                 R"({"metadata":{"total_size":2},"weight_map":)" + weight_map + "}");
  }
  /// Of an index that maps "a" to this JSON value.
  [[nodiscard]] std::string error_of(const std::string& value) const {
    write_index("{\"a\":" + value + "}");
    return message_of<ResourceError>([&] { ShardedReader{folder_}; });
  }
  [[nodiscard]] static std::string read(const ShardedReader& reader, std::string_view name) {
    std::string byte = ".";
    reader.read(name, std::as_writable_bytes(std::span(byte)));
    return byte;
  }

  TestFolder files_;
  std::filesystem::path folder_;
};

TEST_F(Sharded, TensorsComeFromTheirShards) {
  write_index(R"({"b":"s2.safetensors","a":"s1.safetensors"})");
  const ShardedReader reader(folder_);
  EXPECT_EQ(reader.names(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(read(reader, "a"), "A");
  EXPECT_EQ(read(reader, "b"), "B");
  EXPECT_EQ(reader.find("c"), std::nullopt);
}

TEST_F(Sharded, ASingleFileNeedsNoIndex) {
  files_.write("model/model.safetensors", one_byte_tensor("c", "C"));
  EXPECT_EQ(read(ShardedReader(folder_), "c"), "C");
}

TEST_F(Sharded, AFolderWithoutAModelIsAUsageError) {
  EXPECT_CONTAINS(message_of<UsageError>([&] { ShardedReader{folder_}; }),
                  "has neither model.safetensors nor model.safetensors.index.json");
}

TEST_F(Sharded, RefusesAPathUpwards) {
  EXPECT_CONTAINS(error_of(R"("../x.safetensors")"),
                  "weight_map \"a\": file name \"../x.safetensors\" is no plain name");
}

TEST_F(Sharded, RefusesAnAbsolutePath) {
  EXPECT_CONTAINS(error_of(R"("/etc/passwd")"), "\"/etc/passwd\" is no plain name");
}

TEST_F(Sharded, RefusesAPathDownAndUp) {
  EXPECT_CONTAINS(error_of(R"("a/../../x")"), "\"a/../../x\" is no plain name");
}

TEST_F(Sharded, RefusesAnEmptyName) {
  EXPECT_CONTAINS(error_of(R"("")"), "\"\" is no plain");
}

TEST_F(Sharded, RefusesTheParentFolder) {
  EXPECT_CONTAINS(error_of(R"("..")"), "no plain name");
}

TEST_F(Sharded, RefusesANulInside) {
  EXPECT_CONTAINS(error_of("\"s1.safetensors\\u0000x\""), "s1.safetensors\\u0000x\" is no plain");
}

TEST_F(Sharded, RefusesANumberInPlaceOfAName) {
  EXPECT_CONTAINS(error_of("7"), "weight_map: \"a\" is a number; it must be text");
}

TEST_F(Sharded, RefusesALinkOutOfTheFolder) {
  std::filesystem::create_symlink("../x.safetensors", folder_ / "link.safetensors");
  EXPECT_CONTAINS(error_of(R"("link.safetensors")"), "outside the folder");
}

TEST_F(Sharded, FollowsALinkInsideTheFolder) {
  std::filesystem::create_symlink("s1.safetensors", folder_ / "link.safetensors");
  write_index(R"({"a":"link.safetensors"})");
  EXPECT_EQ(read(ShardedReader(folder_), "a"), "A");
}

TEST_F(Sharded, NamesAMissingShard) {
  EXPECT_CONTAINS(error_of(R"("s3.safetensors")"), "s3.safetensors: cannot be opened");
}

TEST_F(Sharded, NamesATensorThatItsShardLacks) {
  EXPECT_CONTAINS(error_of(R"("s2.safetensors")"), "s2.safetensors: no tensor \"a\"");
}

TEST_F(Sharded, NamesATensorMappedTwice) {
  write_index(R"({"a":"s1.safetensors","a":"s2.safetensors"})");
  EXPECT_CONTAINS(message_of<ResourceError>([&] { ShardedReader{folder_}; }),
                  "key \"a\" appears twice");
}

TEST_F(Sharded, RefusesAnIndexWithoutAWeightMap) {
  files_.write("model/model.safetensors.index.json", "{}");
  EXPECT_CONTAINS(message_of<ResourceError>([&] { ShardedReader{folder_}; }),
                  "has no \"weight_map\"");
}

}  // namespace
}  // namespace trireme
