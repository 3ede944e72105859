#include "trireme/report/progress.h"

#include <limits>

#include <gtest/gtest.h>

namespace trireme {
namespace {

Progress some_progress() {
  return {.step = 20,
          .steps = 1000,
          .loss = 2.34567,
          .grad_norm = 1.2341,
          .lr = 3e-4,
          .tokens_per_second = 12345.4,
          .tokens_per_second_per_rank = 3086.35,
          .mfu = 0.1234,
          .memory_bytes = 1536,
          .eta_seconds = 185.0};
}

constexpr const char* kLine =
    "step   20/1000  loss 2.3457  grad 1.234  lr 3.00e-04  12,345 tok/s (3,086/rank)  MFU 12.3%  "
    "mem 1.5 KiB  ETA 3m05s";

TEST(ProgressLine, NamesEachNumber) {
  EXPECT_EQ(progress_line(some_progress()), kLine);
}

TEST(ProgressLine, UnknownAndNonFiniteNumbersAreDashes) {
  Progress progress = some_progress();
  progress.mfu.reset();
  progress.tokens_per_second = std::numeric_limits<double>::infinity();
  progress.eta_seconds = std::numeric_limits<double>::quiet_NaN();
  progress.loss = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(progress_line(progress),
            "step   20/1000  loss nan  grad 1.234  lr 3.00e-04  - tok/s (3,086/rank)  MFU -  mem "
            "1.5 KiB  ETA -");
}

TEST(ProgressDisplay, LogHasPlainLinesOfLoggingStepsOnly) {
  ProgressDisplay display(/*is_terminal=*/false, 20);
  EXPECT_EQ(display.update(some_progress(), false), "");
  EXPECT_EQ(display.update(some_progress(), true), std::string(kLine) + "\n");
  EXPECT_EQ(display.message("saved"), "saved\n");
  EXPECT_EQ(display.finish(), "");
}

TEST(ProgressDisplay, TerminalRewritesItsLineAndALoggingStepLeavesItStanding) {
  ProgressDisplay display(/*is_terminal=*/true);
  EXPECT_EQ(display.update(some_progress(), false), std::string("\r\x1B[K") + kLine);
  EXPECT_EQ(display.update(some_progress(), true), std::string("\r\x1B[K") + kLine + "\n");
  EXPECT_EQ(display.update(some_progress(), true), std::string(kLine) + "\n");
}

TEST(ProgressDisplay, RewrittenLineLeavesTheLastColumnFree) {
  ProgressDisplay display(/*is_terminal=*/true, 10);
  EXPECT_EQ(display.update(some_progress(), false), "\r\x1B[Kstep   20");
}

TEST(ProgressDisplay, MessageReplacesAnOpenLine) {
  ProgressDisplay display(/*is_terminal=*/true);
  static_cast<void>(display.update(some_progress(), false));
  EXPECT_EQ(display.message("saved"), "\r\x1B[Ksaved\n");
}

TEST(ProgressDisplay, FinishEndsAnOpenLineOnce) {
  ProgressDisplay display(/*is_terminal=*/true);
  static_cast<void>(display.update(some_progress(), false));
  EXPECT_EQ(display.finish(), "\n");
  EXPECT_EQ(display.finish(), "");
}

}  // namespace
}  // namespace trireme
