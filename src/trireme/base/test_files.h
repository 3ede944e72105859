// Test only: a folder of its own for one test, and the message of what a call throws.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <unistd.h>

#include <gtest/gtest.h>

namespace trireme {

/// Removed with all its files at the end of the test.
class TestFolder {
 public:
  TestFolder() {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    path_ = std::filesystem::path(testing::TempDir()) /
            (std::string("trireme_") + test->test_suite_name() + "_" + test->name() + "_" +
             std::to_string(::getpid()));
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~TestFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// Writes a file and returns its path.
  std::string write(std::string_view name, std::string_view content) const {
    const std::filesystem::path path = path_ / name;
    std::ofstream(path, std::ios::binary).write(content.data(), std::ssize(content));
    return path.string();
  }

 private:
  std::filesystem::path path_;
};

/// What `call` throws, which must be an `ErrorType`; "" (and a failed test) if it is not.
template <typename ErrorType, typename Call>
std::string message_of(Call call) {
  try {
    call();
  } catch (const ErrorType& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "threw another type: " << error.what();
    return "";
  }
  ADD_FAILURE() << "did not throw";
  return "";
}

#define EXPECT_CONTAINS(text, part)                             \
  do {                                                          \
    const std::string tri_text = (text);                        \
    EXPECT_NE(tri_text.find(part), std::string::npos)           \
        << "\"" << tri_text << "\" lacks \"" << (part) << "\""; \
  } while (false)

}  // namespace trireme
