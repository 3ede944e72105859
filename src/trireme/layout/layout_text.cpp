// The one-line form of a layout; every key is one row of kKeys.
#include <algorithm>
#include <array>
#include <cstddef>
#include <type_traits>
#include <vector>

#include <fmt/format.h>

#include "trireme/base/errors.h"
#include "trireme/base/nearest.h"
#include "trireme/base/numbers.h"
#include "trireme/layout/layout.h"

namespace trireme {
namespace {

struct Field {
  std::string_view key;
  std::string_view value;
};

[[noreturn]] void refuse(const Field& field, std::string_view rule_and_remedy) {
  throw UsageError(fmt::format("[layout] {}={}: {}", field.key, field.value, rule_and_remedy));
}

template <typename Number>
Number number_of(const Field& field) {
  Number number{};
  if (is_number(field.value, number)) return number;
  const std::string_view kind = std::is_integral_v<Number> ? "a whole number" : "a number";
  refuse(field,
         fmt::format("the value must be {} in range; use for example {}=1", kind, field.key));
}

// The enumerator with this name; `name_of` names the enumerators from 0 to kCount - 1.
template <std::size_t kCount, typename Enum>
Enum enumerator_of(const Field& field, std::string_view (*name_of)(Enum)) {
  std::array<std::string_view, kCount> names;
  for (std::size_t i = 0; i < names.size(); ++i) {
    names.at(i) = name_of(static_cast<Enum>(i));
    if (field.value == names.at(i)) return static_cast<Enum>(i);
  }
  refuse(field, fmt::format("must be one of {}; use {}={}", fmt::join(names, ", "), field.key,
                            nearest_name(field.value, names)));
}

template <int Layout::*kMember>
void read_int(const Field& field, Layout& layout, Batch& /*batch*/) {
  layout.*kMember = number_of<int>(field);
}

template <int Layout::*kMember>
std::string write_int(const Layout& layout, const Batch& /*batch*/) {
  return fmt::format("{}", layout.*kMember);
}

template <int Layout::*kMember>
std::string write_unless_default(const Layout& layout, const Batch& batch) {
  return layout.*kMember == Layout{}.*kMember ? "" : write_int<kMember>(layout, batch);
}

template <auto kMember, auto kNameOf, std::size_t kCount>
void read_choice(const Field& field, Layout& layout, Batch& /*batch*/) {
  layout.*kMember = enumerator_of<kCount>(field, kNameOf);
}

template <auto kMember, auto kNameOf>
std::string write_choice(const Layout& layout, const Batch& /*batch*/) {
  return std::string(kNameOf(layout.*kMember));
}

template <auto kMember, auto kNameOf>
std::string write_choice_unless_default(const Layout& layout, const Batch& batch) {
  return layout.*kMember == Layout{}.*kMember ? "" : write_choice<kMember, kNameOf>(layout, batch);
}

void read_sp(const Field& field, Layout& layout, Batch& /*batch*/) {
  if (field.value != "0" && field.value != "1")
    refuse(field, "must be 0 or 1; use for example sp=1");
  layout.sp = field.value == "1";
}

// "interleaved:2": the chunks stand behind the name.
void read_schedule(const Field& field, Layout& layout, Batch& /*batch*/) {
  const std::size_t colon = field.value.find(':');
  layout.schedule = field.value.substr(0, colon);
  layout.chunks = 0;
  if (colon == std::string_view::npos) return;
  if (is_number(field.value.substr(colon + 1), layout.chunks) && layout.chunks >= 1) return;
  refuse(field,
         fmt::format("chunks behind \":\" must be a whole number >= 1; use for example {}={}:2",
                     field.key, layout.schedule));
}

std::string write_schedule(const Layout& layout, const Batch& /*batch*/) {
  if (layout.pp == 1) return "";
  return layout.chunks == 0 ? layout.schedule
                            : fmt::format("{}:{}", layout.schedule, layout.chunks);
}

void read_stages(const Field& field, Layout& layout, Batch& /*batch*/) {
  layout.stages.clear();
  for (std::size_t begin = 0; begin <= field.value.size() && !field.value.empty();) {
    const std::size_t end = std::min(field.value.find(',', begin), field.value.size());
    std::int64_t num_layers = 0;
    if (!is_number(field.value.substr(begin, end - begin), num_layers))
      refuse(field, "must be whole numbers with commas between; use for example stages=3,3,2");
    layout.stages.push_back(num_layers);
    begin = end + 1;
  }
}

std::string write_stages(const Layout& layout, const Batch& /*batch*/) {
  return fmt::format("{}", fmt::join(layout.stages, ","));
}

struct Key {
  std::string_view name;
  void (*read)(const Field& field, Layout& layout, Batch& batch);
  std::string (*write)(const Layout& layout, const Batch& batch);  // "": left out of the line
};

constexpr std::array<Key, 18> kKeys = {{
    {"pp", read_int<&Layout::pp>, write_int<&Layout::pp>},
    {"dp", read_int<&Layout::dp>, write_int<&Layout::dp>},
    {"cp", read_int<&Layout::cp>, write_int<&Layout::cp>},
    {"cp_comm", read_choice<&Layout::cp_comm, cp_comm_name, 2>,
     write_choice_unless_default<&Layout::cp_comm, cp_comm_name>},
    {"tp", read_int<&Layout::tp>, write_int<&Layout::tp>},
    {"ep", read_int<&Layout::ep>, write_unless_default<&Layout::ep>},
    {"sp", read_sp,
     [](const Layout& layout, const Batch&) { return std::string(layout.sp ? "1" : "0"); }},
    {"zero", read_int<&Layout::zero>, write_int<&Layout::zero>},
    {"dp_shard", read_int<&Layout::dp_shard>, write_unless_default<&Layout::dp_shard>},
    {"reduce", read_choice<&Layout::reduce, gradient_reduction_name, 2>,
     write_choice_unless_default<&Layout::reduce, gradient_reduction_name>},
    {"reshard", read_choice<&Layout::reshard, reshard_name, 3>,
     write_choice_unless_default<&Layout::reshard, reshard_name>},
    {"prefetch", read_int<&Layout::prefetch>, write_unless_default<&Layout::prefetch>},
    {"mbs",
     [](const Field& field, Layout&, Batch& batch) {
       batch.micro_batch = number_of<std::int64_t>(field);
     },
     [](const Layout&, const Batch& batch) { return fmt::format("{}", batch.micro_batch); }},
    {"schedule", read_schedule, write_schedule},
    {"stages", read_stages, write_stages},
    {"dp_sync", read_choice<&Layout::dp_sync, dp_sync_name, 3>,
     write_choice<&Layout::dp_sync, dp_sync_name>},
    {"bucket_mib",
     [](const Field& field, Layout& layout, Batch&) {
       layout.bucket_mib = number_of<double>(field);
     },
     [](const Layout& layout, const Batch&) {
       return layout.bucket_mib == Layout{}.bucket_mib ? "" : fmt::format("{}", layout.bucket_mib);
     }},
    {"recompute", read_choice<&Layout::recompute, recompute_name, 3>,
     write_choice<&Layout::recompute, recompute_name>},
}};

const Key& key_of(const Field& field) {
  std::array<std::string_view, kKeys.size()> names;
  for (std::size_t i = 0; i < kKeys.size(); ++i) {
    names.at(i) = kKeys.at(i).name;
    if (field.key == names.at(i)) return kKeys.at(i);
  }
  refuse(field, fmt::format("unknown key '{}'; the nearest valid key is '{}'", field.key,
                            nearest_name(field.key, names)));
}

std::vector<Field> fields_of(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  std::vector<Field> fields;
  for (std::size_t first = text.find_first_not_of(kSpace); first != std::string_view::npos;
       first = text.find_first_not_of(kSpace, first)) {
    const std::size_t last = std::min(text.find_first_of(kSpace, first), text.size());
    const std::string_view word = text.substr(first, last - first);
    const std::size_t equals = word.find('=');
    if (equals == std::string_view::npos) {
      throw UsageError(fmt::format(
          "[layout] '{}': every field must be key=value; use for example dp=2 zero=1", word));
    }
    fields.push_back({.key = word.substr(0, equals), .value = word.substr(equals + 1)});
    first = last;
  }
  return fields;
}

}  // namespace

std::string layout_text(const Layout& layout, const Batch& batch) {
  std::string text;
  for (const Key& key : kKeys) {
    const std::string value = key.write(layout, batch);
    if (value.empty()) continue;
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", key.name, value);
  }
  return text;
}

void parse_layout_text(std::string_view text, Layout& layout, Batch& batch) {
  Layout new_layout = layout;
  Batch new_batch = batch;
  std::vector<std::string_view> seen;
  for (const Field& field : fields_of(text)) {
    const Key& key = key_of(field);
    if (std::find(seen.begin(), seen.end(), field.key) != seen.end()) {
      refuse(field, fmt::format("'{}' is given twice; keep one of them", field.key));
    }
    seen.push_back(field.key);
    key.read(field, new_layout, new_batch);
  }
  layout = new_layout;
  batch = new_batch;
}

}  // namespace trireme
