#include "trireme/base/errors.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(Errors, CheckNamesTheExpressionAndItsPlace) {
  try {
    TRI_CHECK(1 + 1 == 3);
    FAIL() << "did not throw";
  } catch (const InternalError& error) {
    EXPECT_NE(std::string(error.what()).find("1 + 1 == 3"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("errors_test.cpp"), std::string::npos);
  }
}

TEST(Errors, PeerLostIsAResourceError) {
  EXPECT_THROW(throw PeerLost("x"), ResourceError);
}

}  // namespace
}  // namespace trireme
