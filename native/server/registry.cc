#include "server/registry.h"

#include <algorithm>
#include <mutex>

#include "common/hash.h"
#include "server/counters.h"
#include "wire/messages.h"

namespace flota {

HostedTable::HostedTable(const TableSpec& table_spec) : spec(table_spec) {
  if (spec.kind == TableKind::kSparse) {
    sparse = std::make_unique<SparseTable>(spec);
  } else {
    dense = std::make_unique<DenseTable>(spec);
  }
}

uint64_t HostedTable::version() const {
  const uint64_t pushed = pushes.load(std::memory_order_acquire);
  if (sparse) return pushed;
  return dense->written() ? pushed + dense->imports() : 0;
}

void HostedTable::count_push(uint64_t count, uint64_t seen) {
  // Released: who reads this version reads what was pushed.
  const uint64_t before = pushes.fetch_add(1, std::memory_order_release) + (dense ? dense->imports() : 0);
  Counters::add(rows_pushed, count);
  if (seen == PushHead::kNoVersion) return;
  // A version from before this server was restarted may lie ahead.
  const uint64_t staleness = before > seen ? before - seen : 0;
  Counters::add(staleness_count);
  Counters::add(staleness_sum, staleness);
  uint64_t most = staleness_max.load(std::memory_order_relaxed);
  while (most < staleness && !staleness_max.compare_exchange_weak(most, staleness, std::memory_order_relaxed)) {
  }
}

namespace {

// Gives this server's blocks of a parameter their values. Requires: specs alike but for the blocks.
void fill(HostedTable& table, const WholeParameter& whole) {
  const uint64_t size = whole.spec.size();
  for (size_t place = 0; place < table.dense->block_count(); ++place) {
    const BlockSpec& block = table.dense->block(place);
    RowPage page;
    page.keys = {block.id};
    page.updates = {whole.updates};
    page.last_seen = {whole.last_seen};
    const float* weights = whole.weights.data() + block.offset;
    page.weights.assign(weights, weights + block.length);
    for (size_t slot = 0; slot < table.dense->state_slots(); ++slot) {
      const float* state = whole.state.data() + slot * size + block.offset;
      page.state.insert(page.state.end(), state, state + block.length);
    }
    table.dense->import_block(place, page);
  }
  table.restored = true;
}

}  // namespace

uint64_t Registry::id_of(const std::string& name) { return hash_name(name); }

Result<std::shared_ptr<HostedTable>> Registry::create(const TableSpec& spec, bool* created) {
  const uint64_t id = id_of(spec.name);
  *created = false;
  auto check = [&](const HostedTable& table) -> Result<void> {
    if (table.spec.name != spec.name) {
      return invalid("the names '" + table.spec.name + "' and '" + spec.name + "' hash alike; rename one table");
    }
    const std::string differs = difference(table.spec, spec);
    if (differs.empty()) return {};
    return Error{ErrorCode::kTableMismatch, "table '" + spec.name + "' exists with other settings: " + differs};
  };
  std::unique_lock lock(mutex_);
  auto found = tables_.find(id);
  if (found != tables_.end()) {
    FLOTA_TRY(check(*found->second));
    return found->second;
  }
  if (tables_.size() >= kMaxTables) return Error{ErrorCode::kBusy, "this server has too many tables"};
  auto whole = kept_.find(spec.name);
  if (whole != kept_.end()) {
    TableSpec restored = whole->second.spec;
    restored.blocks = spec.blocks;
    const std::string differs = difference(restored, spec);
    if (!differs.empty()) {
      return Error{ErrorCode::kTableMismatch, "table '" + spec.name + "' was restored with other settings: " + differs};
    }
  }
  auto table = std::make_shared<HostedTable>(spec);
  if (whole != kept_.end()) {
    fill(*table, whole->second);
    kept_.erase(whole);
  }
  tables_.emplace(id, table);
  *created = true;
  return table;
}

Result<void> Registry::keep(WholeParameter parameter) {
  std::unique_lock lock(mutex_);
  const std::string name = parameter.spec.name;
  if (tables_.contains(id_of(name)) || kept_.contains(name)) return invalid("there are two tables '" + name + "'");
  kept_.emplace(name, std::move(parameter));
  return {};
}

std::vector<std::string> Registry::kept() const {
  std::shared_lock lock(mutex_);
  std::vector<std::string> names;
  for (const auto& [name, parameter] : kept_) names.push_back(name);
  return names;
}

Result<std::shared_ptr<HostedTable>> Registry::find(uint64_t id) const {
  std::shared_lock lock(mutex_);
  auto found = tables_.find(id);
  if (found != tables_.end()) return found->second;
  return Error{ErrorCode::kUnknownTable,
               "this server has no such table; create it first (a server that was restarted "
               "without a snapshot has lost its tables)"};
}

Result<std::shared_ptr<HostedTable>> Registry::find(const std::string& name) const {
  std::shared_lock lock(mutex_);
  auto found = tables_.find(id_of(name));
  if (found != tables_.end() && found->second->spec.name == name) return found->second;
  std::string known;
  for (const auto& [id, table] : tables_) known += (known.empty() ? "" : ", ") + table->spec.name;
  return Error{ErrorCode::kUnknownTable, "there is no table '" + name + "'" +
                                             (known.empty() ? "; no table was created yet" : "; there are: " + known)};
}

std::vector<std::shared_ptr<HostedTable>> Registry::all() const {
  std::shared_lock lock(mutex_);
  std::vector<std::shared_ptr<HostedTable>> tables;
  for (const auto& [id, table] : tables_) tables.push_back(table);
  lock.unlock();
  std::sort(tables.begin(), tables.end(), [](const auto& a, const auto& b) { return a->spec.name < b->spec.name; });
  return tables;
}

}  // namespace flota
