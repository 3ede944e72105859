// One row of a table of layouts, as `trireme predict` reads it.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/cost/workload.h"

namespace trireme {

/// What a blank cell means, by framework and cluster.
struct CaseDefaults {
  int node_devices = 8;
  int zero = 0;
  bool sp = false;            ///< where tp > 1 and the row names no recomputation
  bool is_llama_like = true;  ///< of a row that names no model: gated, untied
  std::int64_t seq = 4096;
};

/// The content of a column in a row, "" if the table lacks it.
using CellReader = std::function<std::string_view(std::string_view column)>;

struct PricedCase {
  Workload workload;
  ModelSpec spec = {};  ///< not resolved; what Trireme would train; layers = 0 if it cannot
};

/// The columns that are read: model, layers, hidden, heads, kv_heads, head_dim, ffn, vocab,
/// positions, tied, gated, nodes, gpus, dp, tp, pp, cp, vpp, sp, zero, mbs, grad_acc, gbs, seq,
/// recompute, precision, gpu_type, schedule, layout. No other column is ever looked at.
[[nodiscard]] const std::vector<std::string_view>& case_columns();

/// Reads a row; a blank cell takes its default: the known model's sizes, kv_heads = heads,
/// head_dim = hidden / heads (128 if heads is blank), ffn = 4 * hidden, degrees 1, dp what the
/// devices leave over, mbs 1, one micro-batch. Throws UsageError naming column, value, rule and
/// remedy for a cell that cannot be read, a model without sizes, degrees that do not give the
/// devices, and a batch that does not divide.
[[nodiscard]] PricedCase read_case(const CellReader& cell, const CaseDefaults& defaults);

}  // namespace trireme
