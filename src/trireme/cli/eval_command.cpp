// trireme eval
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include <fmt/format.h>

#include "trireme/base/errors.h"
#include "trireme/base/units.h"
#include "trireme/cli/commands.h"
#include "trireme/cli/model_folder.h"
#include "trireme/cli/text_evaluation.h"
#include "trireme/cli/validators.h"
#include "trireme/comm/threads/thread_world.h"
#include "trireme/data/batch.h"

namespace trireme {
namespace {

constexpr std::int64_t kDefaultSeq = 1024;

struct EvalArguments {
  std::string checkpoint;
  std::string text;
  std::int64_t seq = 0;
  std::int64_t micro_batch = 4;
  std::int64_t tokens = 0;
  std::string layout;
  bool is_json = false;
};

EvaluationRequest request_of(const EvalArguments& arguments, const Session& session) {
  EvaluationRequest request{.model = find_model(arguments.checkpoint),
                            .layout = {},
                            .batch = {.seq = arguments.seq, .micro_batch = arguments.micro_batch},
                            .resets_affinity = session.resets_affinity};
  for (const std::string& note : request.model.notes) session.note(note);
  const ModelSpec& spec = request.model.spec;
  require_byte_tokens(spec);
  parse_layout_text(arguments.layout, request.layout, request.batch);
  if (request.batch.seq == 0) request.batch.seq = spec.max_seq > 0 ? spec.max_seq : kDefaultSeq;
  if (spec.max_seq > 0 && request.batch.seq > spec.max_seq) {
    throw UsageError(
        fmt::format("[eval] --seq {}: the model's context is {} tokens; use --seq {} or less",
                    request.batch.seq, spec.max_seq, spec.max_seq));
  }
  request.batch.global_batch = 1;
  if (request.layout.world() > kMaxThreadRanks) {
    throw UsageError(fmt::format("[eval] --layout \"{}\": at most {} ranks; use fewer",
                                 arguments.layout, kMaxThreadRanks));
  }
  Layout without_sp = request.layout;  // whose rule needs the real micro-batch
  without_sp.sp = false;
  check_layout(spec, without_sp,
               {.seq = request.batch.seq, .micro_batch = 1, .global_batch = request.layout.dp});
  request.batch.global_batch = request.batch.micro_batch * request.layout.dp;
  check_layout(spec, request.layout, request.batch);
  request.threads_per_rank = std::max(1, default_threads() / request.layout.world());
  return request;
}

void run_eval(const EvalArguments& arguments, const Session& session) {
  const EvaluationRequest request = request_of(arguments, session);
  const Corpus corpus({arguments.text}, 0.0);
  std::optional<std::int64_t> tokens;
  if (arguments.tokens > 0) tokens = arguments.tokens;
  const EvalBatches batches(corpus, Split::kTrain, request.batch.seq, tokens);
  const EvaluationResult result = evaluate_text(request, batches);
  if (!std::isfinite(result.loss)) {
    throw ResourceError(
        fmt::format("[eval] the loss of {} is not finite; the weights are damaged or training "
                    "diverged: use an earlier checkpoint",
                    request.model.path.string()));
  }
  const double perplexity = std::exp(result.loss);
  if (arguments.is_json) {
    const nlohmann::ordered_json json = {{"checkpoint", request.model.path.string()},
                                         {"tokens", result.tokens},
                                         {"loss", result.loss},
                                         {"perplexity", perplexity}};
    return session.print(json.dump(2) + "\n");
  }
  session.print(fmt::format("loss {:.4f} nats per byte, perplexity {:.3f}, over {} bytes ({})\n",
                            result.loss, perplexity, format_count(result.tokens),
                            request.model.path.string()));
}

}  // namespace

void add_eval_command(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<EvalArguments>();  // owned by the command's callback
  CLI::App* const command = app.add_subcommand("eval", "Loss of a model over a text");
  command
      ->add_option("checkpoint", arguments->checkpoint,
                   "checkpoint, run folder (its newest one) or Hugging Face folder")
      ->required();
  command->add_option("text", arguments->text, "text file")->required();
  command->add_option("--seq", arguments->seq, "tokens of a window; 0 = the model's context")
      ->check(whole_from(0));
  command->add_option("--micro-batch", arguments->micro_batch, "windows at once (4)")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20));
  command->add_option("--tokens", arguments->tokens, "tokens to evaluate; 0 = all")
      ->check(whole_from(0));
  command->add_option("--layout", arguments->layout, "layout text, for example \"dp=2\"");
  command->add_flag("--json", arguments->is_json, "print JSON");
  command->footer("Example: trireme eval runs/demo data/kjv.txt --tokens 20000");
  command->callback([arguments, &session] { run_eval(*arguments, session); });
}

}  // namespace trireme
