#include "trireme/cost/known_models.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(KnownModels, SpecHasTheFilesRopeBase) {
  EXPECT_EQ(known_spec("llama-3-8b").value().rope_base, 500000.0);
}

TEST(KnownModels, SpecHasTheFilesNormEps) {
  EXPECT_EQ(known_spec("qwen3-32b").value().norm_eps, 1e-6);
}

}  // namespace
}  // namespace trireme
