#include "trireme/data/batch.h"

#include <numeric>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "trireme/base/errors.h"
#include "trireme/base/test_files.h"

namespace trireme {
namespace {

using Tokens = std::vector<std::int32_t>;

/// n different printable tokens in a row (repeating after 70).
std::string text_of(std::int64_t num_tokens, char first = '!') {
  std::string text;
  for (std::int64_t i = 0; i < num_tokens; ++i) text.push_back(static_cast<char>(first + i % 70));
  return text;
}

struct Batch {
  Tokens tokens_bt;
  Tokens labels_bt;
};

template <typename Batches>
Batch filled(const Batches& batches, const std::vector<std::int64_t>& rows, std::int64_t seq_len) {
  const auto count = rows.size() * static_cast<std::size_t>(seq_len);
  Batch batch{Tokens(count), Tokens(count)};
  batches.fill(rows, batch.tokens_bt, batch.labels_bt);
  return batch;
}

std::int64_t num_windows_of(std::int64_t num_tokens, std::int64_t seq_len) {
  const TestFolder folder;
  const Corpus corpus({folder.write("a.txt", text_of(num_tokens))}, 0.0);
  return WindowTable(corpus, Split::kTrain, seq_len).num_windows();
}

/// Micro-batch 2, two ranks, seq 4: 16 tokens a global batch.
std::int64_t num_batches_of(std::int64_t num_tokens) {
  const TestFolder folder;
  const Corpus corpus({folder.write("a.txt", text_of(num_tokens))}, 0.0);
  const TrainBatches batches(corpus, {.seq_len = 4, .global_batch = 4, .seed = 1});
  return batches.index().num_full_batches(4);
}

TEST(WindowTable, SixtyFourTokensAreTooFewForAWindowOf64) {
  EXPECT_CONTAINS(message_of<UsageError>([] { static_cast<void>(num_windows_of(64, 64)); }),
                  "64 training tokens, batch.seq = 64: each file needs at least seq + 1 = 65");
}

TEST(WindowTable, OneTokenIsRefusedNotWrapped) {
  EXPECT_THROW(num_windows_of(1, 64), UsageError);
}

TEST(WindowTable, SixtyFiveTokensAreOneWindowOf64) {
  EXPECT_EQ(num_windows_of(65, 64), 1);
}

TEST(WindowTable, SixtySixTokensAreStillOneWindowOf64) {
  EXPECT_EQ(num_windows_of(66, 64), 1);
}

TEST(WindowTable, HundredTwentyNineTokensAreTwoWindowsOf64) {
  EXPECT_EQ(num_windows_of(129, 64), 2);
}

TEST(WindowTable, LabelsAreTheNextTokensAndWindowsShareTheBoundary) {
  const TestFolder folder;
  const Corpus corpus({folder.write("a.txt", "abcdefghi")}, 0.0);
  const WindowTable table(corpus, Split::kTrain, 4);
  Tokens tokens_t(4);
  Tokens labels_t(4);
  table.fill(0, tokens_t, labels_t);
  EXPECT_EQ(tokens_t, (Tokens{'a', 'b', 'c', 'd'}));
  EXPECT_EQ(labels_t, (Tokens{'b', 'c', 'd', 'e'}));
  table.fill(1, tokens_t, labels_t);
  EXPECT_EQ(tokens_t, (Tokens{'e', 'f', 'g', 'h'}));
  EXPECT_EQ(labels_t, (Tokens{'f', 'g', 'h', 'i'}));
}

TEST(WindowTable, FillsThePiecesOfOneRank) {
  const TestFolder folder;
  const Corpus corpus({folder.write("a.txt", "abcdefghijklmnopq")}, 0.0);
  const WindowTable table(corpus, Split::kTrain, 8);
  Tokens tokens_t(4);
  Tokens labels_t(4);
  table.fill(1, tokens_t, labels_t, zigzag_pieces(8, 2, 0));
  EXPECT_EQ(tokens_t, (Tokens{'i', 'j', 'o', 'p'}));
  EXPECT_EQ(labels_t, (Tokens{'j', 'k', 'p', 'q'}));
  table.fill(1, tokens_t, labels_t, zigzag_pieces(8, 2, 1));
  EXPECT_EQ(tokens_t, (Tokens{'k', 'l', 'm', 'n'}));
  EXPECT_EQ(labels_t, (Tokens{'l', 'm', 'n', 'o'}));
}

TEST(WindowTable, NoWindowCrossesFiles) {
  const TestFolder folder;
  const Corpus corpus({folder.write("a.txt", "abcdef"), folder.write("b.txt", "uvwxyz")}, 0.0);
  const WindowTable table(corpus, Split::kTrain, 2);
  ASSERT_EQ(table.num_windows(), 4);
  Tokens tokens_t(2);
  Tokens labels_t(2);
  table.fill(1, tokens_t, labels_t);
  EXPECT_EQ(labels_t, (Tokens{'d', 'e'}));
  table.fill(2, tokens_t, labels_t);
  EXPECT_EQ(tokens_t, (Tokens{'u', 'v'}));
}

TEST(WindowTable, NoTrainingLabelIsHeldOut) {
  const TestFolder folder;
  const Corpus corpus({folder.write("a.txt", "abcdefghij")}, 0.5);
  const WindowTable table(corpus, Split::kTrain, 2);
  ASSERT_EQ(table.num_windows(), 2);
  Tokens tokens_t(2);
  Tokens labels_t(2);
  table.fill(1, tokens_t, labels_t);
  EXPECT_EQ(labels_t, (Tokens{'d', 'e'}));
}

TEST(WindowTable, NamesTheFileThatIsTooShort) {
  const TestFolder folder;
  const Corpus corpus({folder.write("a.txt", text_of(50)), folder.write("b.txt", "xy")}, 0.0);
  EXPECT_CONTAINS(message_of<UsageError>([&] { WindowTable(corpus, Split::kTrain, 4); }),
                  "b.txt\": 2 train");
}

TEST(WindowTable, RefusesASeqOfZero) {
  const TestFolder folder;
  const Corpus corpus({folder.write("a.txt", "abc")}, 0.0);
  EXPECT_THROW(WindowTable(corpus, Split::kTrain, 0), UsageError);
}

TEST(TrainBatches, SixteenTokensAreTooFewForOneGlobalBatch) {
  EXPECT_CONTAINS(message_of<UsageError>([] { static_cast<void>(num_batches_of(16)); }),
                  "3 training windows, batch.global_batch = 4");
}

TEST(TrainBatches, SeventeenTokensMakeOneGlobalBatch) {
  EXPECT_EQ(num_batches_of(17), 1);
}

TEST(TrainBatches, ThirtyTwoTokensMakeOneGlobalBatch) {
  EXPECT_EQ(num_batches_of(32), 1);
}

TEST(TrainBatches, ThirtyThreeTokensMakeTwoGlobalBatches) {
  EXPECT_EQ(num_batches_of(33), 2);
}

TEST(TrainBatches, FortyTokensMakeTwoGlobalBatches) {
  EXPECT_EQ(num_batches_of(40), 2);
}

TEST(TrainBatches, RefusesAGlobalBatchOfZero) {
  const TestFolder folder;
  const Corpus corpus({folder.write("a.txt", "abc")}, 0.0);
  EXPECT_THROW(TrainBatches(corpus, {.seq_len = 1, .global_batch = 0, .seed = 0}), UsageError);
}

// Ten samples in steps of six: the order runs on through the epoch's end, and every ten
// consecutive samples from an epoch's start are distinct.
TEST(TrainBatches, AnUnevenTailIsKeptAcrossTheEpochEnd) {
  const TestFolder folder;
  const Corpus corpus({folder.write("a.txt", text_of(11))}, 0.0);
  const TrainBatches batches(corpus, {.seq_len = 1, .global_batch = 6, .seed = 9});
  std::vector<std::int64_t> samples(30);
  std::iota(samples.begin(), samples.end(), 0);
  const Tokens tokens_bt = filled(batches, samples, 1).tokens_bt;
  for (int epoch = 0; epoch < 3; ++epoch) {
    const auto begin = tokens_bt.begin() + epoch * 10;
    EXPECT_EQ(std::set<std::int32_t>(begin, begin + 10).size(), 10U);
  }
}

TEST(TrainBatches, ResumingGivesTheBatchesOfTheStraightRun) {
  const TestFolder folder;
  const std::vector<std::string> paths = {folder.write("a.txt", text_of(100)),
                                          folder.write("b.txt", text_of(100, '0'))};
  const TrainBatchOptions options{.seq_len = 7, .global_batch = 4, .seed = 11};
  const auto step_batch = [&](const TrainBatches& batches, std::int64_t step) {
    std::vector<std::int64_t> samples(4);
    std::iota(samples.begin(), samples.end(), step * 4);
    return filled(batches, samples, 7).tokens_bt;
  };
  const Corpus corpus(paths, 0.0);
  const TrainBatches straight(corpus, options);
  const std::int64_t num_steps = 4 * straight.index().num_windows() / 4;  // four epochs
  std::vector<Tokens> expected;
  for (std::int64_t step = 0; step < num_steps; ++step) {
    expected.push_back(step_batch(straight, step));
  }
  const Corpus corpus_again(paths, 0.0);
  const TrainBatches resumed(corpus_again, options);
  for (std::int64_t step = 13; step < num_steps; ++step) {
    SCOPED_TRACE(step);
    EXPECT_EQ(step_batch(resumed, step), expected[static_cast<std::size_t>(step)]);
  }
}

TEST(EvalBatches, AreTheHeldOutWindowsInOrder) {
  const TestFolder folder;
  const Corpus corpus({folder.write("a.txt", "aaaaavwxyz")}, 0.5);
  const EvalBatches batches(corpus, Split::kValidation, 2, std::nullopt);
  ASSERT_EQ(batches.num_windows(), 2);
  EXPECT_EQ(batches.num_tokens(), 4);
  const Batch batch = filled(batches, {0, 1}, 2);
  EXPECT_EQ(batch.tokens_bt, (Tokens{'v', 'w', 'x', 'y'}));
  EXPECT_EQ(batch.labels_bt, (Tokens{'w', 'x', 'y', 'z'}));
}

TEST(EvalBatches, RowsBeyondTheEndCarryIgnoredLabels) {
  const TestFolder folder;
  const Corpus corpus({folder.write("a.txt", "aaaaavwxyz")}, 0.5);
  const EvalBatches batches(corpus, Split::kValidation, 2, 2);
  ASSERT_EQ(batches.num_windows(), 1);
  const Batch batch = filled(batches, {0, 1}, 2);
  EXPECT_EQ(batch.tokens_bt, (Tokens{'v', 'w', 0, 0}));
  EXPECT_EQ(batch.labels_bt, (Tokens{'w', 'x', kIgnoredLabel, kIgnoredLabel}));
}

TEST(EvalBatches, EvalTokensRoundUpToWindowsAndStopAtTheData) {
  const TestFolder folder;
  const Corpus corpus({folder.write("a.txt", text_of(82))}, 0.5);  // 41 held out: 10 windows of 4
  EXPECT_EQ(EvalBatches(corpus, Split::kValidation, 4, 5).num_windows(), 2);
  EXPECT_EQ(EvalBatches(corpus, Split::kValidation, 4, 8).num_windows(), 2);
  EXPECT_EQ(EvalBatches(corpus, Split::kValidation, 4, 1000).num_windows(), 10);
}

TEST(EvalBatches, RefuseDataWithoutAHeldOutPart) {
  const TestFolder folder;
  const Corpus corpus({folder.write("a.txt", text_of(50))}, 0.0);
  EXPECT_CONTAINS(
      message_of<UsageError>([&] { EvalBatches(corpus, Split::kValidation, 4, std::nullopt); }),
      "0 validation tokens in 1 files");
}

TEST(EvalBatches, RefuseZeroEvalTokens) {
  const TestFolder folder;
  const Corpus corpus({folder.write("a.txt", text_of(50))}, 0.5);
  EXPECT_THROW(EvalBatches(corpus, Split::kValidation, 4, 0), UsageError);
}

}  // namespace
}  // namespace trireme
