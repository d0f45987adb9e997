#include "server/registry.h"

#include <algorithm>
#include <mutex>

#include "common/hash.h"

namespace flota {

HostedTable::HostedTable(const TableSpec& table_spec) : spec(table_spec) {
  if (spec.kind == TableKind::kSparse) {
    sparse = std::make_unique<SparseTable>(spec);
  } else {
    dense = std::make_unique<DenseTable>(spec);
  }
}

uint64_t Registry::id_of(const std::string& name) { return hash_name(name); }

Result<std::shared_ptr<HostedTable>> Registry::create(const TableSpec& spec, bool* created) {
  const uint64_t id = id_of(spec.name);
  *created = false;
  auto check = [&](const HostedTable& table) -> Result<void> {
    if (table.spec.name != spec.name) {
      return invalid("the names '" + table.spec.name + "' and '" + spec.name + "' hash alike; rename one table");
    }
    if (table.spec == spec) return {};
    return Error{ErrorCode::kTableMismatch,
                 "table '" + spec.name + "' exists with other settings: " + difference(table.spec, spec)};
  };
  std::unique_lock lock(mutex_);
  auto found = tables_.find(id);
  if (found != tables_.end()) {
    FLOTA_TRY(check(*found->second));
    return found->second;
  }
  if (tables_.size() >= kMaxTables) return Error{ErrorCode::kBusy, "this server has too many tables"};
  auto table = std::make_shared<HostedTable>(spec);
  tables_.emplace(id, table);
  *created = true;
  return table;
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
