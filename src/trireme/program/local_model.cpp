#include "trireme/program/local_model.h"

#include <algorithm>
#include <cstddef>

#include "trireme/base/units.h"
#include "trireme/program/groups.h"
#include "trireme/program/replicas.h"

namespace trireme {
namespace {

Pipeline pipeline_of(const BuildRequest& request, ProgramKind kind, int num_micro_batches) {
  return kind == ProgramKind::kTrain
             ? Pipeline(request.spec, request.layout, num_micro_batches)
             : Pipeline::forward_only(request.spec, request.layout, num_micro_batches);
}

}  // namespace

LocalModel::LocalModel(const BuildRequest& request, ProgramKind kind, int num_micro_batches)
    : layout_(request.layout),
      spec_(request.spec),
      table_(request.spec),
      pipeline_(pipeline_of(request, kind, num_micro_batches)),
      coord_(request.layout.mesh().coord_of(request.rank)),
      local_spec_(tp_local_spec(request.spec, request.layout.tp, coord_.tp)) {
  num_cp_ranks_ = has_loss(kind) ? layout_.cp : 1;
  is_sequence_parallel_ = layout_.sp && layout_.tp > 1 && has_loss(kind);
  const bool is_alone = pipeline_.schedule().num_micro_batches == 1;
  shards_gradients_ = kind == ProgramKind::kTrain && layout_.zero >= 2 &&
                      replicas_of(request).is_sharded() && pipeline_.has_whole_backwards() &&
                      (is_alone || layout_.reduce == GradientReduction::kMicroBatch);
  const int last = pipeline_.num_stages() - 1;
  is_tied_across_ = spec_.tied && !pipeline_.holds(pipeline_.rank_of(0, 0), last);
}

std::vector<int> LocalModel::computed_stages() const {
  std::vector<int> computed;
  for (const int stage : stages()) {
    for (int i = 0; i < pipeline_.schedule().num_micro_batches; ++i) {
      if (pipeline_.rank_of(stage, i) != coord_.pp) continue;
      computed.push_back(stage);
      break;
    }
  }
  return computed;
}

std::vector<int> LocalModel::stages_of_row(std::size_t row) const {
  const Parameter& parameter = table_.rows()[row];
  const int last = pipeline_.num_stages() - 1;
  if (parameter.layer) return {pipeline_.stage_of_layer(narrow<int>(*parameter.layer))};
  switch (parameter.role) {
    case ParameterRole::kTokenTable:
      return spec_.tied && last > 0 ? std::vector<int>{0, last} : std::vector<int>{0};
    case ParameterRole::kPositionTable:
      return {0};
    default:
      return {last};
  }
}

bool LocalModel::holds(std::size_t row) const {
  const std::vector<int> stages = stages_of_row(row);
  return std::any_of(stages.begin(), stages.end(),
                     [this](int stage) { return holds_stage(stage); });
}

ParameterShard LocalModel::shard(std::size_t row) const {
  return tp_shard(spec_, table_.rows()[row], layout_.tp, coord_.tp);
}

std::int64_t LocalModel::first_vocab_row() const {
  return trireme::first_vocab_row(spec_, layout_.tp, coord_.tp);
}

std::vector<std::string_view> LocalModel::gradient_groups(std::size_t row) const {
  std::vector<std::string_view> groups;
  const TpSharding sharding = table_.rows()[row].tp_sharding;
  const bool is_partial = sharding == TpSharding::kPartialByHeads ||
                          (sharding == TpSharding::kPartialGrad && is_sequence_parallel());
  if (layout_.tp > 1 && is_partial) groups.push_back(axis_name(Axis::kTp));
  if (is_tied_across_ && stages_of_row(row).size() > 1) groups.push_back(kTiedGroup);
  if (pipeline_.is_bidirectional()) groups.push_back(kMirrorGroup);
  return groups;
}

bool LocalModel::is_reduced_at_once(std::size_t row) const {
  const bool is_tied_table = spec_.tied && narrow<std::int64_t>(row) == table_.head_index();
  return shards_gradients_ && !is_tied_table;
}

bool LocalModel::counts_in_norm(std::size_t row) const {
  if (coord_.tp > 0 && !is_cut(table_.rows()[row].tp_sharding)) return false;
  if (pipeline_.is_bidirectional()) return coord_.pp < layout_.pp / 2;
  return !(is_tied_across_ && stages_of_row(row).size() > 1) || holds_stage(0);
}

}  // namespace trireme
