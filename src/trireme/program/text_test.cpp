#include "trireme/program/text.h"

#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include "trireme/base/errors.h"
#include "trireme/program/test_programs.h"
#include "trireme/program/verify.h"

namespace trireme {
namespace {

std::string small_text(Layout layout = {}, std::int64_t num_micro_batches = 2) {
  return program_text(build_train(
      small_request(layout, {.seq = 8, .global_batch = layout.dp * num_micro_batches})));
}

/// `text` with the first `from` behind the first `after` replaced by `to`.
std::string replaced(std::string text, std::string_view from, std::string_view to,
                     std::string_view after = "") {
  const std::size_t at = text.find(from, text.find(after));
  TRI_CHECK(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

/// `text` without the line on which `part` first stands.
std::string without_line(std::string text, std::string_view part) {
  const std::size_t at = text.find(part);
  TRI_CHECK(at != std::string::npos);
  const std::size_t begin = text.rfind('\n', at) + 1;
  return text.erase(begin, text.find('\n', at) + 1 - begin);
}

std::string parse_error(const std::string& text) {
  try {
    static_cast<void>(parse_programs(text));
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

/// Number of the line on which `part` first stands.
std::string line_of(const std::string& text, std::string_view part) {
  const std::size_t at = text.find(part);
  TRI_CHECK(at != std::string::npos);
  const auto line = std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n');
  return "line " + std::to_string(line + 1) + ":";
}

void expect_error(const std::string& text, const std::string& line, const std::string& token,
                  const std::string& rule) {
  const std::string error = parse_error(text);
  EXPECT_NE(error.find(line), std::string::npos) << error;
  EXPECT_NE(error.find("'" + token + "'"), std::string::npos) << error;
  EXPECT_NE(error.find(rule), std::string::npos) << error;
}

TEST(ProgramText, ParsesBackToTheSameProgram) {
  for (const ModelSpec& spec : {small_llama(), small_gpt2()}) {
    const Program program = build_train(
        small_request({.dp = 2, .zero = 1, .bucket_mib = 0.001, .recompute = Recompute::kFull},
                      {.seq = 8, .global_batch = 8}, spec));
    const std::vector<Program> parsed = parse_programs(program_text(program));
    ASSERT_EQ(parsed.size(), 1U);
    EXPECT_EQ(program_text(parsed[0]), program_text(program));
    EXPECT_EQ(parsed[0], program);
  }
}

TEST(ProgramText, HoldsSeveralProgramsInARow) {
  const std::string text = small_text();
  EXPECT_EQ(parse_programs(text + text).size(), 2U);
}

TEST(ProgramTextError, NamesAnUnknownOperation) {
  const std::string text = replaced(small_text(), "FWD MLP_UP", "FORWARD MLP_UP");
  expect_error(text, line_of(text, "FORWARD"), "FORWARD", "operation");
}

TEST(ProgramTextError, NamesAnUnknownBuffer) {
  const std::string text = replaced(small_text(), "R x=L0.attn_norm", "R x=L0.atn_norm");
  expect_error(text, line_of(text, "L0.atn_norm"), "L0.atn_norm", "not a declared buffer");
}

TEST(ProgramTextError, NamesARangeOutsideItsBuffer) {
  const std::string text = replaced(small_text(), "W dh=d_stream", "W dh=d_stream[0:9999]");
  expect_error(text, line_of(text, "[0:9999]"), "d_stream[0:9999]", "V13");
}

TEST(ProgramTextError, NamesANumberThatIsNone) {
  const std::string text = replaced(small_text(), "layer=1", "layer=one");
  expect_error(text, line_of(text, "layer=one"), "one", "not a number");
}

TEST(ProgramTextError, NamesABufferThatIsDeclaredTwice) {
  const std::string text = replaced(small_text(), "buffer labels", "buffer tokens");
  expect_error(text, line_of(small_text(), "buffer labels"), "tokens", "declared twice");
}

TEST(ProgramTextError, NamesACallOfAnUnknownTemplate) {
  const std::string text = replaced(small_text(), "call micro.next", "call micro.nest");
  expect_error(text, line_of(text, "micro.nest"), "micro.nest", "template");
}

TEST(ProgramTextError, NamesAnUnknownFieldOfTheModel) {
  const std::string text = replaced(small_text(), "hidden=", "hiden=");
  expect_error(text, line_of(text, "hiden="), "hiden=12", "field of a model");
}

TEST(ProgramTextError, NamesAnUnknownFamily) {
  const std::string text = replaced(small_text(), "family=llama", "family=lama");
  expect_error(text, line_of(text, "lama"), "lama", "family");
}

TEST(ProgramTextError, NamesAWaitThatIsNone) {
  const std::string text = replaced(small_text({.dp = 2}), "| wait comm-0:2", "| wait comm");
  expect_error(text, line_of(text, "| wait comm\n"), "comm", "no wait");
}

TEST(ProgramTextError, RefusesAFileThatEndsEarly) {
  const std::string text = small_text();
  EXPECT_NE(parse_error(text.substr(0, text.size() - 4)).find("ends inside a program"),
            std::string::npos);
}

TEST(ProgramTextError, RefusesAnEmptyFile) {
  EXPECT_NE(parse_error("").find("holds no program"), std::string::npos);
}

TEST(ProgramTextError, RefusesAParameterThatIsMissing) {
  EXPECT_NE(parse_error(without_line(small_text(), "parameter 14 ")).find("has 15"),
            std::string::npos);
}

TEST(ProgramTextError, RefusesALayoutThatIsNotBuilt) {
  const std::string error = parse_error(replaced(small_text(), "tp=1", "tp=1 ep=2"));
  EXPECT_NE(error.find("ep = 2"), std::string::npos) << error;
}

// Files that parse, but not into a right program
// --------------------------------------------------------------------------------------------------

std::string broken(const std::string& text) {
  const auto violation = verify(parse_programs(text));
  return violation ? violation->rule : "";
}

TEST(ProgramText, NamesBothPeersOfAnExchange) {
  const std::string text = small_text({.cp = 4});
  EXPECT_NE(text.find("EXCHANGE RING_KV layer=0 chunk=1 context | R data=L0.kv, W "
                      "received=L0.kv.slot0 | comm cp f32 elems=16 peer=1 from=3 tag=2"),
            std::string::npos)
      << text;
  EXPECT_EQ(program_text(parse_programs(text).front()), text);
  expect_error(replaced(text, "from=3", "of=3"), line_of(text, "from=3"), "of=3",
               "from=... is due");
}

TEST(ProgramFile, OfABuiltProgramVerifies) {
  EXPECT_EQ(broken(small_text()), "");
  EXPECT_EQ(broken(small_text({.dp = 2, .zero = 1, .bucket_mib = 0.001})), "");
}

TEST(ProgramFile, WithoutAPartBreaksV1) {
  EXPECT_EQ(broken(without_line(small_text(), "BWD_W MLP_UP layer=0")), "V1");
}

TEST(ProgramFile, WithAnEarlyFreeBreaksV3) {
  const std::string forward = "W y=L0.mlp_up, W workspace=workspace.compute";
  const std::string text = replaced(small_text(), forward, forward + " | free L0.mlp_up");
  EXPECT_EQ(broken(replaced(text, "free L0.mlp_up, ", "free ")), "V3");
}

TEST(ProgramFile, WithAnAddedFirstGradientBreaksV4) {
  EXPECT_EQ(broken(replaced(small_text(), "W dw=", "A dw=", "template micro.first")), "V4");
}

TEST(ProgramFile, WithoutAWaitBreaksV5) {
  EXPECT_EQ(broken(replaced(small_text({.dp = 2}), " | wait comm-0:2", "")), "V5");
}

TEST(ProgramFile, WithoutAnUpdateBreaksV12) {
  EXPECT_EQ(broken(without_line(small_text(), "OPT_STEP parameter=3 ")), "V12");
}

TEST(ProgramFile, WithAnotherWeightBreaksV16) {
  EXPECT_EQ(broken(replaced(small_text(), "R x=L0.act", "R x=L0.act[0:640]", "FWD MLP_DOWN")),
            "");  // the whole buffer, spelt out: 8 tokens * 20 * 4 bytes
  EXPECT_EQ(broken(replaced(small_text(), "R x=L0.mlp_norm", "R x=L0.attn_norm", "FWD MLP_UP")),
            "V16");
}

TEST(ProgramText, EmptySectionsAreNamed) {
  const std::string text = small_text();
  for (const char* const line : {" | ", "  | x", "end | "}) {
    std::string broken = text;
    broken.insert(broken.find("\ntemplate") + 1, std::string(line) + "\n");
    EXPECT_THROW(static_cast<void>(parse_programs(broken)), UsageError) << line;
  }
}

}  // namespace
}  // namespace trireme
