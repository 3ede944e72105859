// The configuration keys themselves: one entry each, in the order of the reference page.
#include <algorithm>
#include <initializer_list>
#include <limits>
#include <type_traits>
#include <utility>

#include "trireme/base/errors.h"
#include "trireme/train/option.h"

namespace trireme {
namespace {

/// The OptionValue that holds a field of type T.
template <typename T>
OptionValue to_value(const T& field) {
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
    return std::int64_t{field};
  } else if constexpr (std::is_same_v<T, std::array<double, 2>>) {
    return std::vector<double>(field.begin(), field.end());
  } else {
    return field;
  }
}

template <typename T>
void from_value(const OptionValue& value, T& field) {
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
    field = static_cast<T>(std::get<std::int64_t>(value));
  } else if constexpr (std::is_same_v<T, std::array<double, 2>>) {
    const auto& list = std::get<std::vector<double>>(value);
    std::copy_n(list.begin(), field.size(), field.begin());
  } else {
    field = std::get<T>(value);
  }
}

/// An Option with the words in which the table below is written.
struct Entry : Option {
  Entry(std::string_view key_name, std::string_view doc_text) {
    key = key_name;
    doc = doc_text;
  }
  Entry& at_least(double least) { return range.min = least, *this; }
  Entry& at_most(double most) { return range.max = most, *this; }
  Entry& above(double bound) { return range.min = bound, range.excludes_min = true, *this; }
  Entry& below(double bound) { return range.max = bound, range.excludes_max = true, *this; }
  Entry& aka(std::initializer_list<std::string_view> names) { return aliases = names, *this; }
  Entry& required() { return is_required = true, *this; }
  Entry& path() { return is_path = true, *this; }
  Entry& csv_or_name() { return is_csv_or_name = true, *this; }
  Entry& learns() { return changes_training = true, *this; }
  Entry& only_default(std::string_view missing) { return unbuilt = missing, *this; }
  /// Valid words of a text field.
  Entry& one_of(std::initializer_list<std::string_view> valid) { return words = valid, *this; }
};

/// An entry for the field that `access(config)` refers to.
template <typename Access>
Entry field(std::string_view key, Access access, std::string_view doc) {
  using T = std::remove_cvref_t<decltype(access(std::declval<TrainConfig&>()))>;
  Entry entry(key, doc);
  entry.value_in = [access](const TrainConfig& config) { return to_value<T>(access(config)); };
  entry.assign = [access](TrainConfig& config, const OptionValue& value) {
    from_value<T>(value, access(config));
  };
  entry.default_value = entry.value_in(TrainConfig{});
  entry.type = type_of(entry.default_value);
  if constexpr (std::is_same_v<T, int>) {
    entry.range.max = std::numeric_limits<int>::max();
  } else if constexpr (std::is_same_v<T, std::array<double, 2>>) {
    entry.list_elems = 2;
  }
  return entry;
}

/// An entry for a field of an enumeration whose enumerators are named by `words`, in order.
template <typename Access>
Entry choice(std::string_view key, Access access, std::initializer_list<std::string_view> words,
             std::string_view doc) {
  using T = std::remove_cvref_t<decltype(access(std::declval<TrainConfig&>()))>;
  Entry entry(key, doc);
  entry.words = words;
  entry.value_in = [access, names = entry.words](const TrainConfig& config) -> OptionValue {
    return std::string(names.at(static_cast<std::size_t>(access(config))));
  };
  entry.assign = [access, names = entry.words](TrainConfig& config, const OptionValue& value) {
    const auto at = std::find(names.begin(), names.end(), std::get<std::string>(value));
    TRI_CHECK(at != names.end());
    access(config) = static_cast<T>(at - names.begin());
  };
  entry.default_value = entry.value_in(TrainConfig{});
  entry.type = OptionType::kText;
  return entry;
}

/// An entry for a key that has no field as yet: only `value` is valid.
Entry later(std::string_view key, OptionValue value, std::string_view missing,
            std::string_view doc) {
  Entry entry(key, doc);
  entry.value_in = [value](const TrainConfig&) { return value; };
  entry.assign = [](TrainConfig&, const OptionValue&) {};
  entry.type = type_of(value);
  entry.default_value = std::move(value);
  entry.unbuilt = missing;
  return entry;
}

using Entries = std::vector<Entry>;
using std::string_literals::operator""s;  // NOLINT: it is used

/// How `field` and `choice` reach a member of a const or mutable config.
// NOLINTBEGIN(bugprone-macro-parentheses): a name, not an expression
#define TRI_AT(member)        \
  [](auto& config) -> auto& { \
    return config.member;     \
  }
// NOLINTEND(bugprone-macro-parentheses)

Entries run_entries() {
  return {
      field("name", TRI_AT(run.name), "Name of the run; its folder is dir/name."),
      field("dir", TRI_AT(run.dir), "Folder that holds the run folders.").aka({"output_dir"}),
      field("seed", TRI_AT(run.seed), "Seed of weights, data order and dropout.")
          .at_least(0)
          .learns()
          .aka({"random_seed"}),
      field("steps", TRI_AT(run.steps), "Optimizer steps of the whole run.")
          .at_least(1)
          .at_most(1e12)
          .required()
          .learns()
          .aka({"max_steps", "num_steps", "train_iters", "max_iters", "iterations"}),
      field("log_every", TRI_AT(run.log_every), "Steps between lines on the screen.")
          .at_least(1)
          .aka({"log_interval", "log_freq", "logging_steps"}),
      field("eval_every", TRI_AT(run.eval_every), "Steps between evaluations; 0 = never.")
          .at_least(0)
          .aka({"eval_interval", "eval_freq"}),
      field("eval_tokens", TRI_AT(run.eval_tokens),
            "Tokens of one evaluation; 0 = the whole held-out part.")
          .at_least(0),
      field("sample", TRI_AT(run.sample),
            "Prompt that is continued after the last step; empty = none.")
          .aka({"prompt"}),
      choice("on_nonfinite", TRI_AT(run.on_nonfinite), {"stop", "skip"},
             "What to do when a loss or gradient norm is not finite: stop the run or skip the "
             "update.")
          .learns(),
      field("peak_gflops", TRI_AT(run.peak_gflops),
            "Peak of one rank for MFU, in 10^9 FLOP/s; 0 = measured at start.")
          .at_least(0)
          .at_most(1e9),
  };
}

Entries model_entries() {
  return {
      field("file", TRI_AT(model.file),
            "File with these keys (without a section); keys set here override it.")
          .path(),
      field("checkpoint", TRI_AT(model.checkpoint),
            "Folder with the initial weights; empty = random weights.")
          .path()
          .learns()
          .aka({"init_from", "pretrained"}),
      choice("family", TRI_AT(model.spec.family), {"llama", "gpt2"},
             "llama: RMSNorm, RoPE, SwiGLU; gpt2: LayerNorm, learned positions, GELU.")
          .aka({"arch", "model_type"}),
      field("layers", TRI_AT(model.spec.layers), "Transformer layers.")
          .at_least(1)
          .required()
          .aka({"num_layers", "n_layers", "n_layer", "num_hidden_layers"}),
      field("hidden", TRI_AT(model.spec.hidden), "Width of the residual stream.")
          .at_least(1)
          .required()
          .aka({"hidden_size", "d_model", "dim", "n_embd", "embed_dim"}),
      field("heads", TRI_AT(model.spec.heads), "Query heads.")
          .at_least(1)
          .required()
          .aka({"num_heads", "n_heads", "n_head", "num_attention_heads"}),
      field("kv_heads", TRI_AT(model.spec.kv_heads),
            "Key/value heads, a divisor of heads; 0 = heads.")
          .at_least(0)
          .aka({"num_key_value_heads", "n_kv_heads", "num_query_groups"}),
      field("head_dim", TRI_AT(model.spec.head_dim), "Width of one head; 0 = hidden / heads.")
          .at_least(0),
      field("ffn", TRI_AT(model.spec.ffn),
            "Width of the feed-forward part; 0 = 4 * hidden (gpt2 only).")
          .at_least(0)
          .aka({"intermediate_size", "ffn_hidden_size", "d_ff", "mlp_dim"}),
      field("vocab", TRI_AT(model.spec.vocab), "Entries of the token table.")
          .at_least(1)
          .required()
          .aka({"vocab_size"}),
      field("max_seq", TRI_AT(model.spec.max_seq),
            "Longest sequence: learned positions (gpt2), limit of generation; tokens.")
          .at_least(0)
          .aka({"max_position_embeddings", "block_size", "context_length"}),
      field("rope_base", TRI_AT(model.spec.rope_base), "Base of the rotary frequencies.")
          .above(0)
          .aka({"rope_theta", "rotary_base"}),
      field("norm_eps", TRI_AT(model.spec.norm_eps), "Added to the variance in a norm.")
          .above(0)
          .at_most(1)
          .aka({"rms_norm_eps", "layernorm_epsilon"}),
      field("tied", TRI_AT(model.spec.tied),
            "One table as embedding and as head; always true for gpt2.")
          .aka({"tie_word_embeddings", "tied_embeddings"}),
      field("qkv_bias", TRI_AT(model.spec.qkv_bias), "Bias of q, k and v (Qwen2); llama only."),
      field("qk_norm", TRI_AT(model.spec.qk_norm),
            "RMSNorm of each query and key head (Qwen3); llama only."),
      field("dropout", TRI_AT(model.spec.dropout), "Probability of dropping a value; gpt2 only.")
          .at_least(0)
          .below(1),
  };
}

Entries data_entries() {
  return {
      field("text", TRI_AT(data.text), "Files of plain text.")
          .path()
          .required()
          .aka({"path", "paths", "files", "dataset", "train_data"}),
      later("jsonl", std::vector<std::string>{}, "reading JSON lines",
            "Files with one JSON object per line."),
      later("tokens", std::vector<std::string>{}, "reading token files", "Files of token numbers."),
      later("tokenizer", "bytes"s, "a tokenizer other than bytes",
            "\"bytes\" (one token per byte) or a tokenizer's path."),
      field("val_fraction", TRI_AT(data.val_fraction),
            "Share of the text that is held out for evaluation.")
          .at_least(0)
          .below(1)
          .aka({"validation_split", "val_split"}),
      later("document_mask", false, "masking attention between documents",
            "Attention stays within a document."),
  };
}

Entries batch_entries() {
  return {
      field("seq", TRI_AT(batch.seq), "Tokens of one sequence.")
          .at_least(1)
          .required()
          .aka({"seq_len", "seq_length", "sequence_length", "context"}),
      field("micro_batch", TRI_AT(batch.micro_batch), "Sequences that a rank handles at once.")
          .at_least(1)
          .aka({"micro_batch_size", "local_batch_size", "per_device_train_batch_size"}),
      field("global_batch", TRI_AT(batch.global_batch),
            "Sequences of one step over all ranks, a multiple of micro_batch * dp.")
          .at_least(1)
          .required()
          .aka({"global_batch_size", "batch_size", "train_batch_size"}),
  };
}

Entries degree_entries() {
  return {
      field("pp", TRI_AT(layout.pp), "Ranks of the pipeline.")
          .at_least(1)
          .aka({"pipeline_parallel", "pipeline_model_parallel_size"}),
      field("dp", TRI_AT(layout.dp), "Data-parallel replicas.")
          .at_least(1)
          .aka({"data_parallel", "data_parallel_size"}),
      field("cp", TRI_AT(layout.cp),
            "Context-parallel ranks, over which each sequence is cut; seq is a multiple of 2 * cp.")
          .at_least(1)
          .aka({"context_parallel", "context_parallel_size"}),
      choice("cp_comm", TRI_AT(layout.cp_comm), {"ring", "all_gather"},
             "How attention gets the keys and values of other cp ranks: round a ring beside the "
             "computation, or all before it; no effect with cp = 1.")
          .aka({"cp_comm_type", "context_parallel_rotate_method"}),
      field("tp", TRI_AT(layout.tp),
            "Tensor-parallel pieces of a layer: a divisor of heads, kv_heads and ffn.")
          .at_least(1)
          .aka({"tensor_parallel", "tensor_model_parallel_size"}),
      field("ep", TRI_AT(layout.ep), "Expert-parallel groups of ranks.")
          .at_least(1)
          .only_default("expert parallelism")
          .aka({"expert_parallel", "expert_model_parallel_size"}),
      field("sp", TRI_AT(layout.sp),
            "Sequence parallelism: norms and dropout are cut over the tp ranks along the sequence; "
            "needs tp > 1.")
          .aka({"sequence_parallel"}),
      field("zero", TRI_AT(layout.zero),
            "ZeRO stage: cuts optimizer state (1), gradients (2), parameters (3) over dp and cp "
            "ranks.")
          .at_least(0)
          .at_most(3)
          .aka({"zero_stage"}),
      field("dp_shard", TRI_AT(layout.dp_shard),
            "dp ranks over which ZeRO shards (times cp), a divisor of dp; each such group has a "
            "copy of its own (HSDP); 0 = all.")
          .at_least(0)
          .aka({"data_parallel_shard_degree", "hybrid_shard"}),
      choice("reduce", TRI_AT(layout.reduce), {"step", "micro_batch"},
             "When ZeRO-2 and 3 reduce gradients: once a step (until then each rank holds all of "
             "them), or after each micro-batch into the rank's shard, which needs whole backward "
             "passes (not zb-h1, zb-h2, zb-v, dualpipe, dualpipe-v)."),
      choice("dp_sync", TRI_AT(layout.dp_sync), {"naive", "bucketed", "overlapped"},
             "When gradients are reduced over dp: all at the end, in buckets at the end, or in "
             "buckets during the backward pass; ZeRO-2 and 3 know overlapped alone."),
      field(
          "bucket_mib", TRI_AT(layout.bucket_mib),
          "Least gradients in a full bucket, in MiB; no effect with zero = 3, where a bucket is a "
          "layer.")
          .above(0)
          .aka({"bucket_size", "bucket_cap_mb"}),
  };
}

Entries pipeline_and_rank_entries() {
  return {
      field(
          "schedule", TRI_AT(layout.schedule),
          "Order of a pipeline's micro-batches: naive, gpipe, gpipe-lifo, 1f1b, 1f1b-eager, "
          "interleaved, breadth-first, zb-h1, zb-h2, zb-v, dualpipe, dualpipe-v, or a CSV file; no "
          "effect with pp = 1.")
          .csv_or_name()
          .aka({"pipeline_schedule"}),
      field("chunks", TRI_AT(layout.chunks),
            "Pipeline stages of a rank; 0 = the schedule's own number, 2 where it takes any.")
          .at_least(0)
          .aka({"virtual_stages", "num_model_chunks"}),
      field(
          "stages", TRI_AT(layout.stages),
          "Layers of each of the pp * chunks pipeline stages (pp with dualpipe); empty = of equal "
          "cost.")
          .at_least(0),
      choice("recompute", TRI_AT(layout.recompute), {"none", "selective", "full"},
             "Activations computed again in the backward pass rather than kept.")
          .aka({"activation_checkpointing", "recompute_granularity"}),
      field("prefetch", TRI_AT(layout.prefetch),
            "Layers whose parameters ZeRO-3 gathers ahead of the one that computes, within a pass "
            "of a micro-batch; no effect where they are gathered once a step (see reshard).")
          .at_least(0),
      choice("reshard", TRI_AT(layout.reshard), {"auto", "always", "never"},
             "Whether ZeRO-3 drops gathered parameters after each pass (always) or gathers them "
             "once a step and holds them (never); auto = never with a pipeline."),
      choice("transport", TRI_AT(ranks.transport), {"auto", "threads", "mpi"},
             "Ranks are threads of one process, or processes started by mpirun or srun; auto = "
             "processes where a launcher has started several."),
      field("timeout_s", TRI_AT(ranks.timeout_s),
            "Seconds of silence after which a rank that is a process counts as lost.")
          .at_least(1)
          .at_most(1e6),
      field("threads_per_rank", TRI_AT(ranks.threads_per_rank),
            "Compute threads of a rank; 0 = cores / ranks.")
          .at_least(0),
      field("link_latency_us", TRI_AT(ranks.link_latency_us),
            "Imitated link between thread ranks: microseconds added to a message; 0 = off.")
          .at_least(0)
          .at_most(1e9),
      field("link_gb_per_s", TRI_AT(ranks.link_gb_per_s),
            "Imitated link between thread ranks: speed in 10^9 bytes/s; 0 = off.")
          .at_least(0)
          .at_most(1e9),
  };
}

Entries layout_entries() {
  Entries all = degree_entries();
  for (Entry& entry : pipeline_and_rank_entries()) {
    all.push_back(std::move(entry));
  }
  return all;
}

Entries precision_entries() {
  return {
      choice(
          "compute", TRI_AT(precision.compute), {"fp32", "bf16"},
          "Type of parameters, activations and their gradients. bf16 keeps an fp32 master of each "
          "parameter; sums, gradients of parameters and moments are fp32.")
          .learns()
          .aka({"dtype", "mixed_precision", "bf16"}),
      choice(
          "reduce", TRI_AT(precision.reduce), {"fp32", "bf16"},
          "Type in which gradients travel between dp ranks. bf16 rounds what each rank gives and "
          "the sum; additions are fp32.")
          .learns(),
  };
}

Entries optimizer_entries() {
  return {
      field("lr", TRI_AT(optimizer.lr), "Peak learning rate.")
          .above(0)
          .learns()
          .aka({"learning_rate", "max_lr", "peak_lr"}),
      field("betas", TRI_AT(optimizer.betas), "Decay rates of Adam's two moments.")
          .at_least(0)
          .below(1)
          .learns()
          .aka({"beta1", "beta2", "adam_betas", "adam_beta1", "adam_beta2"}),
      field("eps", TRI_AT(optimizer.eps), "Added to the root of the second moment.")
          .above(0)
          .at_most(1)
          .learns()
          .aka({"adam_eps", "adam_epsilon", "epsilon"}),
      field("weight_decay", TRI_AT(optimizer.weight_decay),
            "Decoupled weight decay per step, times the learning rate.")
          .at_least(0)
          .at_most(1e6)
          .learns()
          .aka({"wd"}),
      field("decay_norms", TRI_AT(optimizer.decay_norms),
            "Norms and biases decay too, not only matrices.")
          .learns(),
      field("clip", TRI_AT(optimizer.clip), "Greatest global gradient norm; 0 = no clipping.")
          .at_least(0)
          .learns()
          .aka({"grad_clip", "max_grad_norm", "clip_grad", "gradient_clipping"}),
  };
}

Entries lr_entries() {
  return {
      choice("shape", TRI_AT(lr.shape), {"constant", "cosine", "linear", "wsd"},
             "How the learning rate goes on after the warm-up.")
          .learns()
          .aka({"schedule", "lr_scheduler_type", "lr_decay_style", "decay_type"}),
      field("warmup_steps", TRI_AT(lr.warmup_steps),
            "Step s of the warm-up uses lr * s / warmup_steps.")
          .at_least(0)
          .learns()
          .aka({"warmup", "warmup_iters", "lr_warmup_iters"}),
      field("decay_steps", TRI_AT(lr.decay_steps),
            "Steps from the peak down to min_lr; 0 = until the last step. wsd: the last steps.")
          .at_least(0)
          .learns()
          .aka({"lr_decay_iters", "lr_decay_steps"}),
      field("min_lr", TRI_AT(lr.min_lr), "Learning rate of the last step of the decay.")
          .at_least(0)
          .learns()
          .aka({"lr_min", "final_lr"}),
  };
}

Entries checkpoint_entries() {
  return {
      field("every", TRI_AT(checkpoint.every),
            "Steps between checkpoints; 0 = only after the last step.")
          .at_least(0)
          .aka({"save_every", "save_interval", "interval", "save_steps"}),
      field("keep_last", TRI_AT(checkpoint.keep_last), "Newest checkpoints kept; 0 = all.")
          .at_least(0)
          .aka({"save_total_limit", "keep_latest_k"}),
      field("keep_every", TRI_AT(checkpoint.keep_every),
            "Checkpoints at multiples of this many steps are never deleted; 0 = none.")
          .at_least(0)
          .at_most(1e12),
      later("async", false, "saving while training goes on", "Save in the background."),
      field("resume", TRI_AT(checkpoint.resume),
            "\"auto\" (from the run's newest checkpoint, if any), \"never\", or a checkpoint's "
            "path.")
          .aka({"load", "resume_from"}),
  };
}

Entries trace_entries() {
  return {field("steps", TRI_AT(trace.steps), "Steps recorded in trace.json; 1 is the first.")
              .at_least(1)
              .aka({"profile_steps"})};
}

#undef TRI_AT

struct SectionEntries {
  OptionSection section;
  Entries entries;
};

std::vector<SectionEntries> all_entries() {
  return {
      {{"run", "The run as a whole."}, run_entries()},
      {{"model", "What is trained."}, model_entries()},
      {{"data", "What it is trained on."}, data_entries()},
      {{"batch", "Sequences per step; the number of micro-batches per rank follows."},
       batch_entries()},
      {{"layout", "How a step is cut over ranks: pp * dp * cp * tp of them."}, layout_entries()},
      {{"precision", "Types of numbers."}, precision_entries()},
      {{"optimizer", "AdamW."}, optimizer_entries()},
      {{"lr", "The learning rate of each step."}, lr_entries()},
      {{"checkpoint", "Saving and resuming."}, checkpoint_entries()},
      {{"trace", "Recording what each rank does when."}, trace_entries()},
  };
}

std::vector<Option> make_options() {
  std::vector<Option> options;
  for (auto& [section, entries] : all_entries()) {
    for (Entry& entry : entries) {
      entry.section = section.name;
      entry.changes_training |= section.name == "data" || section.name == "batch" ||
                                (section.name == "model" && entry.key != "file");
      options.push_back(std::move(entry));
    }
  }
  return options;
}

}  // namespace

const std::vector<Option>& train_options() {
  static const std::vector<Option> options = make_options();
  return options;
}

const std::vector<OptionSection>& option_sections() {
  static const std::vector<OptionSection> all = [] {
    std::vector<OptionSection> sections;
    for (const auto& [section, entries] : all_entries()) {
      sections.push_back(section);
    }
    return sections;
  }();
  return all;
}

}  // namespace trireme
