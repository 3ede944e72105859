#include "trireme/plan/predict_table.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(PredictTable, PlaceHolder) {
  SUCCEED();
}

}  // namespace
}  // namespace trireme
