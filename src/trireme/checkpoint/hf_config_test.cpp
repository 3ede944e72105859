#include "trireme/checkpoint/hf_config.h"

#include <nlohmann/json.hpp>

#include <gtest/gtest.h>

#include "trireme/base/errors.h"
#include "trireme/base/test_files.h"

namespace trireme {
namespace {

using Json = nlohmann::json;

ModelSpec grouped_llama() {
  return resolved({.family = Family::kLlama,
                   .layers = 2,
                   .hidden = 48,
                   .heads = 6,
                   .kv_heads = 2,
                   .head_dim = 8,
                   .ffn = 80,
                   .vocab = 101,
                   .max_seq = 64,
                   .rope_base = 500000.0,
                   .norm_eps = 1e-6});
}

/// Keys as transformers writes them for LlamaConfig.
Json llama_config() {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"attention_bias", false},
          {"attention_dropout", 0.0},
          {"bos_token_id", 1},
          {"eos_token_id", 2},
          {"head_dim", 8},
          {"hidden_act", "silu"},
          {"hidden_size", 48},
          {"initializer_range", 0.02},
          {"intermediate_size", 80},
          {"max_position_embeddings", 64},
          {"mlp_bias", false},
          {"model_type", "llama"},
          {"num_attention_heads", 6},
          {"num_hidden_layers", 2},
          {"num_key_value_heads", 2},
          {"pretraining_tp", 1},
          {"rms_norm_eps", 1e-6},
          {"rope_scaling", nullptr},
          {"rope_theta", 500000.0},
          {"tie_word_embeddings", false},
          {"torch_dtype", "bfloat16"},
          {"transformers_version", "4.40.0"},
          {"use_cache", true},
          {"vocab_size", 101}};
}

Json gpt2_config() {
  return {{"architectures", {"GPT2LMHeadModel"}},
          {"model_type", "gpt2"},
          {"activation_function", "gelu_new"},
          {"attn_pdrop", 0.1},
          {"embd_pdrop", 0.1},
          {"resid_pdrop", 0.1},
          {"layer_norm_epsilon", 1e-5},
          {"n_ctx", 16},
          {"n_embd", 48},
          {"n_head", 6},
          {"n_inner", nullptr},
          {"n_layer", 2},
          {"n_positions", 16},
          {"summary_type", "cls_index"},
          {"vocab_size", 101}};
}

ModelSpec read_back(const std::string& json) {
  const TestFolder folder;
  folder.write("config.json", json);
  return model_spec_from_hf_config(folder.path());
}

ModelSpec read_back(const Json& json) {
  return read_back(json.dump());
}

std::string refusal(const Json& json) {
  return message_of<ResourceError>([&] { static_cast<void>(read_back(json)); });
}

TEST(HfConfig, LlamaReadsBackEqual) {
  EXPECT_EQ(read_back(hf_config_json(grouped_llama())), grouped_llama());
}

TEST(HfConfig, TiedQwen2ReadsBackEqual) {
  ModelSpec spec = grouped_llama();
  spec.qkv_bias = spec.tied = true;
  EXPECT_EQ(read_back(hf_config_json(spec)), spec);
}

TEST(HfConfig, Qwen3ReadsBackEqual) {
  ModelSpec spec = grouped_llama();
  spec.qk_norm = true;
  EXPECT_EQ(read_back(hf_config_json(spec)), spec);
}

TEST(HfConfig, Gpt2ReadsBackEqual) {
  const ModelSpec spec = resolved({.family = Family::kGpt2,
                                   .layers = 2,
                                   .hidden = 48,
                                   .heads = 6,
                                   .ffn = 80,
                                   .vocab = 101,
                                   .max_seq = 16,
                                   .dropout = 0.25});
  EXPECT_EQ(read_back(hf_config_json(spec)), spec);
}

TEST(HfConfig, ArchitectureFollowsTheSwitches) {
  ModelSpec spec = grouped_llama();
  EXPECT_EQ(Json::parse(hf_config_json(spec))["architectures"], Json({"LlamaForCausalLM"}));
  spec.qkv_bias = true;
  EXPECT_EQ(Json::parse(hf_config_json(spec))["architectures"], Json({"Qwen2ForCausalLM"}));
}

TEST(HfConfig, BothQueryKeySwitchesHaveNoArchitecture) {
  ModelSpec spec = grouped_llama();
  spec.qkv_bias = spec.qk_norm = true;
  EXPECT_CONTAINS(message_of<UsageError>([&] { static_cast<void>(hf_config_json(spec)); }),
                  "qkv_bias = true with qk_norm = true");
}

TEST(HfConfig, ConfigOfTransformersIsRead) {
  EXPECT_EQ(read_back(llama_config()), grouped_llama());
}

TEST(HfConfig, RotationBaseOfTransformers5IsRead) {
  Json json = llama_config();
  json.erase("rope_theta");
  json.erase("rope_scaling");
  json["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 500000.0}};
  EXPECT_EQ(read_back(json), grouped_llama());
}

TEST(HfConfig, Gpt2DefaultsItsInnerWidth) {
  const ModelSpec spec = read_back(gpt2_config());
  EXPECT_EQ(spec.ffn, 192);
  EXPECT_TRUE(spec.tied);
}

TEST(HfConfig, RopeScalingIsRefusedByName) {
  Json json = llama_config();
  json["rope_scaling"] = {{"rope_type", "llama3"}, {"factor", 8.0}};
  EXPECT_CONTAINS(refusal(json), "\"rope_scaling\" has \"factor\" = 8.0");
  json["rope_scaling"] = {{"rope_type", "llama3"}};
  EXPECT_CONTAINS(refusal(json), "\"rope_type\" = \"llama3\"");
}

TEST(HfConfig, SlidingWindowIsRefusedByName) {
  Json json = llama_config();
  json["sliding_window"] = 4096;
  EXPECT_CONTAINS(refusal(json), "\"sliding_window\" = 4096");
}

TEST(HfConfig, OtherActivationIsRefusedByName) {
  Json json = llama_config();
  json["hidden_act"] = "gelu";
  EXPECT_CONTAINS(refusal(json), "\"hidden_act\" = \"gelu\": only \"silu\" is built");
}

TEST(HfConfig, UnknownKeyIsRefusedByName) {
  Json json = llama_config();
  json["quantization_config"] = {{"bits", 4}};
  EXPECT_CONTAINS(refusal(json), "\"quantization_config\" = {\"bits\":4}");
}

TEST(HfConfig, OtherArchitectureIsRefusedByName) {
  Json json = llama_config();
  json["architectures"] = {"MixtralForCausalLM"};
  EXPECT_CONTAINS(refusal(json), "\"architectures\" = [\"MixtralForCausalLM\"]");
}

TEST(HfConfig, MissingSizeIsNamed) {
  Json json = llama_config();
  json.erase("hidden_size");
  EXPECT_CONTAINS(refusal(json), "has no \"hidden_size\"");
}

TEST(HfConfig, NegativeSizeIsNamed) {
  Json json = llama_config();
  json["vocab_size"] = -5;
  EXPECT_CONTAINS(refusal(json), "\"vocab_size\" is no unsigned integer");
}

TEST(HfConfig, UnequalDropoutsAreRefused) {
  Json json = gpt2_config();
  json["attn_pdrop"] = 0.2;
  EXPECT_CONTAINS(refusal(json), "\"attn_pdrop\" = 0.2 with resid_pdrop = 0.1");
}

TEST(HfConfig, HeadsThatDoNotDivideAreRefusedWithTheFile) {
  Json json = llama_config();
  json["num_key_value_heads"] = 4;
  EXPECT_CONTAINS(refusal(json), "config.json: [model] kv_heads = 4 with heads = 6");
}

TEST(HfConfig, FolderWithoutConfigIsAUsageError) {
  const TestFolder folder;
  EXPECT_CONTAINS(
      message_of<UsageError>([&] { static_cast<void>(model_spec_from_hf_config(folder.path())); }),
      "config.json: no such file");
}

}  // namespace
}  // namespace trireme
