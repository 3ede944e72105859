#include "trireme/checkpoint/store.h"

#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

#include "trireme/base/errors.h"
#include "trireme/checkpoint/store_test_run.h"

namespace trireme {
namespace {

class Store : public testing::Test {
 protected:
  [[nodiscard]] CheckpointStore store(Retention retention = {}) const {
    return CheckpointStore(run_.path(), retention);
  }
  [[nodiscard]] std::filesystem::path root() const { return run_.path() / "checkpoints"; }
  [[nodiscard]] std::filesystem::path dir(const char* name) const { return root() / name; }
  [[nodiscard]] std::string open_error(const char* name) const {
    return message_of<ResourceError>([&] { static_cast<void>(open_checkpoint(dir(name))); });
  }
  void rewrite(const std::string& path, std::string_view content) const {
    run_.write("checkpoints/" + path, content);
  }

  TestFolder run_;
};

TEST_F(Store, WhatIsSavedOpensAgain) {
  CheckpointStore store = this->store();
  const auto report = save_step(store, 10);
  EXPECT_EQ(report.dir, dir("step_00000010"));
  EXPECT_TRUE(report.removed.empty());
  const Checkpoint checkpoint = open_checkpoint(report.dir);
  EXPECT_EQ(checkpoint.state, state_at(10));
  EXPECT_EQ(checkpoint.files.size(), 2U);
  EXPECT_EQ(checkpoint.files.at("config.toml").xxh64, xxh64_hex("[run]\n"));
  EXPECT_EQ(listing(report.dir), "config.toml model.safetensors state.json");
  EXPECT_EQ(read_text(dir("latest"), 100), "step_00000010\n");
  EXPECT_EQ(listing(root()), "latest step_00000010");
}

TEST_F(Store, AnEmptyFolderHasNoCheckpointAndNoWarning) {
  const auto search = store().newest_complete();
  EXPECT_FALSE(search.newest.has_value());
  EXPECT_TRUE(search.warnings.empty());
}

TEST_F(Store, AFailedSaveLeavesNothingAndTheEarlierOneIntact) {
  CheckpointStore store = this->store();
  save_step(store, 1);
  const auto fail = [](CheckpointDraft& draft) {
    fill_model(draft, 2, 16);
    throw std::runtime_error("rank 3 died");
  };
  EXPECT_THROW(store.save(state_at(2), 16, fail), std::runtime_error);
  EXPECT_EQ(listing(root()), "latest step_00000001");
  EXPECT_EQ(store.newest_complete().newest->state, state_at(1));
}

TEST_F(Store, AFileThatDidNotComeThroughTheDraftIsOurBug) {
  CheckpointStore store = this->store();
  const auto smuggle = [](CheckpointDraft& draft) { write_text(draft.dir() / "extra", "x"); };
  EXPECT_THROW(store.save(state_at(1), 0, smuggle), InternalError);
  EXPECT_EQ(listing(root()), "");
}

TEST_F(Store, TrainerTextThatIsNoObjectIsRefused) {
  CheckpointStore store = this->store();
  CheckpointState state = state_at(1);
  state.trainer_json = "[]";
  EXPECT_THROW(store.save(state, 0, [](CheckpointDraft&) {}), UsageError);
}

TEST_F(Store, LeftoversOfACrashAreNamedAndSkipped) {
  CheckpointStore store = this->store();
  save_step(store, 1);
  std::filesystem::create_directory(dir("step_00000002.incomplete"));
  const auto search = store.newest_complete();
  EXPECT_EQ(search.newest->state.step, 1);
  ASSERT_EQ(search.warnings.size(), 1U);
  EXPECT_CONTAINS(search.warnings[0], "step_00000002.incomplete: left by an interrupted save");
}

TEST_F(Store, TheNextSaveRemovesLeftovers) {
  CheckpointStore store = this->store();
  std::filesystem::create_directory(dir("step_00000002.incomplete"));
  rewrite("step_00000002.incomplete/model.safetensors", "half");
  save_step(store, 3);
  EXPECT_EQ(listing(root()), "latest step_00000003");
}

TEST_F(Store, SavingTheSameStepAgainReplacesIt) {
  CheckpointStore store = this->store();
  save_step(store, 1, 16);
  save_step(store, 1, 32);
  EXPECT_EQ(listing(root()), "latest step_00000001");
  EXPECT_EQ(SafetensorsReader(dir("step_00000001") / "model.safetensors").at("w").bytes, 32);
}

TEST_F(Store, ACutFileIsNamedAndTheOlderCheckpointTaken) {
  CheckpointStore store = this->store();
  save_step(store, 1);
  save_step(store, 2);
  std::filesystem::resize_file(dir("step_00000002") / "model.safetensors", 20);
  const auto search = store.newest_complete();
  EXPECT_EQ(search.newest->state.step, 1);
  ASSERT_EQ(search.warnings.size(), 1U);
  EXPECT_CONTAINS(search.warnings[0], "step_00000002/model.safetensors: 20 bytes; state.json says");
}

TEST_F(Store, AMissingFileIsNamed) {
  CheckpointStore store = this->store();
  save_step(store, 1);
  std::filesystem::remove(dir("step_00000001") / "model.safetensors");
  EXPECT_CONTAINS(open_error("step_00000001"), "step_00000001/model.safetensors: missing");
}

TEST_F(Store, AChangedByteIsNamed) {
  CheckpointStore store = this->store();
  save_step(store, 1);
  rewrite("step_00000001/config.toml", "[ruN]\n");
  EXPECT_CONTAINS(open_error("step_00000001"), "config.toml: checksum");
}

TEST_F(Store, AFolderWithoutStateIsIncomplete) {
  std::filesystem::create_directories(dir("step_00000001"));
  EXPECT_CONTAINS(open_error("step_00000001"), "state.json: missing");
}

TEST_F(Store, EachFileCutAnywhereIsRefused) {
  CheckpointStore store = this->store();
  save_step(store, 1);
  for (const char* name : {"state.json", "model.safetensors", "config.toml"}) {
    const std::string whole = read_text(dir("step_00000001") / name, 10'000);
    // The last byte of state.json is a line break, which JSON does not need.
    const std::size_t num_cuts = whole.size() - (std::string_view(name) == "state.json" ? 1 : 0);
    for (std::size_t length = 0; length < num_cuts; ++length) {
      SCOPED_TRACE(std::string(name) + " cut at " + std::to_string(length));
      rewrite(std::string("step_00000001/") + name, std::string_view(whole).substr(0, length));
      EXPECT_THROW(static_cast<void>(open_checkpoint(dir("step_00000001"))), ResourceError);
    }
    rewrite(std::string("step_00000001/") + name, whole);
  }
  EXPECT_NO_THROW(static_cast<void>(open_checkpoint(dir("step_00000001"))));
}

TEST_F(Store, AFileNameThatLeavesTheFolderIsRefused) {
  rewrite("../secret", "x");
  std::filesystem::create_directories(dir("step_00000001"));
  rewrite("step_00000001/state.json",
          R"({"format_version":2,"step":1,"tokens":0,"rng_seed":0,"config_hash":"",)"
          R"("data_position":{},"trainer":{},)"
          R"("checksums":{"../../secret":{"bytes":1,"xxh64":"00"}}})");
  EXPECT_CONTAINS(open_error("step_00000001"), "\"../../secret\" is no plain name");
}

TEST_F(Store, AChangedStateIsRefused) {
  CheckpointStore store = this->store();
  save_step(store, 1);
  std::string state = read_text(dir("step_00000001") / "state.json", 10'000);
  const std::size_t at = state.find("\"tokens\": ") + 10;
  state.replace(at, 1, "7");
  rewrite("step_00000001/state.json", state);
  EXPECT_CONTAINS(open_error("step_00000001"), "the file was changed");
}

TEST_F(Store, AnotherFormatVersionIsRefused) {
  std::filesystem::create_directories(dir("step_00000001"));
  rewrite("step_00000001/state.json", R"({"format_version":3})");
  EXPECT_CONTAINS(open_error("step_00000001"), "format_version 3; this program reads 2");
}

TEST_F(Store, ANegativeStepIsRefused) {
  std::filesystem::create_directories(dir("step_00000001"));
  rewrite("step_00000001/state.json", R"({"format_version":2,"step":-1})");
  EXPECT_CONTAINS(open_error("step_00000001"), "\"step\" is no unsigned integer");
}

TEST_F(Store, ARenamedFolderIsNotTakenForAnotherStep) {
  CheckpointStore store = this->store();
  save_step(store, 1);
  std::filesystem::rename(dir("step_00000001"), dir("step_00000009"));
  const auto search = store.newest_complete();
  EXPECT_FALSE(search.newest.has_value());
  EXPECT_CONTAINS(search.warnings.at(1), "state.json says step 1");
}

TEST_F(Store, APathThatIsNoFolderIsAUsageError) {
  EXPECT_CONTAINS(
      message_of<UsageError>([&] { static_cast<void>(open_checkpoint(dir("step_00000077"))); }),
      "step_00000077: no such folder");
}

TEST_F(Store, ADanglingLatestIsNamedAndTheNewestStillFound) {
  CheckpointStore store = this->store();
  save_step(store, 1);
  rewrite("latest", "step_00000005\n");
  const auto search = store.newest_complete();
  EXPECT_EQ(search.newest->state.step, 1);
  ASSERT_EQ(search.warnings.size(), 1U);
  EXPECT_CONTAINS(search.warnings[0], "latest: names \"step_00000005\", which does not exist");
}

// The process died after the rename and before `latest` was replaced.
TEST_F(Store, ACompleteCheckpointNewerThanLatestIsTaken) {
  CheckpointStore store = this->store();
  save_step(store, 1);
  save_step(store, 2);
  rewrite("latest", "step_00000001\n");
  EXPECT_EQ(store.newest_complete().newest->state.step, 2);
}

TEST_F(Store, KeepLastRemovesTheOldestFirst) {
  CheckpointStore store = this->store({.keep_last = 2});
  save_step(store, 1);
  save_step(store, 2);
  const auto report = save_step(store, 3);
  EXPECT_EQ(report.removed, std::vector<std::filesystem::path>{dir("step_00000001")});
  EXPECT_EQ(listing(root()), "latest step_00000002 step_00000003");
}

TEST_F(Store, KeepEveryKeepsItsMultiples) {
  CheckpointStore store = this->store({.keep_last = 1, .keep_every = 4});
  for (const std::int64_t step : {3, 4, 5, 6}) save_step(store, step);
  EXPECT_EQ(listing(root()), "latest step_00000004 step_00000006");
}

TEST_F(Store, KeepLastZeroKeepsAll) {
  CheckpointStore store = this->store();
  for (const std::int64_t step : {1, 2, 3}) save_step(store, step);
  EXPECT_EQ(listing(root()), "latest step_00000001 step_00000002 step_00000003");
}

// After a resume from an older step, the new save has a lower number than what is there.
TEST_F(Store, TheOneJustSavedIsNeverRemoved) {
  CheckpointStore store = this->store({.keep_last = 1});
  CheckpointStore keeps_all = this->store();
  save_step(keeps_all, 20);
  save_step(keeps_all, 30);
  save_step(store, 15);
  EXPECT_EQ(listing(root()), "latest step_00000015");
}

TEST_F(Store, DamagedFoldersDoNotCountAsKept) {
  CheckpointStore store = this->store({.keep_last = 2});
  save_step(store, 1);
  save_step(store, 2);
  std::filesystem::remove(dir("step_00000002") / "model.safetensors");
  save_step(store, 3);
  EXPECT_EQ(listing(root()), "latest step_00000001 step_00000002 step_00000003");
}

TEST_F(Store, StepsCompareAsNumbersAndOtherNamesAreLeftAlone) {
  CheckpointStore keeps_all = this->store();
  for (const std::int64_t step : {100, 500, 900}) save_step(keeps_all, step);
  std::filesystem::rename(dir("step_00000100"), dir("step_0100"));
  std::filesystem::rename(dir("step_00000500"), dir("step_500"));
  std::filesystem::rename(dir("step_00000900"), dir("step_900"));
  for (const char* name : {"step_best", "notes", "step_"})
    std::filesystem::create_directory(dir(name));
  CheckpointStore store = this->store({.keep_last = 2});
  EXPECT_EQ(store.newest_complete().newest->state.step, 900);
  save_step(store, 2500);
  EXPECT_EQ(listing(root()), "latest notes step_ step_00002500 step_900 step_best");
}

TEST_F(Store, AFolderThatVanishedIsMadeAgain) {
  CheckpointStore store = this->store();
  save_step(store, 1);
  std::filesystem::remove_all(root());
  save_step(store, 2);
  EXPECT_EQ(listing(root()), "latest step_00000002");
}

TEST_F(Store, ARunFolderThatIsAFileIsNamed) {
  run_.write("checkpoints", "not a folder");
  EXPECT_CONTAINS(message_of<ResourceError>([&] { static_cast<void>(store()); }),
                  "checkpoints: cannot be made");
}

TEST_F(Store, NegativeRetentionIsRefused) {
  EXPECT_THROW(static_cast<void>(store({.keep_last = -1})), UsageError);
}

TEST_F(Store, ASaveThatNeedsMoreThanIsFreeIsRefusedBeforeItWrites) {
  CheckpointStore store = this->store();
  bool was_called = false;
  const std::string message = message_of<ResourceError>([&] {
    store.save(state_at(1), std::int64_t{1} << 60, [&](CheckpointDraft&) { was_called = true; });
  });
  EXPECT_CONTAINS(message, "needed 1152921504606846976 bytes");
  EXPECT_CONTAINS(message, ", free ");
  EXPECT_FALSE(was_called);
  EXPECT_EQ(listing(root()), "");
}

}  // namespace
}  // namespace trireme
