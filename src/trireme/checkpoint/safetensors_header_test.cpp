// Headers from anywhere: each is accepted as the reference reader accepts it, or refused by name.
#include "trireme/checkpoint/safetensors_header.h"

#include <limits>
#include <string>

#include <gtest/gtest.h>

#include "trireme/base/errors.h"
#include "trireme/base/test_files.h"

namespace trireme {
namespace {

SafetensorsHeader parse(std::string_view json, std::int64_t data_bytes) {
  return parse_header(json, {.name = "x", .data_offset = 100, .file_bytes = 100 + data_bytes});
}

std::string parse_error(std::string_view json, std::int64_t data_bytes) {
  return message_of<ResourceError>([&] { static_cast<void>(parse(json, data_bytes)); });
}

std::string entry(std::string_view shape, std::string_view offsets) {
  return "{\"w\":{\"dtype\":\"F32\",\"shape\":" + std::string(shape) +
         ",\"data_offsets\":" + std::string(offsets) + "}}";
}

TEST(SafetensorsHeader, EmptyIsFine) {
  EXPECT_TRUE(parse("{}      ", 0).tensors.empty());
}

TEST(SafetensorsHeader, AScalarHasOneElement) {
  EXPECT_EQ(
      parse(entry("[]", "[0,4]"), 4).tensors.at(0),
      (TensorInfo{.name = "w", .dtype = DType::kF32, .shape = {}, .offset = 100, .bytes = 4}));
}

TEST(SafetensorsHeader, AnEmptyTensorMayStandAtTheEnd) {
  const SafetensorsHeader header = parse(R"({"e":{"dtype":"F32","shape":[0],"data_offsets":[8,8]},)"
                                         R"("w":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}})",
                                         8);
  EXPECT_EQ(header.tensors.at(0).name, "w");
  EXPECT_EQ(header.tensors.at(1).name, "e");
  EXPECT_EQ(header.tensors.at(1).bytes, 0);
}

TEST(SafetensorsHeader, MetadataIsKept) {
  EXPECT_EQ(parse(R"({"__metadata__":{"format":"pt","b":""}})", 0).metadata,
            (TensorMetadata{{"b", ""}, {"format", "pt"}}));
}

TEST(SafetensorsHeader, RefusesALeadingSpace) {
  EXPECT_CONTAINS(parse_error(" {}", 0), "must start with '{'");
}

TEST(SafetensorsHeader, RefusesNulPadding) {
  EXPECT_CONTAINS(parse_error(std::string_view("{}\0\0\0\0\0\0", 8), 0), "NUL byte at offset 2");
}

TEST(SafetensorsHeader, RefusesTextAfterTheObject) {
  EXPECT_CONTAINS(parse_error("{}{}", 0), "header is not JSON");
}

TEST(SafetensorsHeader, RefusesAnEntryWithoutBytes) {
  EXPECT_CONTAINS(parse_error(entry("[1]", "[0,0]"), 0),
                  "tensor \"w\": data_offsets [0,0] are 0 bytes; F32 [1] takes 4 bytes");
}

TEST(SafetensorsHeader, RefusesAProductThatWraps) {
  EXPECT_CONTAINS(parse_error(entry("[4294967296,4294967296]", "[0,0]"), 0),
                  "tensor \"w\": shape [4294967296,4294967296]; its size in bytes must be below");
}

TEST(SafetensorsHeader, RefusesAProductThatWrapsBeforeAZero) {
  EXPECT_CONTAINS(parse_error(entry("[4294967296,4294967296,0]", "[0,0]"), 0), "tensor \"w\"");
}

TEST(SafetensorsHeader, RefusesASizeOf2To63) {
  EXPECT_CONTAINS(parse_error(entry("[9223372036854775808]", "[0,0]"), 0),
                  "tensor \"w\": \"shape\" holds 9223372036854775808; sizes and offsets are below");
}

TEST(SafetensorsHeader, RefusesASizeBeyond64Bits) {
  EXPECT_CONTAINS(parse_error(entry("[18446744073709551616]", "[0,0]"), 0),
                  "tensor \"w\": \"shape\" holds 18446744073709551616");
}

TEST(SafetensorsHeader, RefusesNegativeSizes) {
  EXPECT_CONTAINS(parse_error(entry("[-1,-4]", "[0,16]"), 16),
                  "tensor \"w\": \"shape\" holds -1; sizes and offsets are not negative");
}

TEST(SafetensorsHeader, RefusesAFraction) {
  EXPECT_CONTAINS(parse_error(entry("[1.5]", "[0,6]"), 6), "\"shape\" holds 1.5");
}

TEST(SafetensorsHeader, RefusesAnExponent) {
  EXPECT_CONTAINS(parse_error(entry("[1e3]", "[0,4000]"), 4000), "\"shape\" holds 1e3");
}

TEST(SafetensorsHeader, RefusesOffsetsInReverse) {
  EXPECT_CONTAINS(parse_error(entry("[1]", "[8,4]"), 8), "begin must not be after end");
}

TEST(SafetensorsHeader, RefusesAnEndOf2To64) {
  EXPECT_CONTAINS(parse_error(entry("[1]", "[0,18446744073709551615]"), 4),
                  "tensor \"w\": \"data_offsets\" holds 18446744073709551615");
}

TEST(SafetensorsHeader, RefusesAnEndBeyondTheFile) {
  EXPECT_CONTAINS(parse_error(entry("[2]", "[0,8]"), 7), "the file holds 7 bytes of data");
}

TEST(SafetensorsHeader, RefusesOneOffset) {
  EXPECT_CONTAINS(parse_error(entry("[1]", "[4]"), 4), "they are two");
}

TEST(SafetensorsHeader, RefusesAHoleInTheData) {
  EXPECT_CONTAINS(parse_error(entry("[1]", "[4,8]"), 8), "data begins at 4");
}

TEST(SafetensorsHeader, RefusesOverlaps) {
  EXPECT_CONTAINS(parse_error(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                              R"("b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
                              8),
                  "tensor \"b\": data begins at 4, the data before it ends at 8");
}

TEST(SafetensorsHeader, RefusesBytesOfNoTensor) {
  EXPECT_CONTAINS(parse_error(entry("[1]", "[0,4]"), 5), "5 bytes of data, its tensors take 4");
}

TEST(SafetensorsHeader, NamesATensorGivenTwice) {
  EXPECT_CONTAINS(parse_error(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                              R"("w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
                              4),
                  "key \"w\" appears twice");
}

TEST(SafetensorsHeader, NamesATensorGivenTwiceWithOtherRanges) {
  EXPECT_CONTAINS(parse_error(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                              R"("w":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
                              8),
                  "key \"w\" appears twice");
}

TEST(SafetensorsHeader, SeesThroughEscapesInARepeatedName) {
  EXPECT_CONTAINS(parse_error(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                              R"("\u0077":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
                              4),
                  "key \"w\" appears twice");
}

TEST(SafetensorsHeader, NamesAFieldGivenTwice) {
  EXPECT_CONTAINS(
      parse_error(R"({"w":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4),
      "key \"dtype\" appears twice in the entry \"w\"");
}

TEST(SafetensorsHeader, NamesMetadataGivenTwice) {
  EXPECT_CONTAINS(parse_error(R"({"__metadata__":{},"__metadata__":{}})", 0),
                  "key \"__metadata__\" appears twice");
}

TEST(SafetensorsHeader, NamesAMetadataKeyGivenTwice) {
  EXPECT_CONTAINS(parse_error(R"({"__metadata__":{"a":"1","a":"2"}})", 0), "key \"a\" appears");
}

TEST(SafetensorsHeader, RefusesMetadataThatIsNoText) {
  EXPECT_CONTAINS(parse_error(R"({"__metadata__":{"a":1}})", 0), "\"__metadata__\": \"a\" holds 1");
}

TEST(SafetensorsHeader, RefusesAnUnknownDtypeByName) {
  EXPECT_CONTAINS(parse_error(R"({"w":{"dtype":"F8_E4M3","shape":[1],"data_offsets":[0,1]}})", 1),
                  "tensor \"w\": dtype \"F8_E4M3\"; F32, BF16");
}

TEST(SafetensorsHeader, RefusesAMissingField) {
  EXPECT_CONTAINS(parse_error(R"({"w":{"dtype":"F32","data_offsets":[0,4]}})", 4), "has no shape");
}

TEST(SafetensorsHeader, RefusesAnUnknownField) {
  EXPECT_CONTAINS(parse_error(R"({"w":{"stride":[1]}})", 0), "unknown field \"stride\"");
}

TEST(SafetensorsHeader, RefusesAnEntryThatIsNoObject) {
  EXPECT_CONTAINS(parse_error(R"({"w":null})", 0), "tensor \"w\": is null");
}

TEST(SafetensorsHeader, RefusesAListOfLists) {
  EXPECT_CONTAINS(parse_error(entry("[[1]]", "[0,4]"), 4), "\"shape\" holds a list");
}

TEST(SafetensorsHeader, RefusesMoreDimensionsThanAnyTensorHas) {
  std::string shape = "[1";
  for (int i = 0; i < 64; ++i) shape += ",1";
  EXPECT_CONTAINS(parse_error(entry(shape + "]", "[0,4]"), 4), "more than 64 numbers");
}

EncodedHeader encode(std::vector<TensorSpec> specs) {
  return encode_header(std::move(specs), {});
}

// The two headers of safetensors #231: 64 bytes need no padding, 65 need seven spaces.
TEST(SafetensorsHeader, AHeaderOfAMultipleOfEightIsNotPadded) {
  const EncodedHeader header =
      encode({{.name = "attn.0", .dtype = DType::kF32, .shape = {1, 2, 3}}});
  EXPECT_EQ(header.bytes,
            std::string("\x40\0\0\0\0\0\0\0", 8) +
                R"({"attn.0":{"dtype":"F32","shape":[1,2,3],"data_offsets":[0,24]}})");
}

TEST(SafetensorsHeader, AHeaderOf65BytesIsPaddedTo72) {
  const EncodedHeader header =
      encode({{.name = "attn0", .dtype = DType::kF32, .shape = {1, 1, 2, 3}}});
  EXPECT_EQ(header.bytes,
            std::string("\x48\0\0\0\0\0\0\0", 8) +
                R"({"attn0":{"dtype":"F32","shape":[1,1,2,3],"data_offsets":[0,24]}}       )");
}

TEST(SafetensorsHeader, WidestDtypeComesFirstThenTheName) {
  const EncodedHeader header = encode({{.name = "a", .dtype = DType::kU8, .shape = {3}},
                                       {.name = "c", .dtype = DType::kBf16, .shape = {1}},
                                       {.name = "b", .dtype = DType::kBf16, .shape = {1}},
                                       {.name = "z", .dtype = DType::kF64, .shape = {}}});
  std::string order;
  for (const TensorInfo& tensor : header.tensors) order += tensor.name;
  EXPECT_EQ(order, "zbca");
  EXPECT_EQ(header.tensors.at(0).offset % 8, 0);
  EXPECT_EQ(header.file_bytes, header.tensors.at(0).offset + 8 + 2 + 2 + 3);
}

TEST(SafetensorsHeader, SizesBeyond4GiBAreExact) {
  const EncodedHeader header = encode({{.name = "a", .dtype = DType::kF32, .shape = {40000, 40000}},
                                       {.name = "b", .dtype = DType::kF32, .shape = {1}}});
  EXPECT_EQ(header.tensors.at(1).offset - header.tensors.at(0).offset, 6'400'000'000);
}

TEST(SafetensorsHeader, WhatIsEncodedParsesBack) {
  const TensorMetadata metadata{{"format", "pt"}, {"quote\"", "line\nbreak"}};
  const EncodedHeader encoded =
      encode_header({{.name = "w\"\n", .dtype = DType::kI64, .shape = {2, 0}},
                     {.name = "v", .dtype = DType::kI32, .shape = {3}}},
                    metadata);
  const SafetensorsHeader header = parse_header(
      std::string_view(encoded.bytes).substr(8),
      {.name = "x", .data_offset = std::ssize(encoded.bytes), .file_bytes = encoded.file_bytes});
  EXPECT_EQ(header.tensors, encoded.tensors);
  EXPECT_EQ(header.metadata, metadata);
}

TEST(SafetensorsHeader, WritingRefusesARepeatedName) {
  EXPECT_CONTAINS(message_of<UsageError>([] {
                    static_cast<void>(encode({{.name = "w", .dtype = DType::kF32, .shape = {}},
                                              {.name = "w", .dtype = DType::kF32, .shape = {}}}));
                  }),
                  "tensor \"w\" is given twice");
}

TEST(SafetensorsHeader, WritingRefusesTheMetadataNameForATensor) {
  EXPECT_CONTAINS(
      message_of<UsageError>([] {
        static_cast<void>(encode({{.name = "__metadata__", .dtype = DType::kF32, .shape = {}}}));
      }),
      "is reserved");
}

TEST(SafetensorsHeader, WritingRefusesANameThatIsNotUtf8) {
  EXPECT_CONTAINS(
      message_of<UsageError>(
          [] { static_cast<void>(encode({{.name = "\xFF", .dtype = DType::kF32, .shape = {}}})); }),
      "not UTF-8");
}

TEST(SafetensorsHeader, WritingRefusesANegativeSize) {
  EXPECT_THROW(static_cast<void>(encode({{.name = "w", .dtype = DType::kF32, .shape = {-1}}})),
               UsageError);
}

TEST(SafetensorsHeader, WritingRefusesSizesThatAddUpBeyond2To63) {
  const std::vector<std::int64_t> half = {std::int64_t{1} << 62};
  EXPECT_THROW(static_cast<void>(encode({{.name = "a", .dtype = DType::kU8, .shape = half},
                                         {.name = "b", .dtype = DType::kU8, .shape = half}})),
               UsageError);
}

TEST(SafetensorsHeader, WritingRefusesAHeaderThatNoReaderTakes) {
  EXPECT_CONTAINS(message_of<UsageError>([] {
                    static_cast<void>(encode_header({}, {{"a", std::string(100'000'000, 'x')}}));
                  }),
                  "readers refuse more than 100000000");
}

}  // namespace
}  // namespace trireme
