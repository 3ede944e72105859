#include "trireme/checkpoint/file.h"

#include <array>
#include <string>
#include <sys/stat.h>

#include <gtest/gtest.h>

#include "trireme/base/errors.h"
#include "trireme/base/test_files.h"
#include "trireme/checkpoint/child_path.h"
#include "trireme/checkpoint/json_text.h"

namespace trireme {
namespace {

// Test values of the xxHash specification's reference implementation for seed 0.
TEST(Xxh64, OfNothingIsTheReferenceValue) {
  EXPECT_EQ(xxh64_hex(""), "ef46db3751d8e999");
}

TEST(Xxh64, OfAbcIsTheReferenceValue) {
  EXPECT_EQ(xxh64_hex("abc"), "44bc2cf5ad770999");
}

TEST(File, DigestOfAWrittenFileIsTheOneComputedWhileWriting) {
  const TestFolder folder;
  const std::string text(3'000'001, 'x');  // more than two pieces of digest_of
  const FileDigest written = write_text(folder.path() / "a", text);
  EXPECT_EQ(written.bytes, 3'000'001);
  EXPECT_EQ(digest_of(folder.path() / "a"), written);
  EXPECT_EQ(read_text(folder.path() / "a", 4'000'000), text);
}

TEST(File, NeverOverwrites) {
  const TestFolder folder;
  const std::string path = folder.write("a", "old");
  EXPECT_CONTAINS(message_of<ResourceError>([&] { write_text(path, "new"); }), "File exists");
  EXPECT_EQ(read_text(path, 10), "old");
}

TEST(File, ErrorsSayWhatTheFileIsOf) {
  const TestFolder folder;
  const std::filesystem::path path = folder.path() / "none" / "a";
  const auto of_reading = [&](auto... where) {
    return message_of<ResourceError>([&] { static_cast<void>(read_text(path, 10, where...)); });
  };
  const auto of_writing = [&](auto... where) {
    return message_of<ResourceError>([&] { write_text(path, "", where...); });
  };
  for (const std::string& message : {of_reading(), of_writing()})
    EXPECT_EQ(message.rfind("[checkpoint] ", 0), 0U) << message;
  for (const std::string& message : {of_reading(kPlainFile), of_writing(kPlainFile)})
    EXPECT_EQ(message.rfind("[file] ", 0), 0U) << message;
}

TEST(File, ReadingPastTheEndNamesThePlace) {
  const TestFolder folder;
  const File file = File::open(folder.write("a", "12345"));
  std::array<std::byte, 4> out{};
  EXPECT_CONTAINS(message_of<ResourceError>([&] { file.read(3, out); }),
                  "ends at byte 5, 2 of 4 bytes short");
}

TEST(File, APipeInPlaceOfAFileIsRefusedAndDoesNotBlock) {
  const TestFolder folder;
  const std::filesystem::path path = folder.path() / "pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_CONTAINS(message_of<ResourceError>([&] { static_cast<void>(File::open(path)); }),
                  "no regular file");
}

TEST(File, AFolderInPlaceOfAFileIsNamed) {
  const TestFolder folder;
  EXPECT_CONTAINS(message_of<ResourceError>([&] { static_cast<void>(File::open(folder.path())); }),
                  "is a folder");
}

TEST(File, TextBeyondTheLimitIsNotRead) {
  const TestFolder folder;
  const std::string path = folder.write("a", "12345");
  EXPECT_CONTAINS(message_of<ResourceError>([&] { static_cast<void>(read_text(path, 4)); }),
                  "5 bytes; at most 4");
}

std::string json_error(std::string_view text) {
  return message_of<ResourceError>([&] { static_cast<void>(parse_json_object(text, "x.json")); });
}

TEST(JsonText, NamesARepeatedKey) {
  EXPECT_CONTAINS(json_error(R"({"a":{"w":1,"w":1}})"), "[checkpoint] x.json: key \"w\" appears");
}

TEST(JsonText, EqualKeysOfDifferentObjectsAreFine) {
  EXPECT_EQ(parse_json_object(R"({"a":{"w":1},"b":[{"w":2},{"w":3}]})", "x").size(), 2U);
}

TEST(JsonText, RefusesWhatFollowsANulByte) {
  EXPECT_CONTAINS(json_error(std::string_view("{}\0{}", 5)), "NUL byte at offset 2");
}

TEST(JsonText, RefusesDeepNesting) {
  EXPECT_CONTAINS(json_error("{\"a\":" + std::string(100'000, '[')), "nested deeper than 64");
}

TEST(JsonText, RefusesAListAsRoot) {
  EXPECT_CONTAINS(json_error("[1]"), "a JSON array");
}

TEST(JsonText, RefusesTextThatIsCut) {
  EXPECT_CONTAINS(json_error("{\"a\":1"), "not JSON");
}

TEST(JsonText, ShownTextIsHarmlessOnATerminal) {
  EXPECT_EQ(shown("a\x1b[31m\"\xFF"), "\"a\\u001b[31m\\\"\\ufffd\"");
}

}  // namespace
}  // namespace trireme
