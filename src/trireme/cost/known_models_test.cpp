#include "trireme/cost/known_models.h"

#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "trireme/base/errors.h"
#include "trireme/base/test_files.h"

namespace trireme {
namespace {

TEST(KnownModels, SpecHasTheFilesRopeBase) {
  EXPECT_EQ(known_spec("llama-3-8b").value().rope_base, 500000.0);
}

TEST(KnownModels, SpecHasTheFilesNormEps) {
  EXPECT_EQ(known_spec("qwen3-32b").value().norm_eps, 1e-6);
}

class ModelFileTest : public testing::Test {
 protected:
  /// Why the file `name` is refused.
  [[nodiscard]] std::string refusal(const std::string& name) const {
    try {
      static_cast<void>(known_spec((folder_.path() / name).string()));
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  }
  void expect_refused(const std::string& text, const std::string& part) const {
    folder_.write("m.toml", text);
    EXPECT_CONTAINS(refusal("m.toml"), part);
  }

  TestFolder folder_;
};

TEST_F(ModelFileTest, AKeyThatNoModelHasIsRefused) {
  expect_refused("layers = 2\nkv_head = 8\n",
                 "m.toml:2] kv_head: a model has no such key; did you mean kv_heads?");
}

TEST_F(ModelFileTest, AValueOfAnotherTypeIsRefused) {
  expect_refused("layers = \"a\"\n", "m.toml:1] layers: must be a whole number");
  expect_refused("tied = 3\n", "m.toml:1] tied: must be true or false");
  expect_refused("family = \"bert\"\n", "m.toml:1] family: must be llama or gpt2");
}

TEST_F(ModelFileTest, SizesOutOfRangeNameTheFile) {
  expect_refused("layers = -32\n", "m.toml] [model] layers = -32");
}

TEST_F(ModelFileTest, AFolderIsNoFile) {
  std::filesystem::create_directory(folder_.path() / "d.toml");
  EXPECT_CONTAINS(refusal("d.toml"), "cannot be read: must be a TOML file");
}

}  // namespace
}  // namespace trireme
