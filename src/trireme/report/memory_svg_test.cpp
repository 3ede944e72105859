#include "trireme/report/memory_svg.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

/// Parameters all the time, activations in the middle.
MemoryUse hill() {
  constexpr std::int64_t kGiB = std::int64_t{1} << 30;
  MemoryUse use;
  for (int i = 0; i < 3; ++i) {
    MemorySample& sample = use.samples.emplace_back(MemorySample{.seconds = 0.1 * i});
    sample.bytes[static_cast<std::size_t>(MemoryKind::kParameters)] = kGiB;
    sample.bytes[static_cast<std::size_t>(MemoryKind::kActivations)] = i == 1 ? 2 * kGiB : 0;
  }
  use.peak.seconds = 0.1;
  use.peak.bytes = 3 * kGiB;
  return use;
}

std::string picture(double limit_gib = 4.0) {
  return memory_svg(hill(), {.title = "rank 0",
                             .peak_label = "peak of rank 0 <here>",
                             .end_seconds = 0.3,
                             .limit_bytes = limit_gib * (1 << 30)});
}

TEST(MemorySvg, HasTheKindsThatHaveBytes) {
  EXPECT_NE(picture().find(">parameters 1.000 GiB<"), std::string::npos);
  EXPECT_NE(picture().find(">activations 2.000 GiB<"), std::string::npos);
  EXPECT_EQ(picture().find("moments"), std::string::npos);
}

TEST(MemorySvg, MarksThePeak) {
  EXPECT_NE(picture().find(">peak of rank 0 &lt;here&gt;<"), std::string::npos);
}

TEST(MemorySvg, AxesHaveUnits) {
  EXPECT_NE(picture().find("memory (GiB)"), std::string::npos);
  EXPECT_NE(picture().find("time (ms)"), std::string::npos);
}

TEST(MemorySvg, DrawsTheLimitOfTheDevice) {
  EXPECT_NE(picture().find(">memory of the device<"), std::string::npos);
}

TEST(MemorySvg, NamesALimitThatIsFarAboveThePeak) {
  EXPECT_EQ(picture(80.0).find(">memory of the device<"), std::string::npos);
  EXPECT_NE(picture(80.0).find("the device has 80.000 GiB"), std::string::npos);
}

}  // namespace
}  // namespace trireme
