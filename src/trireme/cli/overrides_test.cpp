#include "trireme/cli/overrides.h"

#include <gtest/gtest.h>

#include "trireme/base/errors.h"

namespace trireme {
namespace {

using Arguments = std::vector<std::string>;

TEST(SplitOverrides, ValueMayBeTheNextArgument) {
  const SplitArguments split = split_overrides({"train", "--run.steps", "20", "x.toml"});
  EXPECT_EQ(split.plain, Arguments({"train", "x.toml"}));
  ASSERT_EQ(split.overrides.size(), 1U);
  EXPECT_EQ(split.overrides[0].name, "run.steps");
  EXPECT_EQ(split.overrides[0].value, "20");
}

TEST(SplitOverrides, ValueMayFollowAnEqualsSign) {
  const SplitArguments split = split_overrides({"--data.text=a=b.txt"});
  ASSERT_EQ(split.overrides.size(), 1U);
  EXPECT_EQ(split.overrides[0].name, "data.text");
  EXPECT_EQ(split.overrides[0].value, "a=b.txt");
}

TEST(SplitOverrides, ValueMayBeNegative) {
  EXPECT_EQ(split_overrides({"--lr.min_lr", "-1"}).overrides.at(0).value, "-1");
}

TEST(SplitOverrides, OptionsWithoutADotStay) {
  const Arguments arguments = {"--layout", "dp=2", "--dump=a.b", "data.txt"};
  EXPECT_EQ(split_overrides(arguments).plain, arguments);
}

TEST(SplitOverrides, MissingValueIsRefused) {
  EXPECT_THROW(static_cast<void>(split_overrides({"--run.steps"})), UsageError);
}

}  // namespace
}  // namespace trireme
