#include "trireme/data/corpus.h"

#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "trireme/base/errors.h"
#include "trireme/base/test_files.h"
#include "trireme/data/utf8.h"

namespace trireme {
namespace {

using Tokens = std::vector<std::int32_t>;

Tokens all_tokens(const Corpus& corpus, int file, Split split) {
  Tokens tokens(static_cast<std::size_t>(corpus.num_tokens(file, split)));
  corpus.read(file, split, 0, tokens);
  return tokens;
}

std::string load_error(const std::string& path) {
  return message_of<UsageError>([&] { Corpus({path}, 0.0); });
}

TEST(Corpus, TokensAreTheBytesOfTheText) {
  const TestFolder folder;
  const Corpus corpus({folder.write("a.txt", "A\xC3\xA9\r\n")}, 0.0);
  EXPECT_EQ(all_tokens(corpus, 0, Split::kTrain), (Tokens{65, 0xC3, 0xA9, 13, 10}));
}

TEST(Corpus, DropsAByteOrderMarkAtTheStartOnly) {
  const TestFolder folder;
  const Corpus corpus({folder.write("a.txt",
                                    "\xEF\xBB\xBF"
                                    "a\xEF\xBB\xBF")},
                      0.0);
  EXPECT_EQ(all_tokens(corpus, 0, Split::kTrain), (Tokens{97, 0xEF, 0xBB, 0xBF}));
}

TEST(Corpus, HoldsOutTheEndOfEachFile) {
  const TestFolder folder;
  const Corpus corpus({folder.write("a.txt", "0123456789"), folder.write("b.txt", "abcd")}, 0.25);
  EXPECT_EQ(all_tokens(corpus, 0, Split::kTrain), (Tokens{'0', '1', '2', '3', '4', '5', '6', '7'}));
  EXPECT_EQ(all_tokens(corpus, 0, Split::kValidation), (Tokens{'8', '9'}));
  EXPECT_EQ(all_tokens(corpus, 1, Split::kValidation), (Tokens{'d'}));
  EXPECT_EQ(corpus.num_tokens(Split::kTrain), 11);
  EXPECT_EQ(corpus.num_tokens(Split::kValidation), 3);
}

TEST(Corpus, RefusesAnEmptyList) {
  EXPECT_CONTAINS(message_of<UsageError>([] { Corpus({}, 0.0); }), "[data] text = []");
}

TEST(Corpus, RefusesAValidationFractionOfOne) {
  EXPECT_CONTAINS(message_of<UsageError>([] { Corpus({"x"}, 1.0); }), "val_fraction = 1");
}

TEST(Corpus, RefusesAValidationFractionThatIsNoNumber) {
  EXPECT_THROW(Corpus({"x"}, std::numeric_limits<double>::quiet_NaN()), UsageError);
}

TEST(Corpus, NamesAMissingFile) {
  const std::string message = load_error("no/such.txt");
  EXPECT_CONTAINS(message, "\"no/such.txt\": no such file");
  EXPECT_CONTAINS(message, std::filesystem::current_path().string());
}

TEST(Corpus, NamesAFolderGivenAsAFile) {
  const TestFolder folder;
  EXPECT_CONTAINS(load_error(folder.path()), "is a folder");
}

TEST(Corpus, RefusesADevice) {
  EXPECT_CONTAINS(load_error("/dev/zero"), "is no regular file");
}

TEST(Corpus, NamesAnEmptyFile) {
  const TestFolder folder;
  EXPECT_CONTAINS(load_error(folder.write("a.txt", "")), "a.txt\": holds no text (0 bytes)");
}

TEST(Corpus, NamesAFileWithNothingButAByteOrderMark) {
  const TestFolder folder;
  EXPECT_CONTAINS(load_error(folder.write("a.txt", "\xEF\xBB\xBF")), "holds no text (3 bytes)");
}

TEST(Corpus, NamesTheOffsetOfANulByte) {
  const TestFolder folder;
  const std::string path = folder.write("a.bin", std::string_view("abc\0\xFF", 5));
  EXPECT_CONTAINS(load_error(path), "a.bin\": NUL byte at offset 3");
}

TEST(Corpus, NamesTheOffsetOfInvalidUtf8) {
  const TestFolder folder;
  const std::string path = folder.write("a.txt",
                                        "\xEF\xBB\xBF"
                                        "caf\xE9 au lait");
  EXPECT_CONTAINS(load_error(path), "byte 0xe9 at offset 6 is not UTF-8");
}

/// Root may read every file, so a test of rights runs as nobody while this lives.
class AsNobody {
 public:
  AsNobody() { EXPECT_TRUE(!was_root_ || ::seteuid(65534) == 0); }
  ~AsNobody() { EXPECT_TRUE(!was_root_ || ::seteuid(0) == 0); }
  AsNobody(const AsNobody&) = delete;
  AsNobody& operator=(const AsNobody&) = delete;

 private:
  bool was_root_ = ::geteuid() == 0;
};

TEST(Corpus, AnUnreadableFileIsAResourceError) {
  const TestFolder folder;
  const std::string path = folder.write("a.txt", "abc");
  ASSERT_EQ(::chmod(path.c_str(), 0), 0);
  const AsNobody nobody;
  EXPECT_CONTAINS(message_of<ResourceError>([&] { Corpus({path}, 0.0); }), "Permission denied");
}

TEST(Corpus, ReadingBeyondAPartIsABug) {
  const TestFolder folder;
  const Corpus corpus({folder.write("a.txt", "0123456789")}, 0.5);
  Tokens tokens(3);
  EXPECT_THROW(corpus.read(0, Split::kTrain, 3, tokens), InternalError);
}

std::optional<std::int64_t> invalid_at(std::string_view text) {
  return first_invalid_utf8({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
}

TEST(Utf8, AcceptsTheLongestAndShortestOfEachLength) {
  EXPECT_EQ(
      invalid_at("\x7F\xC2\x80\xDF\xBF\xE0\xA0\x80\xEF\xBF\xBF\xF0\x90\x80\x80\xF4\x8F\xBF\xBF"),
      std::nullopt);
}

TEST(Utf8, RefusesOverlongForms) {
  EXPECT_EQ(invalid_at("a\xC0\x80"), 1);
  EXPECT_EQ(invalid_at("a\xE0\x9F\xBF"), 1);
  EXPECT_EQ(invalid_at("a\xF0\x8F\xBF\xBF"), 1);
}

TEST(Utf8, RefusesSurrogates) {
  EXPECT_EQ(invalid_at("ab\xED\xA0\x80"), 2);
}

TEST(Utf8, RefusesWhatIsAboveTheLastCodePoint) {
  EXPECT_EQ(invalid_at("\xF4\x90\x80\x80"), 0);
}

TEST(Utf8, RefusesASequenceCutByTheEnd) {
  EXPECT_EQ(invalid_at("12345678\xE2\x82"), 8);
}

TEST(Utf8, RefusesAContinuationByteAfterEightAsciiBytes) {
  EXPECT_EQ(invalid_at("1234567890\x80"), 10);
}

}  // namespace
}  // namespace trireme
