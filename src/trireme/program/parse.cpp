// Parser of the text form.
#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "trireme/base/errors.h"
#include "trireme/base/numbers.h"
#include "trireme/program/content_names.h"
#include "trireme/program/local_model.h"
#include "trireme/program/text.h"

namespace trireme {
namespace {

std::vector<std::string_view> split(std::string_view text, std::string_view separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t at = text.find(separator);
    const std::string_view part = text.substr(0, at);
    if (!part.empty()) parts.push_back(part);
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + separator.size());
  }
}

std::optional<Family> parse_family(std::string_view name) {
  for (const Family family : {Family::kLlama, Family::kGpt2}) {
    if (family_name(family) == name) return family;
  }
  return std::nullopt;
}

class ProgramParser {
 public:
  explicit ProgramParser(std::string_view text) : text_(text) {}

  std::vector<Program> parse() {
    std::size_t begin = 0;
    while (begin < text_.size()) {
      const std::size_t end = std::min(text_.find('\n', begin), text_.size());
      ++line_number_;
      parse_line(text_.substr(begin, end - begin));
      begin = end + 1;
    }
    if (is_open_) fail("the file", "ends inside a program", "complete it with 'end'");
    if (programs_.empty()) fail("the file", "holds no program", "start one with 'program'");
    return std::move(programs_);
  }

 private:
  [[noreturn]] void fail(std::string_view token, std::string_view rule,
                         std::string_view remedy) const {
    throw UsageError(
        fmt::format("[program] line {}: '{}' {}; {}", line_number_, token, rule, remedy));
  }

  template <typename T>
  T checked(std::optional<T> value, std::string_view token, std::string_view what) const {
    if (!value)
      fail(token, fmt::format("is not a known {}", what),
           "see a program that 'trireme program' prints");
    return *std::move(value);
  }

  template <typename T>
  T number(std::string_view token) const {
    T value{};
    if (!is_number(token, value)) fail(token, "is not a number", "write digits");
    return value;
  }

  /// The value of "key=value".
  std::string_view value_of(std::string_view token, std::string_view key) const {
    if (token.substr(0, key.size()) != key || token.size() <= key.size() ||
        token[key.size()] != '=') {
      fail(token, fmt::format("stands where {}=... is due", key), "write the field");
    }
    return token.substr(key.size() + 1);
  }

  void parse_line(std::string_view line) {
    const auto words = split(line, " ");
    if (words.empty() || words[0].front() == '#') return;
    if (words[0] == "program") return begin_program(words);
    if (!is_open_) fail(words[0], "stands outside a program", "start with 'program KIND rank=R'");
    if (words[0] == "model") return parse_model(words);
    if (words[0] == "layout") return parse_layout(line);
    if (words[0] == "batch") return parse_batch(words);
    if (words[0] == "pool") return parse_pool(words);
    if (words[0] == "buffer") return parse_buffer(words);
    if (words[0] == "parameter") return parse_parameter(words);
    if (words[0] == "template") return parse_template(words);
    if (words[0] == "call") return parse_call(line);
    if (words[0] == "end") {
      need(words, 1, 1);
      return end_program();
    }
    parse_instruction(line);
  }

  void parse_layout(std::string_view line) {
    try {
      parse_layout_text(line.substr(line.find("layout") + 6), request().layout, request().batch);
    } catch (const UsageError& error) {
      fail("layout", fmt::format("is refused: {}", error.what()), "correct the line");
    }
  }

  Program& program() { return programs_.back(); }
  BuildRequest& request() { return programs_.back().request; }

  void need(const std::vector<std::string_view>& words, std::size_t least, std::size_t most) const {
    if (words.size() < least)
      fail(words.empty() ? "" : words[0], fmt::format("needs {} words", least),
           "complete the line");
    if (words.size() > most) fail(words[most], "is one word too many", "take it out");
  }

  void begin_program(const std::vector<std::string_view>& words) {
    need(words, 7, 7);
    if (is_open_) fail(words[0], "starts inside a program", "end the one before with 'end'");
    is_open_ = true;
    buffers_.clear();
    total_bytes_ = 0;
    programs_.emplace_back();
    program().kind = checked(parse_program_kind(words[1]), words[1], "kind of program");
    request().rank = number<int>(value_of(words[2], "rank"));
    program().num_micro_batches = number<int>(value_of(words[3], "micro_batches"));
    if (program().num_micro_batches < 1 || program().num_micro_batches > kMaxMicroBatches) {
      fail(words[3], fmt::format("is not from 1 to {}", kMaxMicroBatches), "correct the number");
    }
    request().decay_norms = number<int>(value_of(words[4], "decay_norms")) != 0;
    request().compute = float_type(words[5], "compute");
    request().reduce = float_type(words[6], "reduce");
  }

  [[nodiscard]] DType float_type(std::string_view word, std::string_view key) const {
    const std::string_view name = value_of(word, key);
    const DType dtype = checked(parse_dtype(name), name, "data type");
    if (dtype != DType::kF32 && dtype != DType::kBf16)
      fail(word, "is not what a step computes or reduces in", "use f32 or bf16");
    return dtype;
  }

  void end_program() {
    is_open_ = false;
    program().request.spec = resolved(program().request.spec);
    const auto num_parameters = static_cast<std::size_t>(ParameterTable(request().spec).size());
    if (program().parameters.size() != num_parameters) {
      fail("end",
           fmt::format("closes a program with {} parameter lines where the model has {}",
                       program().parameters.size(), num_parameters),
           "give one 'parameter' line per row of the parameter table");
    }
    check_layout(request().spec, request().layout, request().batch);
    const int world = request().layout.world();
    if (request().rank < 0 || request().rank >= world) {
      fail("end",
           fmt::format("closes the program of rank {} in a world of {}", request().rank, world),
           "use a rank of the layout");
    }
    if (std::ssize(program().calls) < program().num_micro_batches) {
      fail("end",
           fmt::format("closes a program of {} micro-batches with {} calls (V1)",
                       program().num_micro_batches, program().calls.size()),
           "call each micro-batch");
    }
    static_cast<void>(LocalModel(program()));  // refuses what cannot be cut into stages
  }

  static constexpr int kMaxMicroBatches = 1 << 20;

  void parse_model(const std::vector<std::string_view>& words) {
    ModelSpec& spec = request().spec;
    const std::map<std::string_view, std::function<void(std::string_view)>> fields = {
        {"family", [&](auto v) { spec.family = checked(parse_family(v), v, "family"); }},
        {"layers", [&](auto v) { spec.layers = number<std::int64_t>(v); }},
        {"hidden", [&](auto v) { spec.hidden = number<std::int64_t>(v); }},
        {"heads", [&](auto v) { spec.heads = number<std::int64_t>(v); }},
        {"kv_heads", [&](auto v) { spec.kv_heads = number<std::int64_t>(v); }},
        {"head_dim", [&](auto v) { spec.head_dim = number<std::int64_t>(v); }},
        {"ffn", [&](auto v) { spec.ffn = number<std::int64_t>(v); }},
        {"vocab", [&](auto v) { spec.vocab = number<std::int64_t>(v); }},
        {"max_seq", [&](auto v) { spec.max_seq = number<std::int64_t>(v); }},
        {"rope_base", [&](auto v) { spec.rope_base = number<double>(v); }},
        {"norm_eps", [&](auto v) { spec.norm_eps = number<double>(v); }},
        {"tied", [&](auto v) { spec.tied = number<int>(v) != 0; }},
        {"qkv_bias", [&](auto v) { spec.qkv_bias = number<int>(v) != 0; }},
        {"qk_norm", [&](auto v) { spec.qk_norm = number<int>(v) != 0; }},
        {"dropout", [&](auto v) { spec.dropout = number<double>(v); }},
    };
    for (std::size_t i = 1; i < words.size(); ++i) {
      const std::string_view key = words[i].substr(0, words[i].find('='));
      const auto field = fields.find(key);
      if (field == fields.end())
        fail(words[i], "is not a field of a model", "see [model] in the reference");
      field->second(value_of(words[i], key));
    }
  }

  void parse_batch(const std::vector<std::string_view>& words) {
    need(words, 3, 3);
    request().batch.seq = number<std::int64_t>(value_of(words[1], "seq"));
    request().batch.global_batch = number<std::int64_t>(value_of(words[2], "global_batch"));
  }

  void parse_pool(const std::vector<std::string_view>& words) {
    need(words, 3, 3);
    for (const FramePool& pool : program().pools) {
      if (pool.name == words[1]) fail(words[1], "is declared twice", "give each pool its own name");
    }
    program().pools.push_back(
        {.name = std::string(words[1]), .num_frames = number<int>(value_of(words[2], "frames"))});
  }

  int pool_named(std::string_view name) {
    for (std::size_t i = 0; i < program().pools.size(); ++i) {
      if (program().pools[i].name == name) return static_cast<int>(i);
    }
    fail(name, "is not a declared pool", "declare it with a 'pool' line");
  }

  void parse_buffer(const std::vector<std::string_view>& words) {
    need(words, 6, 7);
    Buffer buffer{.name = std::string(words[1])};
    buffer.kind = checked(parse_memory_kind(words[2]), words[2], "kind of memory");
    buffer.content = checked(parse_content(words[3]), words[3], "content");
    buffer.dtype = checked(parse_dtype(words[4]), words[4], "data type");
    buffer.bytes = number<std::int64_t>(value_of(words[5], "bytes"));
    if (words.size() > 6) buffer.pool = pool_named(value_of(words[6], "pool"));
    constexpr std::int64_t kMaxBytes = std::int64_t{1} << 48;
    if (buffer.bytes < 0 || buffer.bytes > kMaxBytes) {
      fail(words[5], "is not from 0 to 2^48", "give the bytes of the buffer");
    }
    const int frames =
        buffer.pool < 0 ? 1 : program().pools[static_cast<std::size_t>(buffer.pool)].num_frames;
    total_bytes_ += static_cast<double>(buffer.bytes) * frames;
    if (total_bytes_ > static_cast<double>(kMaxBytes)) {
      fail(words[5], "brings the buffers beyond 2^48 bytes", "give the bytes of the buffer");
    }
    if (buffers_.contains(buffer.name))
      fail(words[1], "is declared twice", "give each buffer its own name");
    const std::string name = buffer.name;
    buffers_[name] = program().add_buffer(std::move(buffer));
  }

  BufferId buffer_named(std::string_view name) const {
    const auto found = buffers_.find(name);
    if (found == buffers_.end())
      fail(name, "is not a declared buffer", "declare it with a 'buffer' line");
    return found->second;
  }

  Range parse_range(std::string_view token) {
    const std::size_t bracket = token.find('[');
    const BufferId id = buffer_named(token.substr(0, bracket));
    if (bracket == std::string_view::npos) return program().whole(id);
    const std::string_view inside = token.substr(bracket + 1);
    const std::size_t colon = inside.find(':');
    if (colon == std::string_view::npos || inside.back() != ']')
      fail(token, "is no range", "write name[begin:end]");
    const auto begin = number<std::int64_t>(inside.substr(0, colon));
    const auto end = number<std::int64_t>(inside.substr(colon + 1, inside.size() - colon - 2));
    if (begin < 0 || end < begin || end > program().buffer(id).bytes) {
      throw BrokenRange(
          fmt::format("[program] line {}: '{}' leaves the {} bytes of its buffer (V13); keep 0 <= "
                      "begin <= end <= bytes",
                      line_number_, token, program().buffer(id).bytes));
    }
    return {id, begin, end - begin};
  }

  void parse_parameter(const std::vector<std::string_view>& words) {
    need(words, 3, 5);
    if (number<std::size_t>(words[1]) != program().parameters.size()) {
      fail(words[1], "is not the next row of the parameter table", "list the rows in order");
    }
    if (words.size() == 3 && words[2] == "elsewhere") {
      program().parameters.emplace_back();
      return;
    }
    ParameterSlot slot{.parameter = parse_range(words[2])};
    if (words.size() > 3) slot.gradient = parse_range(words[3]);
    if (words.size() > 4) slot.head_gradient = parse_range(words[4]);
    program().parameters.push_back(slot);
  }

  void parse_template(const std::vector<std::string_view>& words) {
    need(words, 2, 2);
    if (program().find_template(words[1]))
      fail(words[1], "is defined twice", "give each template its own name");
    program().templates.push_back({.name = std::string(words[1]), .instructions = {}});
  }

  void parse_call(std::string_view line) {
    const auto sections = split(line, " | ");
    const auto words = split(sections[0], " ");
    need(words, 2, words.size());
    Call call{.template_index = checked(program().find_template(words[1]), words[1], "template")};
    for (std::size_t i = 2; i < words.size(); ++i) {
      if (words[i].starts_with("micro_batch=")) {
        call.micro_batch = number<int>(value_of(words[i], "micro_batch"));
      } else {
        call.frames.push_back(parse_frame(value_of(words[i], "frame")));
      }
    }
    for (std::size_t i = 1; i < sections.size(); ++i) parse_call_waits(sections[i], call);
    program().calls.push_back(std::move(call));
  }

  CallFrame parse_frame(std::string_view item) {
    const std::size_t colon = item.rfind(':');
    if (colon == std::string_view::npos) fail(item, "is no frame", "write frame=POOL:NUMBER");
    return {.pool = pool_named(item.substr(0, colon)),
            .frame = number<int>(item.substr(colon + 1))};
  }

  void parse_call_waits(std::string_view section, Call& call) const {
    if (!section.starts_with("wait ")) fail(section, "is no list of waits", "write | wait ...");
    for (std::string_view item : split(section.substr(5), ", ")) {
      item.remove_prefix(std::min(item.find_first_not_of(' '), item.size()));
      const std::size_t colon = item.find(':');
      if (colon == std::string_view::npos) {
        fail(item, "is no wait of a call", "write instruction:stream-calls_back:instruction");
      }
      call.waits.push_back({.instruction = number<int>(item.substr(0, colon)),
                            .wait = parse_wait(item.substr(colon + 1))});
    }
  }

  void parse_instruction(std::string_view line) {
    if (program().templates.empty())
      fail(line, "stands outside a template", "start one with 'template NAME'");
    const auto sections = split(line, " | ");
    if (sections.empty() || split(sections[0], " ").empty())
      fail(line, "holds no instruction", "start it with an operation");
    Instruction instruction = parse_head(split(sections[0], " "));
    for (std::size_t i = 1; i < sections.size(); ++i) parse_section(sections[i], instruction);
    program().templates.back().instructions.push_back(std::move(instruction));
  }

  Instruction parse_head(const std::vector<std::string_view>& words) const {
    Instruction instruction;
    instruction.op = checked(parse_op(words[0]), words[0], "operation");
    for (std::size_t i = 1; i < words.size(); ++i) {
      const std::string_view word = words[i];
      const std::string_view key = word.substr(0, word.find('='));
      if (key == "layer") {
        instruction.layer = number<int>(value_of(word, key));
      } else if (key == "stage") {
        instruction.stage = number<int>(value_of(word, key));
      } else if (key == "chunk") {
        instruction.chunk = number<int>(value_of(word, key));
      } else if (key == "parameter") {
        instruction.parameter = number<int>(value_of(word, key));
      } else if (key == "site") {
        instruction.site = checked(parse_site(value_of(word, key)), word, "dropout site");
      } else if (const auto stream = parse_stream(word)) {
        instruction.stream = *stream;
      } else {
        instruction.part = checked(parse_part(word), word, "part, stream or field");
      }
    }
    return instruction;
  }

  void parse_section(std::string_view section, Instruction& instruction) {
    const std::string_view kind = section.substr(0, section.find(' '));
    if (kind == "comm") return parse_comm(split(section, " "), instruction);
    const bool is_list = kind == "wait" || kind == "free";
    const std::string_view list = is_list ? section.substr(kind.size()) : section;
    for (std::string_view item : split(list, ", ")) {
      item.remove_prefix(std::min(item.find_first_not_of(' '), item.size()));
      if (kind == "wait") {
        instruction.waits.push_back(parse_wait(item));
      } else if (kind == "free") {
        instruction.frees.push_back(buffer_named(item));
      } else {
        instruction.uses.push_back(parse_use(item));
      }
    }
  }

  void parse_comm(const std::vector<std::string_view>& words, Instruction& instruction) const {
    need(words, 4, 7);
    Comm comm{.group = std::string(words[1])};
    comm.dtype = checked(parse_dtype(words[2]), words[2], "data type");
    comm.elems = number<std::int64_t>(value_of(words[3], "elems"));
    if (words.size() > 5) {
      comm.peer = number<int>(value_of(words[4], "peer"));
      if (words.size() > 6) comm.source = number<int>(value_of(words[5], "from"));
      comm.tag = number<int>(value_of(words.back(), "tag"));
    } else if (words.size() > 4) {
      comm.is_max = words[4] == "max";
      if (!comm.is_max) fail(words[4], "is no reduction", "write max, or leave it out for the sum");
    }
    instruction.comm = comm;
  }

  Wait parse_wait(std::string_view item) const {
    const std::size_t dash = item.find('-'), colon = item.find(':');
    if (dash == std::string_view::npos || colon == std::string_view::npos || colon < dash) {
      fail(item, "is no wait", "write stream-calls_back:instruction");
    }
    return {.stream = checked(parse_stream(item.substr(0, dash)), item, "stream"),
            .calls_back = number<int>(item.substr(dash + 1, colon - dash - 1)),
            .instruction = number<int>(item.substr(colon + 1))};
  }

  Use parse_use(std::string_view item) {
    const std::size_t space = item.find(' '), equals = item.find('=');
    if (space == std::string_view::npos || equals == std::string_view::npos || equals < space) {
      fail(item, "is no operand", "write ACCESS role=buffer[begin:end]");
    }
    const std::string_view role = item.substr(space + 1, equals - space - 1);
    return {.role = checked(parse_role(role), role, "operand role"),
            .access = checked(parse_access(item.substr(0, space)), item, "access"),
            .range = parse_range(item.substr(equals + 1))};
  }

  std::string_view text_;
  int line_number_ = 0;
  bool is_open_ = false;
  double total_bytes_ = 0;  ///< of the buffers of the open program, all frames
  std::vector<Program> programs_;
  std::map<std::string, BufferId, std::less<>> buffers_;
};

}  // namespace

std::vector<Program> parse_programs(std::string_view text) {
  return ProgramParser(text).parse();
}

}  // namespace trireme
