#include "trireme/cost/case_columns.h"

#include <map>
#include <string>

#include <gtest/gtest.h>

#include "trireme/base/errors.h"
#include "trireme/cost/known_models.h"

namespace trireme {
namespace {

using Cells = std::map<std::string, std::string, std::less<>>;

PricedCase read(const Cells& cells, const CaseDefaults& defaults = {}) {
  return read_case(
      [&](std::string_view column) -> std::string_view {
        const auto found = cells.find(column);
        return found == cells.end() ? std::string_view() : std::string_view(found->second);
      },
      defaults);
}

std::string refusal(const Cells& cells) {
  try {
    static_cast<void>(read(cells));
  } catch (const UsageError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(CaseColumns, PlaybookRow) {
  const PricedCase row = read({{"model", "8B"},
                               {"nodes", "8"},
                               {"gpus", "64"},
                               {"dp", "4"},
                               {"tp", "4"},
                               {"pp", "4"},
                               {"mbs", "2"},
                               {"grad_acc", "32"},
                               {"zero", "1"}});
  EXPECT_EQ(row.workload.model.parameters(), 8'858'636'288);
  EXPECT_EQ(row.workload.layout.world(), 64);
  EXPECT_EQ(row.workload.layout.zero, 1);
  EXPECT_EQ(row.workload.num_micro_batches(), 32);
  EXPECT_EQ(row.workload.batch.seq, 4096);
}

TEST(CaseColumns, SizesWithoutAModelAreAGptOfMegatron) {
  const PricedCase row = read({{"gpus", "2"},
                               {"gbs", "16"},
                               {"mbs", "8"},
                               {"hidden", "1024"},
                               {"heads", "16"},
                               {"layers", "24"},
                               {"seq", "1024"},
                               {"tp", "1"},
                               {"dp", "1"},
                               {"pp", "2"}},
                              {.is_llama_like = false});
  const ModelShape& model = row.workload.model;
  EXPECT_EQ(model.ffn, 4096);
  EXPECT_EQ(model.vocab, 50257);
  EXPECT_FALSE(model.is_gated);
  EXPECT_TRUE(model.is_tied);
  EXPECT_EQ(model.positions, 0);
  EXPECT_EQ(row.workload.num_micro_batches(), 2);
}

TEST(CaseColumns, DpIsWhatTheDevicesLeaveOver) {
  EXPECT_EQ(read({{"model", "1B"}, {"gpus", "64"}, {"tp", "4"}}).workload.layout.dp, 16);
  EXPECT_EQ(read({{"model", "1B"}, {"nodes", "2"}, {"pp", "2"}}).workload.layout.dp, 8);
}

TEST(CaseColumns, RecomputeOfThePaper) {
  const auto layout = [](const char* text) {
    return read({{"model", "1B"}, {"tp", "8"}, {"recompute", text}}, {.sp = true}).workload.layout;
  };
  EXPECT_TRUE(layout("").sp);
  EXPECT_FALSE(layout("full").sp);
  EXPECT_EQ(layout("full").recompute, Recompute::kFull);
  EXPECT_TRUE(layout("selective+SP").sp);
  EXPECT_EQ(layout("selective+SP").recompute, Recompute::kSelective);
  EXPECT_TRUE(layout("SP only").sp);
  EXPECT_EQ(layout("SP only").recompute, Recompute::kNone);
}

TEST(CaseColumns, NamesInAnyForm) {
  EXPECT_EQ(known_model("LLAMA3-8B"), known_model("llama-3-8b"));
  EXPECT_EQ(known_model("llama3-405b")->parameters(), 405'853'388'800);
  EXPECT_EQ(known_model("no such model"), std::nullopt);
  EXPECT_EQ(read({{"model", "GPT 530B"},
                  {"layers", "105"},
                  {"hidden", "20480"},
                  {"ffn", "81920"},
                  {"vocab", "51200"}})
                .workload.model.heads,
            160);
}

TEST(CaseColumns, ZeroMayBeExplained) {
  EXPECT_EQ(read({{"model", "1B"}, {"zero", "1 (distributed optimizer)"}}).workload.layout.zero, 1);
}

TEST(CaseColumns, BadCellsAreNamed) {
  EXPECT_EQ(refusal({{"model", "1B"}, {"tp", "x"}}),
            "tp = \"x\": must be an integer from 1 to 1000000");
  EXPECT_EQ(refusal({{"model", "1B"}, {"tp", "0"}}),
            "tp = \"0\": must be an integer from 1 to 1000000");
  EXPECT_EQ(refusal({{"model", "1B"}, {"zero", "4"}}), "zero = \"4\": must be 0, 1, 2 or 3");
  EXPECT_EQ(refusal({{"model", "nope"}}),
            "model = \"nope\": not known; give layers, hidden, heads, kv_heads, ffn, vocab");
  EXPECT_EQ(refusal({}), "model: needs a model, or layers and hidden");
  EXPECT_EQ(refusal({{"model", "1B"}, {"gpus", "8"}, {"dp", "4"}}),
            "pp 1 x dp 4 x cp 1 x tp 1 = 4, but 8 devices; make them equal");
  EXPECT_EQ(refusal({{"model", "1B"}, {"dp", "4"}, {"mbs", "1"}, {"gbs", "10"}}),
            "gbs = 10: must be a multiple of mbs 1 x dp 4 = 4; use 8 or 12");
  EXPECT_EQ(refusal({{"model", "1B"}, {"tp", "3"}}), "tp = 3: must divide heads = 32; use 2 or 4");
  EXPECT_EQ(refusal({{"model", "1B"}, {"precision", "int4"}}),
            "precision = \"int4\": must be bf16, fp16, fp8 or fp32");
  EXPECT_EQ(refusal({{"model", "1B"}, {"nodes", "1"}, {"gpus", "16"}}),
            "nodes = 1 of 8 devices, but gpus = 16; make them agree");
  EXPECT_EQ(refusal({{"model", "1B"}, {"kv_heads", "7"}}),
            "kv_heads = 7: must divide heads = 32; use 4 or 8");
  EXPECT_EQ(refusal({{"model", "1B"}, {"cp", "8"}, {"seq", "4097"}}),
            "seq = 4097: must be a multiple of cp = 8; use 4096 or 4104");
  EXPECT_EQ(refusal({{"model", "1B"}, {"pp", "2"}, {"schedule", "1f1bb"}}).substr(0, 36),
            "schedule = \"1f1bb\": must be one of n");
}

TEST(CaseColumns, SizesThatWouldLeaveSixtyFourBitsAreRefused) {
  EXPECT_EQ(refusal({{"layers", "2000000000"}, {"hidden", "64"}}),
            "layers = \"2000000000\": must be an integer from 1 to 16384");
  EXPECT_EQ(refusal({{"layers", "2"}, {"hidden", "99999999999999999999"}}),
            "hidden = \"99999999999999999999\": must be an integer from 1 to 1048576");
  EXPECT_EQ(refusal({{"model", "1B"}, {"tp", "1000000"}, {"pp", "1000000"}}),
            "pp 1000000 x dp 1 x cp 1 x tp 1000000: more than 1000000 devices");
}

TEST(CaseColumns, LongValuesAreShortenedInMessages) {
  const std::string longest(1000, 'x');
  for (const char* const column : {"model", "tied", "recompute", "precision", "zero", "schedule"}) {
    Cells cells = {{"model", "8B"}, {"gpus", "8"}};
    cells[column] = longest;
    const std::string message = refusal(cells);
    EXPECT_NE(message.find(std::string(60, 'x') + "...\""), std::string::npos) << column;
    EXPECT_LT(message.size(), 300U) << message;
  }
}

}  // namespace
}  // namespace trireme
