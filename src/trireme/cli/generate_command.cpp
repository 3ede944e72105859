// trireme generate
#include <CLI/CLI.hpp>
#include <limits>
#include <memory>

#include <fmt/format.h>

#include "trireme/base/errors.h"
#include "trireme/cli/commands.h"
#include "trireme/cli/model_folder.h"
#include "trireme/cli/safe_text.h"
#include "trireme/cli/validators.h"
#include "trireme/data/corpus.h"

namespace trireme {
namespace {

constexpr std::int64_t kDefaultContext = 1024;

struct GenerateArguments {
  std::string checkpoint;
  std::string prompt;
  std::int64_t tokens = 200;
  SamplingOptions sampling{.temperature = 0.8};
  std::int64_t context = 0;
  std::string layout;
  int threads = 0;
};

/// The layout's micro-batch has no effect, as all that concerns training alone.
Layout layout_of(const GenerateArguments& arguments) {
  Layout layout;
  Batch batch;
  parse_layout_text(arguments.layout, layout, batch);
  return layout;
}

void run_generate(const GenerateArguments& arguments, const Session& session) {
  if (arguments.prompt.empty()) {
    throw UsageError(
        "[generate] --prompt: is empty; the first token needs one before it, give text");
  }
  ModelFolder folder = find_model(arguments.checkpoint);
  for (const std::string& note : folder.notes) session.note(note);
  if (arguments.context > 0) {
    if (folder.spec.max_seq > 0 && arguments.context > folder.spec.max_seq) {
      throw UsageError(
          fmt::format("[generate] --context {}: the model's context is {} tokens; use {} or less",
                      arguments.context, folder.spec.max_seq, folder.spec.max_seq));
    }
    if (folder.spec.is_llama()) folder.spec.max_seq = arguments.context;
  }
  require_byte_tokens(folder.spec);
  if (folder.spec.vocab > kBytesVocab) {
    session.note(
        fmt::format("the model has {} tokens, but text is read and written as bytes: other "
                    "tokenizers are not built yet",
                    folder.spec.vocab));
  }
  Generator generator =
      load_generator(folder, kDefaultContext,
                     {.layout = layout_of(arguments),
                      .num_threads = arguments.threads > 0 ? arguments.threads : default_threads(),
                      .resets_affinity = session.resets_affinity});
  SafeText text;
  session.print(safe_text(arguments.prompt));
  generator.generate(byte_tokens(arguments.prompt), arguments.tokens, arguments.sampling,
                     [&](std::int32_t token) {
                       session.print(text.push(token));
                       return true;
                     });
  session.print(text.finish() + "\n");
}

}  // namespace

void add_generate_command(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<GenerateArguments>();  // owned by the command's callback
  CLI::App* const command = app.add_subcommand("generate", "Continue a text");
  command
      ->add_option("checkpoint", arguments->checkpoint,
                   "checkpoint, run folder (its newest one) or Hugging Face folder")
      ->required();
  command->add_option("--prompt", arguments->prompt, "text to continue")->required();
  command->add_option("--tokens", arguments->tokens, "tokens to add (200)")->check(whole_from(0));
  command
      ->add_option("--temperature", arguments->sampling.temperature,
                   "0 = most likely token, 1 = as learnt (0.8)")
      ->check(number_up_to(1e6, true));
  command
      ->add_option("--top-k", arguments->sampling.top_k,
                   "sample from the k most likely tokens; 0 = all")
      ->check(whole_from(0));
  command->add_option("--seed", arguments->sampling.seed, "of the random numbers (0)")
      ->check(CLI::Range(std::int64_t{0}, std::numeric_limits<std::int64_t>::max()));
  command
      ->add_option("--context", arguments->context,
                   "tokens that the caches hold; 0 = the model's context")
      ->check(whole_from(0));
  command->add_option("--layout", arguments->layout,
                      "layout text of one replica, for example \"pp=2 tp=2\"");
  command
      ->add_option("--threads", arguments->threads,
                   "compute threads of all ranks together; 0 = all cores")
      ->check(CLI::Range(0, 1024));
  command->footer("Example: trireme generate runs/demo --prompt \"In the beginning\" --tokens 100");
  command->callback([arguments, &session] { run_generate(*arguments, session); });
}

}  // namespace trireme
