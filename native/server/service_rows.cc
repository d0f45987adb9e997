// Whole rows, and what became of them over time: export, import, eras, rows that go.
#include <algorithm>
#include <tuple>
#include <utility>

#include "common/finite.h"
#include "server/push_once.h"
#include "wire/era_messages.h"

namespace flota {
namespace {

// A page must fit a frame, and one request must not hold a lock for long.
constexpr uint32_t kMaxPageRows = 16384;
constexpr size_t kMaxPageBytes = size_t{16} << 20;

RowPage to_page(const Rows& rows) {
  RowPage page;
  page.keys.assign(rows.keys.begin(), rows.keys.end());
  page.updates.assign(rows.updates.begin(), rows.updates.end());
  page.last_seen.assign(rows.last_seen.begin(), rows.last_seen.end());
  page.weights.assign(rows.weights.begin(), rows.weights.end());
  page.state.assign(rows.state.begin(), rows.state.end());
  return page;
}

// How many weights, and how many floats of state, a row of this part of a table has.
std::pair<size_t, size_t> shape_of(const SparseTable& table, RowsOf part) {
  if (part == RowsOf::kTable) return {table.dim(), table.state_floats()};
  return {part == RowsOf::kWaiting ? kScoreFloats : 0, 0};
}

RowPage export_part(const SparseTable& table, const Export& message, size_t max_rows) {
  switch (message.part) {
    case RowsOf::kWaiting:
      return table.export_waiting(message.shard, message.cursor, max_rows);
    case RowsOf::kRemoved:
      return table.export_removed(message.shard, message.cursor, max_rows, message.since);
    default:
      return table.export_shard(message.shard, message.cursor, max_rows, message.since);
  }
}

void import_part(SparseTable& table, const Rows& rows) {
  switch (rows.part) {
    case RowsOf::kWaiting:
      table.import_waiting(to_page(rows));
      return;
    case RowsOf::kRemoved:
      table.remove_rows(rows.keys);
      return;
    default:
      table.import_rows(to_page(rows));
  }
}

}  // namespace

Result<Writer> Service::export_rows(Payload payload) {
  FLOTA_ASSIGN(auto message, Export::decode(payload));
  FLOTA_ASSIGN(auto table, registry_.find(message.table));
  RowPage page;
  size_t dim = 0;
  size_t state_floats = 0;
  if (table->sparse) {
    if (message.shard >= kShards) return invalid("there are 1,024 shards, from 0 on");
    std::tie(dim, state_floats) = shape_of(*table->sparse, message.part);
    size_t row_bytes = (dim + state_floats) * sizeof(float) + 3 * sizeof(uint64_t);
    size_t rows = std::clamp<size_t>(kMaxPageBytes / row_bytes, 1, kMaxPageRows);
    page = export_part(*table->sparse, message, std::min<size_t>(message.max_rows, rows));
  } else {
    if (message.part != RowsOf::kTable) return invalid("table '" + table->spec.name + "' is dense: it has no keys");
    int place = table->dense->find_block(message.shard);
    if (place < 0) return invalid("table '" + table->spec.name + "' has no such block on this server");
    page = table->dense->export_block(static_cast<size_t>(place));
    dim = page.weights.size();
    state_floats = page.state.size();
  }
  Rows rows{message.table,
            page.next,
            page.done,
            static_cast<uint32_t>(dim),
            static_cast<uint32_t>(state_floats),
            page.keys,
            page.updates,
            page.last_seen,
            page.weights,
            page.state,
            message.part};
  Writer out;
  rows.encode(out);
  return out;
}

Result<Writer> Service::import_rows(Payload payload) {
  FLOTA_ASSIGN(auto message, Rows::decode(payload));
  FLOTA_ASSIGN(auto table, registry_.find(message.table));
  FLOTA_TRY(check_import(*table, message));
  const auto alone = this->alone();
  FLOTA_TRY(record_kept(*table));
  FLOTA_TRY(record(MessageKind::kImport, payload));
  import_into(*table, message);
  return Writer();
}

Result<void> Service::check_import(const HostedTable& table, const Rows& message) {
  if (!table.spec.allow_nonfinite) {
    size_t bad = first_nonfinite(message.weights.data(), message.weights.size());
    if (bad < message.weights.size()) {
      auto key = static_cast<int64_t>(message.keys[bad / message.dim]);
      return nonfinite(table.spec, "key " + std::to_string(key));
    }
  }
  auto wrong_shape = [&] {
    return invalid("table '" + table.spec.name + "': the rows have " + std::to_string(message.dim) + " weights and " +
                   std::to_string(message.state_floats) + " floats of state, which is not this table's shape");
  };
  if (table.sparse) {
    const auto [dim, state_floats] = shape_of(*table.sparse, message.part);
    if (message.dim != dim || message.state_floats != state_floats) return wrong_shape();
    return {};
  }
  if (message.part != RowsOf::kTable) return invalid("table '" + table.spec.name + "' is dense: it has no keys");
  if (message.keys.size() != 1) return invalid("a dense import carries one block");
  int place = message.keys[0] <= UINT32_MAX ? table.dense->find_block(static_cast<uint32_t>(message.keys[0])) : -1;
  if (place < 0) return invalid("table '" + table.spec.name + "' has no such block on this server");
  uint64_t length = table.dense->block(static_cast<size_t>(place)).length;
  if (message.dim != length || message.state_floats != length * table.dense->state_slots()) return wrong_shape();
  return {};
}

void Service::import_into(HostedTable& table, const Rows& message) {
  if (table.sparse) {
    import_part(*table.sparse, message);
    return;
  }
  const int place = table.dense->find_block(static_cast<uint32_t>(message.keys[0]));
  table.dense->import_block(static_cast<size_t>(place), to_page(message));
}

Result<Writer> Service::era(Payload payload) {
  FLOTA_ASSIGN(auto message, Era::decode(payload));
  FLOTA_ASSIGN(auto table, registry_.find(message.table));
  if (!table->sparse) return invalid("table '" + table->spec.name + "' is dense: it has no eras");
  EraReply reply;
  Alone alone;
  if (message.begin != 0 || message.mark != 0 || message.restore) {
    alone = this->alone();
    FLOTA_TRY(record_kept(*table));
    FLOTA_TRY(record(MessageKind::kEra, payload));
  }
  {
    std::lock_guard lock(table->history.mutex);
    begin_era(*table, message);
    reply.marks = table->history.marks;
    reply.shrinks = table->history.shrinks;
  }
  reply.newest = std::max(table->sparse->newest_step(), table->sparse->era());
  reply.removed_since = table->sparse->removed_since();
  Writer out;
  reply.encode(out);
  return out;
}

// Requires: the lock of the table's history.
void Service::begin_era(HostedTable& table, const Era& message) {
  TableHistory& history = table.history;
  if (message.begin != 0) table.sparse->begin_era(message.begin);
  if (message.restore) {
    history.shrinks = message.shrinks;
    history.marks.clear();
  }
  if (message.mark == 0) return;
  if (history.marks.size() == EraReply::kMaxMarks) history.marks.erase(history.marks.begin());
  history.marks.push_back(message.mark);
  table.sparse->keep_removed(message.keep_since);
}

Result<Writer> Service::shrink(Payload payload) {
  FLOTA_ASSIGN(auto message, Shrink::decode(payload));
  FLOTA_ASSIGN(auto table, registry_.find(message.table));
  if (!table->sparse) return invalid("table '" + table->spec.name + "' is dense: it has no rows to remove");
  const bool by_score = message.min_score > 0 || message.decay != 1;
  if (by_score && !table->spec.admission.keeps_scores()) {
    return invalid("table '" + table->spec.name +
                   "' keeps no scores: min_score and decay are for tables that admit keys by shows and clicks");
  }
  const PushId id{message.worker, message.epoch, message.sequence, message.oldest};
  const auto alone = this->alone();
  FLOTA_ASSIGN(auto verdict, ledger_.begin(id, io_deadline()));
  ShrinkReply reply;
  if (verdict == Ledger::Verdict::kApply) {
    Result<void> status = record_kept(*table);
    if (status) status = record(MessageKind::kShrink, payload);
    try {
      if (status) reply.removed = apply_shrink(*table, message);
    } catch (...) {
      ledger_.finish(id, false);
      throw;
    }
    ledger_.finish(id, static_cast<bool>(status));
    FLOTA_TRY(status);
  } else {
    std::lock_guard lock(table->history.mutex);
    reply.removed = table->history.last_removed;
  }
  Writer out;
  reply.encode(out);
  return out;
}

uint64_t Service::apply_shrink(HostedTable& table, const Shrink& message) {
  TableHistory& history = table.history;
  std::lock_guard lock(history.mutex);
  // An era is later than all that was done before it: a worker that was started again asks for the same once more.
  if (message.era != 0 && message.era <= table.sparse->era()) return history.last_removed;
  const size_t before = history.shrinks.size();
  const uint64_t unseen_since =
      message.max_age == 0 || before < message.max_age ? 0 : history.shrinks[before - message.max_age];
  table.sparse->begin_era(message.era);
  if (message.all) {
    history.last_removed = table.sparse->shrink({.all = true});
    return history.last_removed;
  }
  history.last_removed = table.sparse->shrink({unseen_since, message.decay, message.min_score, message.min_norm});
  if (message.max_age == 0) return history.last_removed;  // ages count by those that ask for one
  if (before == EraReply::kMaxShrinks) history.shrinks.erase(history.shrinks.begin());
  history.shrinks.push_back(message.era);
  return history.last_removed;
}

}  // namespace flota
