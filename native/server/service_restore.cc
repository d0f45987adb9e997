// Tables of a checkpoint, put in place before anybody is served.
#include <algorithm>

#include "common/finite.h"
#include "optim/rule.h"
#include "server/service.h"

namespace flota {

Result<void> Service::restore_table(const TableSpec& spec) {
  FLOTA_TRY(validate(spec));
  if (spec.kind != TableKind::kSparse) return invalid("table '" + spec.name + "' is dense: it is restored whole");
  bool created = false;
  FLOTA_ASSIGN(auto table, registry_.create(spec, &created));
  if (!created) return invalid("there are two tables '" + spec.name + "'");
  table->restored = true;
  return {};
}

Result<uint64_t> Service::restore_rows(const Rows& rows, const ShardMap& map, uint32_t server) {
  FLOTA_ASSIGN(auto table, registry_.find(rows.table));
  if (!table->sparse) return invalid("table '" + table->spec.name + "' is dense: it has blocks, not keys");
  std::vector<Key> keys;
  std::vector<uint64_t> updates, last_seen;
  std::vector<float> weights, state;
  for (size_t i = 0; i < rows.keys.size(); ++i) {
    if (map.server_of[shard_of(rows.keys[i])] != server) continue;
    keys.push_back(rows.keys[i]);
    updates.push_back(rows.updates[i]);
    last_seen.push_back(rows.last_seen[i]);
    auto weights_of = rows.weights.subspan(i * rows.dim, rows.dim);
    auto state_of = rows.state.subspan(i * rows.state_floats, rows.state_floats);
    weights.insert(weights.end(), weights_of.begin(), weights_of.end());
    state.insert(state.end(), state_of.begin(), state_of.end());
  }
  Rows own{rows.table, 0, true, rows.dim, rows.state_floats, keys, updates, last_seen, weights, state, rows.part};
  FLOTA_TRY(check_import(*table, own));
  import_into(*table, own);
  return keys.size();
}

Result<void> Service::restore_history(const std::string& table, uint64_t era, uint64_t mark,
                                      std::vector<uint64_t> shrinks) {
  FLOTA_ASSIGN(auto found, registry_.find(table));
  if (!found->sparse) return invalid("table '" + table + "' is dense: it has no eras");
  if (shrinks.size() > EraReply::kMaxShrinks) return invalid("table '" + table + "' was shrunk too often");
  if (era > kMaxStep) return invalid("table '" + table + "': an era must be up to 2^62");
  std::lock_guard lock(found->history.mutex);
  begin_era(*found, {0, era, mark, era, true, std::move(shrinks)});
  return {};
}

Result<void> Service::restore_parameter(WholeParameter parameter) {
  const TableSpec& spec = parameter.spec;
  FLOTA_TRY(validate(spec));
  if (spec.kind != TableKind::kDense || !spec.blocks.empty()) {
    return invalid("table '" + spec.name + "' is no whole dense parameter");
  }
  const uint64_t size = spec.size();
  const auto rule = Rule::make(spec.rule);
  const uint64_t state = size * rule->state_slots();
  if (parameter.state.empty() && state > 0) {
    parameter.state.resize(state);
    rule->init_state(parameter.state, size);
  }
  if (parameter.weights.size() != size || parameter.state.size() != state) {
    return invalid("table '" + spec.name + "' has " + std::to_string(parameter.weights.size()) + " weights and " +
                   std::to_string(parameter.state.size()) + " floats of state; its shape and rule need " +
                   std::to_string(size) + " and " + std::to_string(state));
  }
  const size_t bad = first_nonfinite(parameter.weights.data(), size);
  if (!spec.allow_nonfinite && bad < size) {
    return Error{ErrorCode::kNonFinite,
                 "table '" + spec.name + "': element " + std::to_string(bad) + " is a NaN or an infinity"};
  }
  return registry_.keep(std::move(parameter));
}

void Service::restored(uint64_t checkpoint, uint64_t step) {
  checkpoint_ = checkpoint;
  checkpoint_step_ = step;
}

}  // namespace flota
