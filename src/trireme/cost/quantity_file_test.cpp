#include "trireme/cost/quantity_file.h"

#include <gtest/gtest.h>

#include "trireme/base/errors.h"
#include "trireme/cost/cluster.h"

namespace trireme {
namespace {

const QuantityRules& rules() {
  static const QuantityRules result{
      .what = "test file",
      .texts = {{.key = "name"}},
      .quantities = {{.key = "node.devices", .unit = "1", .min = 1, .max = 64},
                     {.key = "node.latency", .unit = "s", .is_optional = true}},
      .tables = {{.key = "all_reduce", .columns = {"nodes", "B/s"}}}};
  return result;
}

std::string file_with(const std::string& devices, const std::string& more = "") {
  return "name = \"x\"\n[node]\ndevices = " + devices + "\n" + more;
}

std::string refusal(const std::string& text) {
  try {
    static_cast<void>(parse_quantity_file(text, "x.toml", rules()));
  } catch (const UsageError& error) {
    return error.what();
  }
  return "accepted";
}

constexpr const char* kDevices = R"({ value = 8, unit = "1", kind = "datasheet", source = "DGX" })";

TEST(QuantityFile, ReadsWhatItWrites) {
  const QuantityFile file =
      parse_quantity_file(file_with(kDevices,
                                    "[all_reduce]\ncolumns = [\"nodes\", \"B/s\"]\nkind = "
                                    "\"measured\"\nsource = \"a \\\"run\\\"\"\n"
                                    "rows = [[1, 435.967e9], [2, 3.5e11]]\n"),
                          "x.toml", rules());
  EXPECT_EQ(file.value("node.devices"), 8);
  EXPECT_EQ(file.value_or("node.latency", 3), 3);
  EXPECT_EQ(file.table("all_reduce")->rows[0][1], 435.967e9);
  EXPECT_EQ(parse_quantity_file(quantity_file_text(file, rules()), "x.toml", rules()), file);
}

TEST(QuantityFile, NumberWithoutSourceIsRefused) {
  EXPECT_EQ(
      refusal(file_with(R"({ value = 8, unit = "1", kind = "datasheet" })")),
      "[x.toml:3:11] node.devices: needs source = \"...\": each number says where it comes from");
}

TEST(QuantityFile, OtherUnitIsRefused) {
  EXPECT_EQ(refusal(file_with(R"({ value = 8, unit = "GB", kind = "datasheet", source = "s" })")),
            "[x.toml:3:11] node.devices: unit = \"GB\": must be \"1\"; convert the value");
}

TEST(QuantityFile, ValueOutOfRangeIsRefused) {
  EXPECT_EQ(refusal(file_with(R"({ value = 0, unit = "1", kind = "datasheet", source = "s" })")),
            "[x.toml:3:11] node.devices = 0: must lie between 1 and 64");
}

TEST(QuantityFile, UnknownKindIsRefused) {
  EXPECT_EQ(refusal(file_with(R"({ value = 8, unit = "1", kind = "guess", source = "s" })")),
            "[x.toml:3:11] node.devices: kind = \"guess\": must be one of datasheet, published, "
            "measured, fitted");
}

TEST(QuantityFile, UnknownKeyNamesTheNearest) {
  EXPECT_EQ(refusal(file_with(kDevices, "latancy = { value = 1, unit = \"s\" }\n")),
            "[x.toml:4:11] node.latancy: no such key in a test file; did you mean node.latency?");
}

TEST(QuantityFile, MissingKeyIsRefused) {
  EXPECT_EQ(refusal("name = \"x\"\n"),
            "[x.toml] node.devices is missing: a test file must have it; add it");
}

TEST(QuantityFile, BrokenSyntaxNamesTheLine) {
  EXPECT_EQ(refusal("name = \"x\"\nnode = [\n").substr(0, 9), "[x.toml:2");
}

TEST(Cluster, EveryBuiltInFileIsRead) {
  int num_clusters = 0;
  for (const BuiltInFile& file : built_in_files()) {
    if (file.folder != "clusters") continue;
    ++num_clusters;
    EXPECT_EQ(read_cluster(std::string(file.stem)).name, file.stem);
  }
  EXPECT_GE(num_clusters, 6);
}

TEST(Cluster, PeakOfH100IsTheDenseOne) {
  EXPECT_EQ(read_cluster("h100-dgx").device.peak_flops_per_second, 989e12);
  EXPECT_EQ(read_cluster("h100-dgx").device.memory_bytes, 81559.0 * 1024 * 1024);
}

TEST(Cluster, UnknownNameIsRefusedWithTheNearest) {
  try {
    static_cast<void>(read_cluster("h100-dgs"));
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("did you mean h100-dgx?"), std::string::npos);
  }
}

TEST(BandwidthByNodes, IsInterpolatedInTheLogarithmOfTheNodes) {
  const BandwidthByNodes bandwidth{.nodes = {1, 4}, .bytes_per_second = {400, 100}};
  EXPECT_DOUBLE_EQ(bandwidth.at(1), 400);
  EXPECT_DOUBLE_EQ(bandwidth.at(2), 200);
  EXPECT_DOUBLE_EQ(bandwidth.at(16), 25);
}

}  // namespace
}  // namespace trireme
