#include "trireme/calibrate/probe.h"

#include <algorithm>
#include <utility>

#include "trireme/program/build.h"

namespace trireme {
namespace {

/// A model with its batch for one rank.
struct Model {
  const char* name;
  ModelSpec spec;
  std::int64_t seq = 0;
  std::int64_t micro_batch = 1;
  std::int64_t num_micro_batches = 1;
  Recompute recompute = Recompute::kNone;
};

ModelSpec llama(std::int64_t layers, std::int64_t hidden, std::int64_t heads, std::int64_t ffn,
                std::int64_t vocab) {
  return {.family = Family::kLlama,
          .layers = layers,
          .hidden = hidden,
          .heads = heads,
          .head_dim = heads == 2 ? 64 : 0,
          .ffn = ffn,
          .vocab = vocab,
          .max_seq = 512};
}

ModelSpec gpt2(double dropout) {
  return {.family = Family::kGpt2,
          .layers = 2,
          .hidden = 256,
          .heads = 4,
          .vocab = 512,
          .max_seq = 512,
          .tied = true,
          .dropout = dropout};
}

ModelSpec with_head_norms(ModelSpec spec) {
  spec.qk_norm = true;
  return spec;
}

/// Sizes of products, attention and element-wise kernels that span those of models that a CPU
/// trains; "narrow" has the shapes of tensor-parallel shards.
std::vector<Model> dense_models() {
  return {
      {.name = "small", .spec = llama(4, 128, 4, 352, 256), .seq = 128, .num_micro_batches = 2},
      {.name = "medium", .spec = llama(3, 256, 4, 704, 256), .seq = 256, .num_micro_batches = 2},
      {.name = "large", .spec = llama(1, 512, 8, 1408, 256), .seq = 256, .num_micro_batches = 2},
      {.name = "narrow", .spec = llama(3, 256, 2, 352, 2048), .seq = 512},
      {.name = "gpt2", .spec = gpt2(0.1), .seq = 256},
      {.name = "again",
       .spec = with_head_norms(llama(2, 256, 4, 704, 256)),
       .seq = 64,
       .micro_batch = 2,
       .num_micro_batches = 2,
       .recompute = Recompute::kFull},
      {.name = "gpt2 again", .spec = gpt2(0.0), .seq = 128, .recompute = Recompute::kFull},
  };
}

Probe probe_of(const Model& model, Layout layout, DType compute) {
  layout.recompute = model.recompute;
  return {.name = model.name,
          .request = {
              .spec = resolved(model.spec),
              .layout = layout,
              .batch = {.seq = model.seq,
                        .micro_batch = model.micro_batch,
                        .global_batch = model.micro_batch * model.num_micro_batches * layout.dp},
              .compute = compute}};
}

void add_dense(std::vector<Probe>& probes, int num_cores, DType compute) {
  for (const Model& model : dense_models()) {
    Probe alone = probe_of(model, {}, compute);
    if (num_cores > 1) {
      Probe busy = probe_of(model, {.dp = num_cores, .dp_sync = DpSync::kNaive}, compute);
      busy.num_busy = num_cores;
      Probe team = alone;
      team.num_threads = num_cores;
      probes.push_back(std::move(busy));
      probes.push_back(std::move(team));
    }
    probes.push_back(std::move(alone));
  }
}

/// Two ranks, and as many such pairs as keep the cores busy.
void add_pairs(std::vector<Probe>& probes, int num_cores, DType compute) {
  const int dp = std::max(1, num_cores / 2);
  const Model model{.name = "pair",
                    .spec = llama(2, 256, 4, 704, 512),
                    .seq = 256,
                    .micro_batch = 2,
                    .num_micro_batches = 2};
  Model learned = model;
  learned.spec = gpt2(0.0);
  const auto add = [&](const Model& of, Layout layout) {
    layout.dp = layout.dp > 1 ? std::max(layout.dp, num_cores) : dp;
    probes.push_back(probe_of(of, layout, compute));
    probes.back().num_busy = num_cores;
  };
  add(learned, {.tp = 2});
  add(model, {.tp = 2, .sp = true});
  add(model, {.cp = 2});
  add(model, {.cp = 2, .cp_comm = CpComm::kAllGather});
  add(model, {.pp = 2});
  add(model, {.pp = 2, .schedule = "zb-h1"});
  add(model, {.dp = 2, .zero = 2});
}

}  // namespace

std::vector<Probe> standard_probes(int num_cores) {
  std::vector<Probe> probes;
  for (const DType compute : {DType::kF32, DType::kBf16}) {
    add_dense(probes, num_cores, compute);
    add_pairs(probes, num_cores, compute);
  }
  return probes;
}

std::vector<Program> probe_programs(const Probe& probe) {
  std::vector<Program> programs;
  BuildRequest request = probe.request;
  for (request.rank = 0; request.rank < request.layout.world(); ++request.rank)
    programs.push_back(build_train(request));
  return programs;
}

}  // namespace trireme
