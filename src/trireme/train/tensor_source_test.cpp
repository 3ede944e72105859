#include "trireme/train/tensor_source.h"

#include <gtest/gtest.h>

#include "trireme/base/bf16.h"
#include "trireme/base/errors.h"
#include "trireme/base/test_files.h"

namespace trireme {
namespace {

/// A file of one tensor [3, 4] with the values 0, 1, 2, ...
class OneTensor : public testing::Test {
 protected:
  void write(DType dtype) const {
    SafetensorsWriter writer(files_.path() / "model.safetensors",
                             {{.name = "w", .dtype = dtype, .shape = {3, 4}}});
    for (int i = 0; i < 12; ++i) {
      const auto value = static_cast<float>(i);
      const Bf16 rounded = to_bf16(value);
      dtype == DType::kF32 ? writer.write("w", std::as_bytes(std::span(&value, 1)))
                           : writer.write("w", std::as_bytes(std::span(&rounded, 1)));
    }
    writer.finish();
  }

  struct Reading {
    std::vector<float> values;
    std::int64_t bytes = 0;
    bool operator==(const Reading&) const = default;
  };
  [[nodiscard]] Reading read(const Rectangle& part, bool is_transposed = false) const {
    const ShardedReader reader(files_.path());
    const std::int64_t header_bytes = reader.bytes_read();
    const TensorSource source(reader, "w", {3, 4}, is_transposed);
    std::vector<float> values(static_cast<std::size_t>(part.num_elems()));
    source.read(part, values);
    return {values, reader.bytes_read() - header_bytes};
  }

  TestFolder files_;
};

constexpr Rectangle kLastColumnsOfLastRows{
    .first_row = 1, .num_rows = 2, .first_column = 2, .num_columns = 2};

TEST_F(OneTensor, ColumnsAreReadWithoutTheRestOfTheirRows) {
  write(DType::kF32);
  EXPECT_EQ(read(kLastColumnsOfLastRows), (Reading{{6, 7, 10, 11}, 16}));
}

TEST_F(OneTensor, Bf16IsWidened) {
  write(DType::kBf16);
  EXPECT_EQ(read(kLastColumnsOfLastRows), (Reading{{6, 7, 10, 11}, 8}));
}

TEST_F(OneTensor, WhatIsTransposedInTheFileIsTurnedRound) {
  write(DType::kF32);
  // Columns of the file are rows here.
  EXPECT_EQ(read({.first_row = 2, .num_rows = 2, .first_column = 1, .num_columns = 2}, true),
            (Reading{{6, 10, 7, 11}, 16}));
}

TEST_F(OneTensor, AnotherShapeIsRefusedNamingBoth) {
  write(DType::kF32);
  const ShardedReader reader(files_.path());
  EXPECT_CONTAINS(message_of<ResourceError>([&] {
                    TensorSource(reader, "w", {4, 3});
                  }),
                  "tensor w has shape [3, 4], the model needs [4, 3]");
}

TEST(Rectangle, OfTwoThatDoNotMeetHasNoElements) {
  const Rectangle left{.num_rows = 2, .num_columns = 2};
  const Rectangle right{.num_rows = 2, .first_column = 2, .num_columns = 2};
  EXPECT_EQ(intersection(left, right), Rectangle{});
  EXPECT_EQ(intersection({.num_rows = 2, .num_columns = 3}, right),
            (Rectangle{.num_rows = 2, .first_column = 2, .num_columns = 1}));
}

}  // namespace
}  // namespace trireme
