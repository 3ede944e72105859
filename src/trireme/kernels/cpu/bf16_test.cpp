// Kernels of bf16 operands against the same kernels on the same values in fp32.
#include "trireme/base/bf16.h"

#include <algorithm>
#include <cmath>

#include "trireme/kernels/cpu/activation.h"
#include "trireme/kernels/cpu/attention.h"
#include "trireme/kernels/cpu/bias.h"
#include "trireme/kernels/cpu/elementwise.h"
#include "trireme/kernels/cpu/embedding.h"
#include "trireme/kernels/cpu/head_loss.h"
#include "trireme/kernels/cpu/head_loss_shard.h"
#include "trireme/kernels/cpu/norm.h"
#include "trireme/kernels/cpu/optimizer.h"
#include "trireme/kernels/cpu/packed_matmul.h"
#include "trireme/kernels/cpu/rope.h"
#include "trireme/kernels/cpu/test_support.h"
#include "trireme/kernels/cpu/vector/isa_kernels.h"

namespace trireme::kernels {
namespace {

using Halves = std::vector<Bf16>;

/// Half of a bf16 unit in the last place, relative.
constexpr double kHalfUlp = 1.0 / 256;

Halves rounded(const Floats& values) {
  Halves halves;
  for (const float value : values) halves.push_back(to_bf16(value));
  return halves;
}
Floats in_fp32(const Halves& halves) {
  Floats values;
  for (const Bf16 half : halves) values.push_back(to_float(half));
  return values;
}

/// An operand that both kernels read: bf16 numbers, and the same in fp32.
struct Input {
  Input(std::int64_t count, std::uint64_t seed, float scale = 1.0F)
      : halves(rounded(random_floats(count, seed, scale))), floats(in_fp32(halves)) {}
  Halves halves;
  Floats floats;
};
/// An operand that both write.
struct Output {
  explicit Output(std::int64_t count)
      : halves(static_cast<std::size_t>(count), Bf16{0x7FC0}), floats(unwritten(count)) {}
  Halves halves;
  Floats floats;
};

/// One rounding of each element apart, and `slack` of the largest one.
void expect_rounded(const Halves& got, const Floats& want, const char* name, double slack = 1e-6) {
  ASSERT_EQ(got.size(), want.size()) << name;
  double largest = 0;
  for (const float value : want) largest = std::max(largest, std::abs(static_cast<double>(value)));
  for (std::size_t i = 0; i < got.size(); ++i) {
    const auto value = static_cast<double>(want[i]);
    ASSERT_NEAR(static_cast<double>(to_float(got[i])), value,
                kHalfUlp * std::abs(value) + slack * largest)
        << name << '[' << i << ']';
  }
}

class Bf16Test : public IsaTest {};
TRI_FOR_EACH_ISA(Bf16Test);

TEST(Bf16, RoundsToNearestEvenAndKeepsNaN) {
  EXPECT_EQ(to_bf16(1.0F).bits, 0x3F80);
  EXPECT_EQ(to_float(to_bf16(1.0F + 1.0F / 256)), 1.0F);               // a tie: to even, down
  EXPECT_EQ(to_float(to_bf16(1.0F + 3.0F / 256)), 1.0F + 2.0F / 128);  // a tie: to even, up
  EXPECT_TRUE(std::isinf(to_float(to_bf16(3.4e38F))));
  EXPECT_TRUE(std::isnan(to_float(to_bf16(std::bit_cast<float>(0x7F800001U)))));
  EXPECT_EQ(to_float(to_bf16(-0.0F)), 0.0F);
}

TEST_P(Bf16Test, StoringRoundsAsTheScalarFunction) {
  Floats values = random_floats(1001, 3, 100.0F);
  values[0] = std::bit_cast<float>(0x7F800001U);
  values[1] = std::bit_cast<float>(0x3F808000U);
  values[2] = -INFINITY;
  Floats masters = values;
  Floats m(values.size()), v(values.size()), grad(values.size());
  Halves stored(values.size());
  isa().adamw_step({.param = masters.data(),
                    .m = m.data(),
                    .v = v.data(),
                    .grad = grad.data(),
                    .rounded = stored.data(),
                    .count = std::ssize(values)},
                   {.lr = 0});
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_EQ(stored[i].bits, to_bf16(masters[i]).bits) << values[i];
}

TEST_P(Bf16Test, NormsDifferByTheRoundingOfWhatTheyWrite) {
  for (const NormKind kind : {NormKind::kRms, NormKind::kLayer}) {
    const NormShape shape = {.kind = kind, .num_tokens = 70, .hidden = 43};
    const std::int64_t count = shape.num_tokens * shape.hidden;
    const Input x(count, 1), weight(shape.hidden, 2), bias(shape.hidden, 3), dy(count, 4);
    Output y(count), dh(count);
    Floats stats(static_cast<std::size_t>(norm_stats_elems(shape))), narrow_stats = stats;
    norm_forward(shape,
                 {.x = x.floats.data(),
                  .weight = weight.floats.data(),
                  .bias = bias.floats.data(),
                  .y = y.floats.data(),
                  .stats = stats.data()},
                 isa());
    norm_forward<Bf16>(shape,
                       {.x = x.halves.data(),
                        .weight = weight.halves.data(),
                        .bias = bias.halves.data(),
                        .y = y.halves.data(),
                        .stats = narrow_stats.data()},
                       isa());
    expect_same_bits(stats, narrow_stats, "stats");
    expect_rounded(y.halves, y.floats, "y");

    Floats dw = unwritten(shape.hidden), db = dw, narrow_dw = dw, narrow_db = dw;
    Scratch scratch(norm_backward_scratch_bytes(shape));
    norm_backward(shape,
                  {.dy = dy.floats.data(),
                   .h = x.floats.data(),
                   .stats = stats.data(),
                   .weight = weight.floats.data(),
                   .dh = dh.floats.data(),
                   .dweight = dw.data(),
                   .dbias = db.data(),
                   .scratch = scratch.at()},
                  isa());
    norm_backward<Bf16>(shape,
                        {.dy = dy.halves.data(),
                         .h = x.halves.data(),
                         .stats = stats.data(),
                         .weight = weight.halves.data(),
                         .dh = dh.halves.data(),
                         .dweight = narrow_dw.data(),
                         .dbias = narrow_db.data(),
                         .scratch = scratch.at()},
                        isa());
    expect_rounded(dh.halves, dh.floats, "dh");
    expect_same_bits(dw, narrow_dw, "dweight");
    if (kind == NormKind::kLayer) expect_same_bits(db, narrow_db, "dbias");
  }
}

TEST_P(Bf16Test, ActivationsAndDropoutRoundOnce) {
  const ActivationShape shape = {.num_tokens = 9, .ffn = 37};
  const std::int64_t count = shape.num_tokens * shape.ffn;
  const Input x(count, 1, 3.0F), gate_up(2 * count, 2, 3.0F), d_act(count, 3);
  Output act(count), dx(count), d_gate_up(2 * count);
  gelu_forward(shape, x.floats.data(), act.floats.data(), isa());
  gelu_forward(shape, x.halves.data(), act.halves.data(), isa());
  expect_rounded(act.halves, act.floats, "gelu");
  gelu_backward(shape, x.floats.data(), d_act.floats.data(), dx.floats.data(), isa());
  gelu_backward(shape, x.halves.data(), d_act.halves.data(), dx.halves.data(), isa());
  expect_rounded(dx.halves, dx.floats, "gelu gradient");
  swiglu_forward(shape, gate_up.floats.data(), act.floats.data(), isa());
  swiglu_forward(shape, gate_up.halves.data(), act.halves.data(), isa());
  expect_rounded(act.halves, act.floats, "swiglu");
  swiglu_backward(shape, gate_up.floats.data(), d_act.floats.data(), d_gate_up.floats.data(),
                  isa());
  swiglu_backward(shape, gate_up.halves.data(), d_act.halves.data(), d_gate_up.halves.data(),
                  isa());
  expect_rounded(d_gate_up.halves, d_gate_up.floats, "swiglu gradient");

  const std::vector<std::int64_t> samples = {5, 9, 11};
  const DropoutSite site = {.key = 77, .p = 0.3F, .samples = samples.data()};
  const DropoutShape rows = {.num_tokens = 9, .seq_len = 3, .channels = 37};
  dropout_forward(rows, site, x.floats.data(), act.floats.data(), isa());
  dropout_forward(rows, site, x.halves.data(), act.halves.data(), isa());
  expect_rounded(act.halves, act.floats, "dropout");
}

TEST_P(Bf16Test, HeadsAreSplitNormedAndRotatedWithOneRounding) {
  const HeadsShape shape = {
      .batch = 2, .seq_len = 5, .heads = 4, .kv_heads = 2, .head_dim = 6, .cache_rows = 5};
  const std::int64_t tokens = 10, q_count = tokens * 24, kv_count = tokens * 12;
  Floats cos(5 * 3), sin(5 * 3);
  rope_table(5, 6, 10000, cos.data(), sin.data());
  const Input qkv(tokens * 48, 1), norm(6, 2), dq(q_count, 3), dk(kv_count, 4), dv(kv_count, 5);
  Output q(q_count), k(kv_count), v(kv_count), dqkv(tokens * 48);
  split_heads_forward(shape,
                      {.qkv = qkv.floats.data(),
                       .cos = cos.data(),
                       .sin = sin.data(),
                       .q_norm = norm.floats.data(),
                       .k_norm = norm.floats.data(),
                       .q = q.floats.data(),
                       .k = k.floats.data(),
                       .v = v.floats.data()},
                      isa());
  split_heads_forward<Bf16>(shape,
                            {.qkv = qkv.halves.data(),
                             .cos = cos.data(),
                             .sin = sin.data(),
                             .q_norm = norm.halves.data(),
                             .k_norm = norm.halves.data(),
                             .q = q.halves.data(),
                             .k = k.halves.data(),
                             .v = v.halves.data()},
                            isa());
  expect_rounded(q.halves, q.floats, "q");
  expect_rounded(k.halves, k.floats, "k");
  expect_rounded(v.halves, v.floats, "v");
  split_heads_backward(shape,
                       {.dq = dq.floats.data(),
                        .dk = dk.floats.data(),
                        .dv = dv.floats.data(),
                        .qkv = qkv.floats.data(),
                        .cos = cos.data(),
                        .sin = sin.data(),
                        .dqkv = dqkv.floats.data()},
                       isa());
  split_heads_backward<Bf16>(shape,
                             {.dq = dq.halves.data(),
                              .dk = dk.halves.data(),
                              .dv = dv.halves.data(),
                              .qkv = qkv.halves.data(),
                              .cos = cos.data(),
                              .sin = sin.data(),
                              .dqkv = dqkv.halves.data()},
                             isa());
  expect_rounded(dqkv.halves, dqkv.floats, "dqkv");
}

TEST_P(Bf16Test, AttentionKeepsItsSumsInFp32) {
  const AttentionShape shape = {.batch = 2,
                                .seq_len = 150,
                                .heads = 4,
                                .kv_heads = 2,
                                .head_dim = 10,
                                .cache_rows = 150,
                                .kv_len = 150};
  const std::int64_t q_count = 2 * 4 * 150 * 10, kv_count = q_count / 2;
  const std::vector<std::int64_t> samples = {3, 4};
  for (const float p : {0.0F, 0.2F}) {
    const DropoutSite site = {.key = 5, .p = p, .samples = samples.data()};
    const Input q(q_count, 1), k(kv_count, 2), v(kv_count, 3), d_o(q_count, 4);
    Output o(q_count), dq(q_count), dk(kv_count), dv(kv_count);
    Floats lse = unwritten(2 * 4 * 150), narrow_lse = lse;
    const int threads = omp_get_max_threads();
    Scratch scratch(attention_backward_scratch_bytes<Bf16>(shape, threads) +
                    attention_forward_scratch_bytes<Bf16>(shape, threads));
    attention_forward(shape,
                      {.q = q.floats.data(),
                       .k = k.floats.data(),
                       .v = v.floats.data(),
                       .o = o.floats.data(),
                       .lse = lse.data(),
                       .dropout = site,
                       .scratch = scratch.at()},
                      isa());
    attention_forward<Bf16>(shape,
                            {.q = q.halves.data(),
                             .k = k.halves.data(),
                             .v = v.halves.data(),
                             .o = o.halves.data(),
                             .lse = narrow_lse.data(),
                             .dropout = site,
                             .scratch = scratch.at()},
                            isa());
    expect_same_bits(lse, narrow_lse, "lse");
    expect_rounded(o.halves, o.floats, "o");
    // The gradients of both from the same output, so that they differ by their own rounding alone.
    o.floats = in_fp32(o.halves);
    attention_backward(shape,
                       {.q = q.floats.data(),
                        .k = k.floats.data(),
                        .v = v.floats.data(),
                        .o = o.floats.data(),
                        .lse = lse.data(),
                        .d_o = d_o.floats.data(),
                        .dq = dq.floats.data(),
                        .dk = dk.floats.data(),
                        .dv = dv.floats.data(),
                        .dropout = site,
                        .scratch = scratch.at()},
                       isa());
    attention_backward<Bf16>(shape,
                             {.q = q.halves.data(),
                              .k = k.halves.data(),
                              .v = v.halves.data(),
                              .o = o.halves.data(),
                              .lse = lse.data(),
                              .d_o = d_o.halves.data(),
                              .dq = dq.halves.data(),
                              .dk = dk.halves.data(),
                              .dv = dv.halves.data(),
                              .dropout = site,
                              .scratch = scratch.at()},
                             isa());
    expect_rounded(dq.halves, dq.floats, "dq");
    expect_rounded(dk.halves, dk.floats, "dk");
    expect_rounded(dv.halves, dv.floats, "dv");
  }
}

TEST_P(Bf16Test, SumsOverRanksAreRoundedOnce) {
  const Input a(100, 1), b(100, 2), c(100, 3);
  Output sum(100);
  const Bf16* const halves[] = {a.halves.data(), b.halves.data(), c.halves.data()};
  const float* const floats[] = {a.floats.data(), b.floats.data(), c.floats.data()};
  reduce_ranks(sum.halves.data(), halves, 3, 100, isa());
  reduce_ranks(sum.floats.data(), floats, 3, 100, isa());
  expect_rounded(sum.halves, sum.floats, "sum");
}

TEST(Bf16Kernels, EmbeddingAndBiasAddInFp32) {
  const EmbeddingShape shape = {
      .num_tokens = 12, .seq_len = 6, .hidden = 5, .vocab = 7, .max_positions = 6};
  std::vector<std::int32_t> tokens;
  for (std::int32_t n = 0; n < 12; ++n) tokens.push_back(n * 5 % 7);
  const Input table(35, 1), positions(30, 2), dh(60, 3), bias(5, 4);
  Output h(60);
  embedding_forward(shape, tokens.data(), table.floats.data(), positions.floats.data(),
                    h.floats.data());
  embedding_forward(shape, tokens.data(), table.halves.data(), positions.halves.data(),
                    h.halves.data());
  expect_rounded(h.halves, h.floats, "h");
  Floats d_table = unwritten(35), narrow = d_table;
  embedding_backward(shape,
                     {.tokens = tokens.data(), .dh = dh.floats.data(), .dtable = d_table.data()});
  embedding_backward<Bf16>(
      shape, {.tokens = tokens.data(), .dh = dh.halves.data(), .dtable = narrow.data()});
  expect_same_bits(d_table, narrow, "dtable");
  Floats db = unwritten(5), narrow_db = db;
  bias_gradient({.num_tokens = 12, .width = 5}, dh.floats.data(), db.data(), false);
  bias_gradient({.num_tokens = 12, .width = 5}, dh.halves.data(), narrow_db.data(), false);
  expect_same_bits(db, narrow_db, "db");
  Halves y = h.halves;
  Floats y32 = in_fp32(y);
  add_bias({.num_tokens = 12, .width = 5}, bias.halves.data(), y.data());
  add_bias({.num_tokens = 12, .width = 5}, bias.floats.data(), y32.data());
  expect_rounded(y, y32, "y + bias");
}

// Products
// --------------------------------------------------------------------------------------------------

constexpr MatmulKind kKinds[] = {MatmulKind::kForward, MatmulKind::kInputGrad,
                                 MatmulKind::kWeightGrad};

std::int64_t out_elems(const MatmulShape& s) {
  return s.kind == MatmulKind::kForward     ? s.m * s.n
         : s.kind == MatmulKind::kInputGrad ? s.m * s.k
                                            : s.n * s.k;
}

struct Operands {
  explicit Operands(const MatmulShape& s)
      : a(s.m * (s.kind == MatmulKind::kForward ? s.k : s.n), 1),
        b(s.k * (s.kind == MatmulKind::kWeightGrad ? s.m : s.n), 2),
        bias(s.n, 3) {}
  Input a, b, bias;
};

Floats product(MatmulShape shape, const Operands& in, int threads, const IsaKernels& isa,
               Floats out = {}) {
  shape.dtype = DType::kF32;
  const PackedMatmul packed(shape, threads, isa);
  Scratch scratch(packed.scratch_bytes());
  if (out.empty()) out = unwritten(out_elems(shape));
  packed.run(in.a.floats.data(), in.b.floats.data(), in.bias.floats.data(), out.data(),
             scratch.at());
  return out;
}

class PackedMatmulTest : public IsaTest {};
TRI_FOR_EACH_ISA(PackedMatmulTest);

TEST_P(PackedMatmulTest, EqualsTheLibraryOnOddShapes) {
  for (const MatmulKind kind : kKinds) {
    for (const auto& [m, n, k] : {std::array{1L, 1L, 1L},
                                  {5L, 101L, 7L},
                                  {67L, 33L, 300L},
                                  {130L, 1040L, 20L},
                                  {9L, 70L, 600L},
                                  {300L, 17L, 65L}}) {
      SCOPED_TRACE(testing::Message()
                   << static_cast<int>(kind) << " " << m << " " << n << " " << k);
      const MatmulShape shape = {
          .kind = kind, .m = m, .n = n, .k = k, .bias = kind == MatmulKind::kForward};
      const Operands in(shape);
      Matmul library(shape, MatmulEngine::kLibrary);
      Scratch scratch(library.scratch_bytes());
      Floats want = unwritten(out_elems(shape));
      library.run(in.a.floats.data(), in.b.floats.data(), in.bias.floats.data(), want.data(),
                  scratch.at());
      expect_near(product(shape, in, 1, isa()), widened(want),
                  sum_tolerance(static_cast<double>(m + n + k), 16), "out");
    }
  }
}

TEST_P(PackedMatmulTest, OfBf16IsThatOfFp32RoundedOnce) {
  for (const MatmulKind kind : kKinds) {
    for (const auto& [m, n, k] :
         {std::array{5L, 101L, 7L}, {67L, 33L, 300L}, {9L, 70L, 600L}, {1030L, 9L, 270L}}) {
      SCOPED_TRACE(testing::Message()
                   << static_cast<int>(kind) << " " << m << " " << n << " " << k);
      MatmulShape shape = {
          .kind = kind, .m = m, .n = n, .k = k, .bias = kind == MatmulKind::kForward};
      const Operands in(shape);
      const Floats want = product(shape, in, 1, isa());
      shape.dtype = DType::kBf16;
      const PackedMatmul packed(shape, 1, isa());
      Scratch scratch(packed.scratch_bytes());
      const bool is_wide = kind == MatmulKind::kWeightGrad;
      Output out(out_elems(shape));
      packed.run(in.a.halves.data(), in.b.halves.data(), in.bias.halves.data(),
                 is_wide ? static_cast<void*>(out.floats.data()) : out.halves.data(), scratch.at());
      if (is_wide) {
        expect_same_bits(out.floats, want, "dw");
      } else {
        EXPECT_EQ(in_fp32(out.halves), in_fp32(rounded(want)));
      }
    }
  }
}

TEST_P(PackedMatmulTest, BitsDependNeitherOnThreadsNorOnTheNumberOfRows) {
  for (const MatmulKind kind : kKinds) {
    const MatmulShape shape = {.kind = kind, .m = 301, .n = 205, .k = 270};
    const Operands in(shape);
    const Floats one = product(shape, in, 1, isa());
    if (kManyThreadsAllowed) {
      for (const int threads : {2, 3})
        expect_same_bits(product(shape, in, threads, isa()), one, "out");
    }
    if (kind == MatmulKind::kWeightGrad) continue;  // there rows are outputs
    MatmulShape few = shape;
    few.m = 7;
    const Floats rows = product(few, in, 1, isa());
    expect_same_bits(rows, Floats(one.begin(), one.begin() + std::ssize(rows)), "rows");
  }
}

TEST_P(PackedMatmulTest, AccumulateAddsToTheOutput) {
  const MatmulShape shape = {
      .kind = MatmulKind::kWeightGrad, .m = 300, .n = 20, .k = 17, .accumulate = true};
  MatmulShape plain = shape;
  plain.accumulate = false;
  const Operands in(shape);
  const Floats before = random_floats(out_elems(shape), 9), alone = product(plain, in, 1, isa());
  Doubles want = widened(before);
  for (std::size_t i = 0; i < want.size(); ++i) want[i] += static_cast<double>(alone[i]);
  expect_near(product(shape, in, 1, isa(), before), want, sum_tolerance(300, 16), "dw");
}

// Head
// --------------------------------------------------------------------------------------------------

struct HeadProblem {
  HeadLossShape shape = {.num_tokens = 37, .hidden = 12, .vocab = 50, .chunk_tokens = 16};
  Input x{37 * 12, 1, 2.0F}, w{50 * 12, 2};
  std::vector<std::int32_t> labels;
  float inv_tokens = 0.125F;
  HeadProblem() {
    for (std::int32_t n = 0; n < 37; ++n) labels.push_back(n % 5 == 2 ? -1 : n * 11 % 50);
  }
};

TEST_P(Bf16Test, HeadLossIsThatOfRoundedLogits) {
  HeadProblem at;
  double loss = 0, narrow_loss = 0;
  Floats dw = unwritten(50 * 12), narrow_dw = dw;
  Output dx(37 * 12);
  HeadLoss<> wide(at.shape, true);
  HeadLoss<Bf16> narrow(at.shape, true);
  Scratch scratch(std::max(wide.scratch_bytes(), narrow.scratch_bytes()));
  wide.train({.x = at.x.floats.data(),
              .w = at.w.floats.data(),
              .labels = at.labels.data(),
              .inv_tokens = &at.inv_tokens,
              .dx = dx.floats.data(),
              .dw = dw.data(),
              .loss_sum = &loss,
              .scratch = scratch.at()},
             isa());
  narrow.train({.x = at.x.halves.data(),
                .w = at.w.halves.data(),
                .labels = at.labels.data(),
                .inv_tokens = &at.inv_tokens,
                .dx = dx.halves.data(),
                .dw = narrow_dw.data(),
                .loss_sum = &narrow_loss,
                .scratch = scratch.at()},
               isa());
  EXPECT_NEAR(narrow_loss, loss, 3e-3 * loss);
  expect_rounded(dx.halves, dx.floats, "dx", 2e-2);  // logits of about 20 round by 1/16
  expect_near(narrow_dw, widened(dw), 2e-2 * largest_magnitude(widened(dw)), "dw");
  double evaluated = 0;
  narrow.evaluate({.x = at.x.halves.data(),
                   .w = at.w.halves.data(),
                   .labels = at.labels.data(),
                   .loss_sum = &evaluated,
                   .scratch = scratch.at()},
                  isa());
  EXPECT_EQ(evaluated, narrow_loss);
}

/// A confident, right prediction: rounded to bf16 its probability would be 1 and the gradient of
/// its logit 0.
TEST_P(Bf16Test, GradientOfTheLabelsLogitIsNotLostToRounding) {
  constexpr std::int64_t kVocab = 40;
  for (const bool is_sharded : {false, true}) {
    Halves logits(kVocab, to_bf16(-8.0F));
    logits[7] = to_bf16(1.0F);
    const double probability = 1 / (1 + 39 * std::exp(-9.0));
    const float scale = 1;
    if (is_sharded) {
      HeadLossShard<Bf16> head(
          {.chunk_tokens = 1, .hidden = 1, .vocab = kVocab, .dtype = DType::kBf16}, true);
      const Halves x = rounded({1.0F}), w(kVocab, to_bf16(0.0F));
      Halves dx(1);
      const std::int32_t label = 7;
      const float row_max = 1;
      Floats sums(2);
      double loss = 0;
      Scratch scratch(head.scratch_bytes());
      head.sums({.num_tokens = 1,
                 .logits = logits.data(),
                 .labels = &label,
                 .row_max = &row_max,
                 .sums = sums.data()},
                isa());
      head.gradient({.num_tokens = 1,
                     .x = x.data(),
                     .w = w.data(),
                     .labels = &label,
                     .row_max = &row_max,
                     .sums = sums.data(),
                     .logits = logits.data(),
                     .inv_tokens = &scale,
                     .dx = dx.data(),
                     .loss_sum = &loss,
                     .scratch = scratch.at()},
                    isa());
      EXPECT_NEAR(loss, -std::log(probability), 1e-6);
    } else {
      static_cast<void>(isa().bf16.token_loss(
          {.logits = logits.data(), .vocab = kVocab, .label = 7, .grad_scale = &scale}));
    }
    EXPECT_NEAR(static_cast<double>(to_float(logits[7])), probability - 1,
                kHalfUlp * (1 - probability) + 1e-6);
  }
}

}  // namespace
}  // namespace trireme::kernels
