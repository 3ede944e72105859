#include "trireme/execute/cpu/cpu_backend.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <vector>

#include "trireme/base/bf16.h"
#include "trireme/base/errors.h"
#include "trireme/execute/cpu/part_call.h"
#include "trireme/kernels/cpu/activation.h"
#include "trireme/kernels/cpu/bias.h"
#include "trireme/kernels/cpu/elementwise.h"
#include "trireme/kernels/cpu/head_loss.h"
#include "trireme/kernels/cpu/head_loss_shard.h"
#include "trireme/kernels/cpu/matmul.h"
#include "trireme/kernels/cpu/optimizer.h"
#include "trireme/program/build.h"
#include "trireme/program/local_model.h"

namespace trireme {
namespace {

using kernels::MatmulKind;
using kernels::MatmulShape;

template <typename T>
void run_norm(const PartCall& call) {
  const kernels::NormShape shape = call.norm_shape();
  if (is_backward(call.instruction().op)) {
    kernels::norm_backward<T>(shape, {.dy = call.at<T>(Role::kDy),
                                      .h = call.at<T>(Role::kH),
                                      .stats = call.at(Role::kStats),
                                      .weight = call.at<T>(Role::kWeight),
                                      .dh = call.at<T>(Role::kDh),
                                      .dweight = call.at(Role::kDWeight),
                                      .dbias = call.at(Role::kDBias),
                                      .accumulate_dh = call.instruction().find(Role::kDh)->reads(),
                                      .accumulate_dw = call.accumulates(Role::kDWeight),
                                      .scratch = call.at<void>(Role::kWorkspace)});
  } else if (call.at<T>(Role::kX) == nullptr) {  // recomputed from what was kept
    kernels::norm_from_stats<T>(shape, {.h = call.at<T>(Role::kH),
                                        .stats = call.at(Role::kStats),
                                        .weight = call.at<T>(Role::kWeight),
                                        .bias = call.at<T>(Role::kBias),
                                        .y = call.at<T>(Role::kY)});
  } else {
    kernels::norm_forward<T>(shape, {.x = call.at<T>(Role::kX),
                                     .delta = call.at<T>(Role::kDelta),
                                     .weight = call.at<T>(Role::kWeight),
                                     .bias = call.at<T>(Role::kBias),
                                     .h = call.at<T>(Role::kH),
                                     .y = call.at<T>(Role::kY),
                                     .stats = call.at(Role::kStats)});
  }
}

template <typename T>
void run_linear(const PartCall& call, kernels::Matmul& product) {
  void* const scratch = call.at<void>(Role::kWorkspace);
  switch (call.instruction().op) {
    case Op::kBackwardInput:
      return product.run(call.at<T>(Role::kDy), call.at<T>(Role::kWeight), nullptr,
                         call.at<T>(Role::kDx), scratch);
    case Op::kBackwardWeight:
      product.run(call.at<T>(Role::kDy), call.at<T>(Role::kX), nullptr, call.at(Role::kDWeight),
                  scratch);
      if (call.at(Role::kDBias) != nullptr) {
        kernels::bias_gradient({.num_tokens = product.shape().m, .width = product.shape().n},
                               call.at<T>(Role::kDy), call.at(Role::kDBias),
                               call.accumulates(Role::kDBias));
      }
      return;
    default:
      return product.run(call.at<T>(Role::kX), call.at<T>(Role::kWeight), call.at<T>(Role::kBias),
                         call.at<T>(Role::kY), scratch);
  }
}

template <typename T>
void run_embedding(const PartCall& call) {
  const kernels::EmbeddingShape shape = call.embedding_shape();
  if (!is_backward(call.instruction().op)) {
    return kernels::embedding_forward(shape, call.at<const std::int32_t>(Role::kTokens),
                                      call.at<T>(Role::kWeight), call.at<T>(Role::kWeight2),
                                      call.at<T>(Role::kY));
  }
  kernels::embedding_backward<T>(shape,
                                 {.tokens = call.at<const std::int32_t>(Role::kTokens),
                                  .dh = call.at<T>(Role::kDy),
                                  .dtable = call.at(Role::kDWeight),
                                  .dposition = call.at(Role::kDWeight2),
                                  .accumulate_dtable = call.accumulates(Role::kDWeight),
                                  .accumulate_dposition = call.accumulates(Role::kDWeight2)});
}

template <typename T>
void run_heads(const PartCall& call) {
  const kernels::HeadsShape shape = call.heads_shape();
  if (!is_backward(call.instruction().op)) {
    return kernels::split_heads_forward<T>(shape, {.qkv = call.at<T>(Role::kX),
                                                   .cos = call.at(Role::kCos),
                                                   .sin = call.at(Role::kSin),
                                                   .q_norm = call.at<T>(Role::kQNorm),
                                                   .k_norm = call.at<T>(Role::kKNorm),
                                                   .q = call.at<T>(Role::kQ),
                                                   .k = call.at<T>(Role::kK),
                                                   .v = call.at<T>(Role::kV)});
  }
  kernels::split_heads_backward<T>(shape, {.dq = call.at<T>(Role::kDq),
                                           .dk = call.at<T>(Role::kDk),
                                           .dv = call.at<T>(Role::kDv),
                                           .qkv = call.at<T>(Role::kX),
                                           .cos = call.at(Role::kCos),
                                           .sin = call.at(Role::kSin),
                                           .q_norm = call.at<T>(Role::kQNorm),
                                           .k_norm = call.at<T>(Role::kKNorm),
                                           .dqkv = call.at<T>(Role::kDx),
                                           .dq_norm = call.at(Role::kDQNorm),
                                           .dk_norm = call.at(Role::kDKNorm),
                                           .accumulate_dw = call.accumulates(Role::kDQNorm),
                                           .scratch = call.at<void>(Role::kWorkspace)});
}

template <typename T>
void run_attention(const PartCall& call) {
  const kernels::AttentionShape shape = call.attention_shape();
  const bool is_step = call.instruction().chunk >= 0;  // its results are fp32 sums
  if (!is_backward(call.instruction().op)) {
    kernels::AttentionForward<T> forward{.q = call.at<T>(Role::kQ),
                                         .k = call.at<T>(Role::kK),
                                         .v = call.at<T>(Role::kV),
                                         .lse = call.at(Role::kLse),
                                         .merges = call.instruction().find(Role::kY)->reads(),
                                         .dropout = call.dropout(),
                                         .scratch = call.at<void>(Role::kWorkspace)};
    if (is_step) {
      forward.partial = call.at(Role::kY);
    } else {
      forward.o = call.at<T>(Role::kY);
    }
    return kernels::attention_forward<T>(shape, forward);
  }
  kernels::AttentionBackward<T> backward{
      .q = call.at<T>(Role::kQ),
      .k = call.at<T>(Role::kK),
      .v = call.at<T>(Role::kV),
      .o = call.at<T>(Role::kY),
      .lse = call.at(Role::kLse),
      .d_o = call.at<T>(Role::kDy),
      .accumulates_dq = call.instruction().find(Role::kDq)->reads(),
      .dropout = call.dropout(),
      .scratch = call.at<void>(Role::kWorkspace)};
  if (is_step) {
    backward.dq_partial = call.at(Role::kDq);
    backward.dk_partial = call.at(Role::kDk);
    backward.dv_partial = call.at(Role::kDv);
  } else {
    backward.dq = call.at<T>(Role::kDq);
    backward.dk = call.at<T>(Role::kDk);
    backward.dv = call.at<T>(Role::kDv);
  }
  kernels::attention_backward<T>(shape, backward);
}

template <typename T>
void run_activation(const PartCall& call) {
  const kernels::ActivationShape shape{.num_tokens = token_shape(call.program()).tokens(),
                                       .ffn = call.spec().ffn};
  const bool is_llama = call.spec().is_llama();
  if (!is_backward(call.instruction().op)) {
    return is_llama ? kernels::swiglu_forward(shape, call.at<T>(Role::kX), call.at<T>(Role::kY))
                    : kernels::gelu_forward(shape, call.at<T>(Role::kX), call.at<T>(Role::kY));
  }
  return is_llama ? kernels::swiglu_backward(shape, call.at<T>(Role::kX), call.at<T>(Role::kDy),
                                             call.at<T>(Role::kDx))
                  : kernels::gelu_backward(shape, call.at<T>(Role::kX), call.at<T>(Role::kDy),
                                           call.at<T>(Role::kDx));
}

template <typename T>
void run_dropout(const PartCall& call) {
  const kernels::DropoutShape shape = call.dropout_shape();
  if (is_backward(call.instruction().op)) {
    return kernels::dropout_backward(shape, call.dropout(), call.at<T>(Role::kDy),
                                     call.at<T>(Role::kDx));
  }
  kernels::dropout_forward(shape, call.dropout(), call.at<T>(Role::kY), call.at<T>(Role::kY));
}

template <typename T>
void run_head(const PartCall& call, kernels::HeadLoss<T>& head) {
  const auto* const labels = call.at<const std::int32_t>(Role::kLabels);
  if (!is_backward(call.instruction().op)) {
    return head.evaluate({.x = call.at<T>(Role::kX),
                          .w = call.at<T>(Role::kWeight),
                          .labels = labels,
                          .loss_sum = call.at<double>(Role::kLoss),
                          .scratch = call.at<void>(Role::kWorkspace)});
  }
  head.train({.x = call.at<T>(Role::kX),
              .w = call.at<T>(Role::kWeight),
              .labels = labels,
              .inv_tokens = call.at(Role::kScale),
              .dx = call.at<T>(Role::kDx),
              .dw = call.at(Role::kDWeight),
              .accumulate_dw = call.accumulates(Role::kDWeight),
              .loss_sum = call.at<double>(Role::kLoss),
              .scratch = call.at<void>(Role::kWorkspace)});
  if (call.context().local_loss != nullptr)
    *call.context().local_loss = *call.at<double>(Role::kLoss);
}

/// One of the three phases of a chunk of tokens; rows of sums and maxima are the chunk's.
template <typename T>
void run_head_shard(const PartCall& call, kernels::HeadLossShard<T>& head) {
  const auto* const labels = call.at<const std::int32_t>(Role::kLabels);
  const std::int64_t first_row = call.model().first_vocab_row();
  switch (call.instruction().part) {
    case Part::kHeadLogits:
      return head.logits({.num_tokens = call.count(Role::kRowMax),
                          .x = call.at<T>(Role::kX),
                          .w = call.at<T>(Role::kWeight),
                          .logits = call.at<T>(Role::kLogits),
                          .row_max = call.at(Role::kRowMax),
                          .scratch = call.at<void>(Role::kWorkspace)});
    case Part::kHeadSums:
      return head.sums({.num_tokens = call.count(Role::kRowMax),
                        .logits = call.at<T>(Role::kLogits),
                        .labels = labels,
                        .first_row = first_row,
                        .row_max = call.at(Role::kRowMax),
                        .sums = call.at(Role::kSums)});
    default:
      break;
  }
  const std::int64_t num_tokens = call.count(Role::kLabels);
  if (!is_backward(call.instruction().op)) {
    return kernels::HeadLossShard<T>::loss({.num_tokens = num_tokens,
                                            .labels = labels,
                                            .sums = call.at(Role::kSums),
                                            .loss_sum = call.at<double>(Role::kLoss)});
  }
  head.gradient({.num_tokens = num_tokens,
                 .x = call.at<T>(Role::kX),
                 .w = call.at<T>(Role::kWeight),
                 .labels = labels,
                 .first_row = first_row,
                 .row_max = call.at(Role::kRowMax),
                 .sums = call.at(Role::kSums),
                 .logits = call.at<T>(Role::kLogits),
                 .inv_tokens = call.at(Role::kScale),
                 .dx = call.at<T>(Role::kDx),
                 .dw = call.at(Role::kDWeight),
                 .accumulate_dw = call.accumulates(Role::kDWeight),
                 .loss_sum = call.at<double>(Role::kLoss),
                 .scratch = call.at<void>(Role::kWorkspace)});
  if (call.context().local_loss != nullptr)
    *call.context().local_loss = *call.at<double>(Role::kLoss);
}

/// The residual stream as it leaves a stage.
template <typename T>
void run_stage_out(const PartCall& call) {
  const std::int64_t count = call.count(Role::kY);
  std::memcpy(call.at<T>(Role::kY), call.at<T>(Role::kX),
              static_cast<std::size_t>(count) * sizeof(T));
  if (call.at<T>(Role::kDelta) != nullptr)
    kernels::add(call.at<T>(Role::kY), call.at<T>(Role::kDelta), count);
}

template <typename T>
void run_position(const PartCall& call) {
  kernels::EmbeddingShape shape = call.embedding_shape();
  shape.num_tokens = call.count(Role::kY) / shape.hidden;
  shape.first_token = call.first_own_token(shape.num_tokens);
  kernels::add_positions(shape, call.at<T>(Role::kWeight2), call.at<T>(Role::kY));
}

template <typename T>
void run_row_bias(const PartCall& call) {
  const std::int64_t hidden = call.spec().hidden;
  kernels::add_bias({.num_tokens = call.count(Role::kY) / hidden, .width = hidden},
                    call.at<T>(Role::kBias), call.at<T>(Role::kY));
}

template <typename T>
void run_logits(const PartCall& call, kernels::Matmul& product) {
  const std::int64_t length = *call.at<std::int64_t>(Role::kLength);
  const std::int64_t row = call.program().kind == ProgramKind::kPrefill ? length - 1 : 0;
  product.run(call.at<T>(Role::kX) + row * call.spec().hidden, call.at<T>(Role::kWeight), nullptr,
              call.at<T>(Role::kLogits), call.at<void>(Role::kWorkspace));
}

/// min(1, max_norm / (norm + 1e-6)) as in torch.nn.utils.clip_grad_norm_; the norm is rounded to
/// fp32 once.
void run_clip(const PartCall& call) {
  const double max_norm = call.at<double>(Role::kHyper)[HyperLayout::kMaxNorm];
  const auto norm = static_cast<float>(std::sqrt(*call.at<double>(Role::kNormSquare)));
  const bool is_finite = std::isfinite(norm) && std::isfinite(*call.at<double>(Role::kLoss));
  const float scale = max_norm > 0 ? static_cast<float>(max_norm) / (norm + 1e-6F) : 1.0F;
  float* const coefficient = call.at(Role::kCoefficient);
  coefficient[CoefficientLayout::kScale] = std::min(scale, 1.0F);
  coefficient[CoefficientLayout::kApply] = is_finite ? 1.0F : 0.0F;
  coefficient[CoefficientLayout::kNorm] = norm;
}

template <typename T>
void run_opt_step(const PartCall& call, bool decays) {
  const float* const coefficient = call.at(Role::kCoefficient);
  if (coefficient[CoefficientLayout::kApply] == 0.0F) return;
  const double* const hyper = call.at<double>(Role::kHyper);
  kernels::AdamwState state = {.m = call.at(Role::kMoment1),
                               .v = call.at(Role::kMoment2),
                               .grad = call.at(Role::kGradient),
                               .count = call.count(Role::kParameter)};
  if constexpr (std::is_same_v<T, Bf16>) {
    state.param = call.at(Role::kMaster);
    state.rounded = call.at<Bf16>(Role::kParameter);
  } else {
    state.param = call.at(Role::kParameter);
  }
  kernels::adamw_step(state, {.lr = hyper[HyperLayout::kLr],
                              .beta1 = hyper[HyperLayout::kBeta1],
                              .beta2 = hyper[HyperLayout::kBeta2],
                              .eps = hyper[HyperLayout::kEps],
                              .weight_decay = decays ? hyper[HyperLayout::kWeightDecay] : 0.0,
                              .bias_correction1 = hyper[HyperLayout::kCorrection1],
                              .bias_correction2 = hyper[HyperLayout::kCorrection2],
                              .grad_scale = coefficient[CoefficientLayout::kScale]});
}

void run_load(const PartCall& call, int micro_batch) {
  const auto operand = [&]<typename T>(Role role, T*) {
    T* const begin = call.at<T>(role);
    return std::span<T>(begin, begin == nullptr ? 0 : static_cast<std::size_t>(call.count(role)));
  };
  const BatchSource::MicroBatch loaded{
      .tokens = operand(Role::kTokens, static_cast<std::int32_t*>(nullptr)),
      .labels = operand(Role::kLabels, static_cast<std::int32_t*>(nullptr)),
      .samples = operand(Role::kSamples, static_cast<std::int64_t*>(nullptr))};
  call.context().source->load(micro_batch, loaded);
  // Kernels of a sharded vocabulary take what is outside of it for another rank's.
  const std::int64_t vocab = call.program().request.spec.vocab;
  for (const std::int32_t token : loaded.tokens) TRI_CHECK(token >= 0 && token < vocab);
  for (const std::int32_t label : loaded.labels) TRI_CHECK(label < vocab);
}

/// Of one type, or from fp32 to bf16.
void run_copy(const PartCall& call) {
  const Range& x = call.instruction().find(Role::kX)->range;
  const Range& y = call.instruction().find(Role::kY)->range;
  if (call.program().buffer(x.buffer).dtype == call.program().buffer(y.buffer).dtype) {
    std::memcpy(call.at<std::byte>(Role::kY), call.at<std::byte>(Role::kX),
                static_cast<std::size_t>(y.bytes));
    return;
  }
  const auto count = static_cast<std::size_t>(call.count(Role::kX));
  round_to_bf16(std::span(call.at(Role::kX), count), call.at<std::byte>(Role::kY));
}

void run_scalar(const PartCall& call) {
  switch (call.instruction().op) {
    case Op::kCount:
      *call.at<double>(Role::kY) = static_cast<double>(call.context().source->num_valid_tokens());
      return;
    case Op::kInverse: {
      const double count = *call.at<double>(Role::kX);
      *call.at(Role::kY) = count > 0 ? static_cast<float>(1.0 / count) : 0.0F;
      return;
    }
    case Op::kZero:
      std::memset(call.at<std::byte>(Role::kY), 0,
                  static_cast<std::size_t>(call.instruction().find(Role::kY)->range.bytes));
      return;
    case Op::kCopy:
      return run_copy(call);
    case Op::kAdd:
      return kernels::add(call.at(Role::kY), call.at(Role::kX), call.count(Role::kX));
    case Op::kNormSquare:
      *call.at<double>(Role::kNormSquare) +=
          kernels::sum_of_squares(call.at(Role::kX), call.count(Role::kX));
      return;
    case Op::kClip:
      return run_clip(call);
    default:
      TRI_CHECK(false && "no kernel for this operation");
  }
}

template <typename T>
class CpuBackend final : public Backend {
 public:
  CpuBackend(const Program& program, int num_threads);

  [[nodiscard]] std::int64_t workspace_bytes() const override { return workspace_bytes_; }
  void fill_constant(const Buffer& buffer, std::byte* bytes) override;
  void run(const Call& call, int index, Operands operands, const StepContext& context) override;

 private:
  /// The prepared product of an instruction, if it has one.
  struct Bound {
    kernels::Matmul* matmul = nullptr;
    kernels::HeadLoss<T>* head = nullptr;
    kernels::HeadLossShard<T>* head_shard = nullptr;
  };
  void bind_head(Part part, Bound& bound);
  void bind(const Instruction& instruction, Bound& bound);
  kernels::Matmul* product(const kernels::MatmulShape& shape);
  void need_workspace(std::int64_t bytes);
  [[nodiscard]] std::int64_t scratch_bytes(const Instruction& instruction) const;

  const Program& program_;
  LocalModel model_;
  int num_threads_;
  std::vector<bool> decays_;               ///< by row of the parameter table
  std::vector<std::vector<Bound>> bound_;  ///< [template][instruction]
  std::vector<std::unique_ptr<kernels::Matmul>> products_;
  std::unique_ptr<kernels::HeadLoss<T>> head_;
  std::unique_ptr<kernels::HeadLossShard<T>> head_shard_;
  std::int64_t workspace_bytes_ = 0;
};

template <typename T>
CpuBackend<T>::CpuBackend(const Program& program, int num_threads)
    : program_(program), model_(program), num_threads_(num_threads) {
  for (const Parameter& row : model_.table().rows())
    decays_.push_back(row.decays || program.request.decay_norms);
  for (const Template& item : program.templates) {
    auto& row = bound_.emplace_back(item.instructions.size());
    for (std::size_t i = 0; i < item.instructions.size(); ++i) {
      bind(item.instructions[i], row[i]);
      need_workspace(scratch_bytes(item.instructions[i]));
    }
  }
}

template <typename T>
kernels::Matmul* CpuBackend<T>::product(const MatmulShape& shape) {
  const auto found = std::find_if(products_.begin(), products_.end(),
                                  [&](const auto& made) { return made->shape() == shape; });
  if (found != products_.end()) return found->get();
  products_.push_back(std::make_unique<kernels::Matmul>(shape));
  need_workspace(products_.back()->scratch_bytes());
  return products_.back().get();
}

template <typename T>
void CpuBackend<T>::need_workspace(std::int64_t bytes) {
  workspace_bytes_ = std::max(workspace_bytes_, bytes);
}

template <typename T>
void CpuBackend<T>::bind_head(Part part, Bound& bound) {
  const ModelSpec& spec = model_.spec();
  const std::int64_t tokens = token_shape(program_).tokens();
  const bool trains = program_.kind == ProgramKind::kTrain;
  if (part == Part::kHead && head_ == nullptr) {
    head_ = std::make_unique<kernels::HeadLoss<T>>(
        kernels::HeadLossShape{.num_tokens = tokens, .hidden = spec.hidden, .vocab = spec.vocab},
        trains);
    need_workspace(head_->scratch_bytes());
  }
  if (part != Part::kHead && head_shard_ == nullptr) {
    const std::int64_t chunk_tokens = std::min(kHeadChunkTokens, tokens);
    head_shard_ = std::make_unique<kernels::HeadLossShard<T>>(
        kernels::HeadProductsShape{.chunk_tokens = chunk_tokens,
                                   .last_chunk_tokens = tokens % chunk_tokens,
                                   .hidden = spec.hidden,
                                   .vocab = spec.vocab},
        trains);
    need_workspace(head_shard_->scratch_bytes());
  }
  bound.head = head_.get();
  bound.head_shard = head_shard_.get();
}

template <typename T>
void CpuBackend<T>::bind(const Instruction& instruction, Bound& bound) {
  const ModelSpec& spec = model_.spec();
  const std::int64_t tokens = token_shape(program_).tokens();
  if (is_head(instruction.part)) {
    bind_head(instruction.part, bound);
  } else if (instruction.part == Part::kLogits) {
    bound.matmul =
        product(kernels::logits_product(1, spec.hidden, spec.vocab, program_.request.compute));
  } else if (is_linear(instruction.part)) {
    const LinearShape linear = linear_shape(spec, instruction.part);
    MatmulShape shape{
        .m = tokens, .n = linear.out, .k = linear.in, .dtype = program_.request.compute};
    if (instruction.op == Op::kBackwardInput) {
      shape.kind = MatmulKind::kInputGrad;
    } else if (instruction.op == Op::kBackwardWeight) {
      shape.kind = MatmulKind::kWeightGrad;
      shape.accumulate = instruction.find(Role::kDWeight)->access == Access::kAccumulate;
    } else {
      shape.bias = instruction.has(Role::kBias);
    }
    bound.matmul = product(shape);
  }
}

template <typename T>
std::int64_t CpuBackend<T>::scratch_bytes(const Instruction& instruction) const {
  const bool is_gradient = is_backward(instruction.op);
  if (is_norm(instruction.part) && is_gradient)
    return kernels::norm_backward_scratch_bytes(norm_shape(program_, model_.spec(), instruction));
  if (instruction.part == Part::kRope && is_gradient && program_.request.spec.qk_norm) {
    return kernels::split_heads_backward_scratch_bytes(heads_shape(program_, model_));
  }
  if (instruction.part == Part::kAttn) {
    const kernels::AttentionShape shape = attention_shape(program_, model_);
    return is_gradient ? kernels::attention_backward_scratch_bytes<T>(shape, num_threads_)
                       : kernels::attention_forward_scratch_bytes<T>(shape, num_threads_);
  }
  return 0;
}

template <typename T>
void CpuBackend<T>::fill_constant(const Buffer& buffer, std::byte* bytes) {
  const ModelSpec& spec = program_.request.spec;
  const std::int64_t row_elems = spec.head_dim / 2;
  const std::int64_t row_bytes = row_elems * static_cast<std::int64_t>(sizeof(float));
  const std::int64_t num_rows = buffer.bytes / row_bytes;
  const TokenPieces pieces = token_pieces(program_);
  const std::int64_t positions = pieces.position(num_rows - 1) + 1;
  std::vector<float> cosines(static_cast<std::size_t>(positions * row_elems)), sines = cosines;
  kernels::rope_table(positions, spec.head_dim, spec.rope_base, cosines.data(), sines.data());
  TRI_CHECK(buffer.name == "rope.cos" || buffer.name == "rope.sin");
  const auto& source = buffer.name == "rope.cos" ? cosines : sines;
  for (std::int64_t row = 0; row < num_rows; ++row) {  // one per token of the rank
    std::memcpy(bytes + row * row_bytes, source.data() + pieces.position(row) * row_elems,
                static_cast<std::size_t>(row_bytes));
  }
}

template <typename T>
void CpuBackend<T>::run(const Call& call, int index, Operands operands,
                        const StepContext& context) {
  const auto i = static_cast<std::size_t>(index);
  const Instruction& instruction = program_.at(call.template_index).instructions[i];
  const Bound& bound = bound_[static_cast<std::size_t>(call.template_index)][i];
  const PartCall part(program_, model_, instruction, operands, context);
  switch (instruction.part) {
    case Part::kEmbed:
      return run_embedding<T>(part);
    case Part::kAttnNorm:
    case Part::kMlpNorm:
    case Part::kFinalNorm:
      return run_norm<T>(part);
    case Part::kQkv:
    case Part::kProj:
    case Part::kMlpUp:
    case Part::kMlpDown:
      return run_linear<T>(part, *bound.matmul);
    case Part::kRope:
      return run_heads<T>(part);
    case Part::kAttn:
      return run_attention<T>(part);
    case Part::kAct:
      return run_activation<T>(part);
    case Part::kDropout:
      return run_dropout<T>(part);
    case Part::kHead:
      return run_head<T>(part, *bound.head);
    case Part::kLogits:
      return run_logits<T>(part, *bound.matmul);
    case Part::kHeadLogits:
    case Part::kHeadSums:
    case Part::kHeadLoss:
      return run_head_shard<T>(part, *bound.head_shard);
    case Part::kRowBias:
      return run_row_bias<T>(part);
    case Part::kPosition:
      return run_position<T>(part);
    case Part::kStageOut:
      if (instruction.op == Op::kForward) return run_stage_out<T>(part);
      break;  // a copy
    case Part::kStageIn:
    case Part::kRingKv:
    case Part::kRingDkv:  // an addition
    case Part::kNone:
      break;
  }
  if (instruction.op == Op::kLoad) return run_load(part, call.micro_batch);
  if (instruction.op == Op::kOptStep) {
    const bool decays = decays_[static_cast<std::size_t>(instruction.parameter)];
    return run_opt_step<T>(part, decays);
  }
  run_scalar(part);
}

}  // namespace

std::unique_ptr<Backend> make_cpu_backend(const Program& program, int num_threads) {
  if (program.request.compute == DType::kBf16)
    return std::make_unique<CpuBackend<Bf16>>(program, num_threads);
  return std::make_unique<CpuBackend<float>>(program, num_threads);
}

}  // namespace trireme
