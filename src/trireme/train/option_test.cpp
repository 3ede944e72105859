#include "trireme/train/option.h"

#include <fstream>
#include <iterator>
#include <limits>
#include <set>

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(OptionTable, NamesAreUnique) {
  std::set<std::string> names;
  for (const Option& option : train_options()) {
    EXPECT_TRUE(names.insert(option.name()).second) << option.name();
  }
}

TEST(OptionTable, EachDefaultIsValidUnlessTheOptionIsRequired) {
  for (const Option& option : train_options()) {
    if (!option.is_required) {
      EXPECT_NO_THROW(check_value(option, option.default_value, "")) << option.name();
    }
  }
}

TEST(OptionTable, AssignedValueIsTheValueReadBack) {
  for (const Option& option : train_options()) {
    TrainConfig config;
    option.assign(config, option.default_value);
    EXPECT_EQ(option.value_in(config), option.default_value) << option.name();
    EXPECT_EQ(type_of(option.value_in(config)), option.type) << option.name();
  }
}

TEST(OptionTable, EachAliasIsNoKeyOfItsOwnSection) {
  for (const Option& option : train_options()) {
    for (const std::string_view alias : option.aliases) {
      EXPECT_EQ(find_option(option.section, alias), nullptr) << option.name() << ' ' << alias;
    }
  }
}

TEST(OptionTable, HasTheContractsKeys) {
  const std::vector<std::pair<std::string, std::string>> contract{
      {"run", "name dir seed steps log_every eval_every eval_tokens sample on_nonfinite"},
      {"model",
       "file checkpoint family layers hidden heads kv_heads head_dim ffn vocab max_seq rope_base "
       "norm_eps tied qkv_bias qk_norm dropout"},
      {"data", "text jsonl tokens tokenizer val_fraction document_mask"},
      {"batch", "seq micro_batch global_batch"},
      {"layout",
       "pp dp cp cp_comm tp sp zero reduce dp_sync bucket_mib schedule chunks stages recompute "
       "prefetch "
       "reshard transport threads_per_rank"},
      {"precision", "compute reduce"},
      {"optimizer", "lr betas eps weight_decay decay_norms clip"},
      {"lr", "shape warmup_steps decay_steps min_lr"},
      {"checkpoint", "every keep_last keep_every async resume"},
      {"trace", "steps"}};
  for (const auto& [section, keys] : contract) {
    for (std::size_t begin = 0; begin < keys.size();) {
      const std::size_t end = std::min(keys.find(' ', begin), keys.size());
      const std::string key = keys.substr(begin, end - begin);
      EXPECT_NE(find_option(section, key), nullptr) << section << '.' << key;
      begin = end + 1;
    }
  }
}

TEST(TomlText, NumbersAreShortestAndFloatsLookLikeFloats) {
  EXPECT_EQ(toml_text(0.1), "0.1");
  EXPECT_EQ(toml_text(25.0), "25.0");
  EXPECT_EQ(toml_text(1e22), "1e+22");
  EXPECT_EQ(toml_text(std::int64_t{-3}), "-3");
  EXPECT_EQ(toml_text(-std::numeric_limits<double>::infinity()), "-inf");
}

TEST(TomlText, TextIsQuotedAndControlCharactersAreEscaped) {
  EXPECT_EQ(toml_text(std::string("a\"b\\c\n\x7F")), R"("a\"b\\c\u000A\u007F")");
  EXPECT_EQ(toml_text(std::vector<std::string>{"a", "b"}), R"(["a", "b"])");
}

TEST(KeyRemedy, FarOffWordStaysInItsSection) {
  EXPECT_EQ(key_remedy("trace", "zzz"), "did you mean \"steps\" in [trace]?");
}

TEST(KeyRemedy, CapitalsAndHyphensAreForgiven) {
  EXPECT_EQ(key_remedy("layout", "Bucket-MiB"), "did you mean \"bucket_mib\" in [layout]?");
}

TEST(ReferencePage, IsUpToDate) {
  std::ifstream file(TRIREME_REFERENCE_PAGE, std::ios::binary);
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  const std::string generated_path = testing::TempDir() + "configuration.md";
  std::ofstream(generated_path, std::ios::binary) << configuration_reference();
  EXPECT_TRUE(page == configuration_reference())
      << "the option table has changed; cp " << generated_path << ' ' << TRIREME_REFERENCE_PAGE;
}

}  // namespace
}  // namespace trireme
