// What of a server outlives its process: changes are written down as they are made, and everything at once for a
// snapshot.
#include <array>

#include "server/service.h"

namespace flota {
namespace {

// Keys of rows that pulls have made, in one record.
constexpr size_t kMostMade = size_t{1} << 16;
// While the disk is full.
constexpr std::chrono::milliseconds kBetweenTries{100};
constexpr size_t kEnoughMade = size_t{1} << 20;

}  // namespace

void Service::set_journal(Journal* journal) {
  journal_ = journal;
  rejoins_.set_journal(journal);
  barriers_.set_journal(journal);
  steps_.set_journal(journal);
  clocks_.set_journal(journal);
  leases_.set_journal(journal);
  mailboxes_.set_journal(journal);
  team_.set_journal(journal);
}

Service::Alone Service::alone() {
  if (journal_ == nullptr) return {};
  Alone alone{gate_.close(), {}};
  // Steps are applied outside of the gate.
  alone.steps = steps_.freeze();
  return alone;
}

// Who holds a part's lock never waits for the gate, so this waits for nobody who waits for it.
Service::Frozen Service::freeze() {
  Frozen frozen{gate_.close(), {}};
  // In the order in which a worker that was started again is made known to them.
  frozen.parts.push_back(rejoins_.freeze());
  frozen.parts.push_back(ledger_.freeze());
  frozen.parts.push_back(steps_.freeze());
  frozen.parts.push_back(steps_.finishes().freeze());
  frozen.parts.push_back(clocks_.freeze());
  frozen.parts.push_back(leases_.freeze());
  frozen.parts.push_back(barriers_.freeze());
  frozen.parts.push_back(mailboxes_.freeze());
  // Last: barriers and clocks look at it under their own locks.
  frozen.parts.push_back(team_.freeze());
  return frozen;
}

Result<void> Service::record(MessageKind kind, Payload payload) {
  if (journal_ == nullptr) return {};
  const auto number = static_cast<uint64_t>(kind);
  return journal_->write(RecordKind::kRequest, {std::as_bytes(std::span(&number, 1)), payload});
}

void Service::record_made(HostedTable& table, std::span<const Key> made) {
  std::lock_guard lock(table.made_mutex);
  table.made.insert(table.made.end(), made.begin(), made.end());
  if (table.write_made_at > Deadline::Clock::now()) return;
  // Not written now: tried again later, with those that came since.
  if (!record_kept(table)) table.write_made_at = Deadline::Clock::now() + kBetweenTries;
  table.made_enough.store(table.made.size() >= kEnoughMade, std::memory_order_relaxed);
}

// Requires: the table's made_mutex, or alone().
Result<void> Service::record_kept(HostedTable& table) {
  if (journal_ == nullptr) return {};
  const std::span<const Key> all(table.made);
  size_t written = 0;
  Result<void> status;
  while (status && written < all.size()) {
    const auto keys = all.subspan(written, std::min(kMostMade, all.size() - written));
    Writer head;
    PullHead{Registry::id_of(table.spec.name), static_cast<uint32_t>(keys.size()), table.spec.dim, true}.encode(head);
    const auto number = static_cast<uint64_t>(MessageKind::kPull);
    status = journal_->write(RecordKind::kRequest,
                             {std::as_bytes(std::span(&number, 1)), head.bytes(), std::as_bytes(keys)});
    if (status) written += keys.size();
  }
  table.made.erase(table.made.begin(), table.made.begin() + static_cast<ptrdiff_t>(written));
  return status;
}

uint64_t Service::table_bytes() const {
  uint64_t bytes = 0;
  for (const auto& table : registry_.all()) bytes += table->bytes();
  return bytes;
}

void Service::collapse_pages(const Pages::Between& between) const {
  for (const auto& table : registry_.all()) {
    const bool all = table->sparse ? table->sparse->collapse_pages(between) : table->dense->collapse_pages(between);
    if (!all) return;
  }
}

namespace {

Result<void> save_table(Journal& out, uint64_t id, const HostedTable& table) {
  Writer record;
  record.put(uint64_t{table.restored});
  // Pulls change nothing but their own counters: those begin anew.
  for (const auto* counter :
       {&table.pushes, &table.rows_pushed, &table.staleness_count, &table.staleness_sum, &table.staleness_max}) {
    record.put(counter->load());
  }
  record.put(table.dense ? table.dense->imports() : uint64_t{0});
  CreateTable{table.spec}.encode(record);
  FLOTA_TRY(out.write(RecordKind::kTable, {record.bytes()}));
  if (table.sparse) {
    FLOTA_TRY(table.sparse->save_image([&](std::span<const std::byte> page) {
      return out.write(RecordKind::kRows, {std::as_bytes(std::span(&id, 1)), page});
    }));
    Writer history;
    history.put(id);
    history.put(table.history.last_removed);
    history.put(static_cast<uint32_t>(table.history.marks.size()));
    history.put(static_cast<uint32_t>(table.history.shrinks.size()));
    history.put_array(std::span<const uint64_t>(table.history.marks));
    history.put_array(std::span<const uint64_t>(table.history.shrinks));
    FLOTA_TRY(out.write(RecordKind::kHistory, {history.bytes()}));
    return table.changes.save(out, id);
  }
  for (size_t place = 0; place < table.dense->block_count(); ++place) {
    const auto block = table.dense->image(place);
    const std::array<uint64_t, 5> head{id, place, block.updates, block.last_seen, block.written};
    FLOTA_TRY(out.write(RecordKind::kRows, {std::as_bytes(std::span(head)), block.weights, block.state}));
  }
  return {};
}

Result<void> save_parameter(Journal& out, const WholeParameter& parameter) {
  Writer head;
  head.put(parameter.updates);
  head.put(parameter.last_seen);
  head.put(static_cast<uint64_t>(parameter.weights.size()));
  head.put(static_cast<uint64_t>(parameter.state.size()));
  Writer spec;
  CreateTable{parameter.spec}.encode(spec);
  head.put(static_cast<uint64_t>(spec.bytes().size()));
  const std::span<const float> weights(parameter.weights), state(parameter.state);
  const std::array<float, 2> zeros{};
  const auto padding = std::span(zeros).first((weights.size() + state.size()) % 2);
  return out.write(RecordKind::kParameter,
                   {head.bytes(), spec.bytes(), std::as_bytes(weights), std::as_bytes(state), std::as_bytes(padding)});
}

}  // namespace

Result<void> Service::save(Journal& out) const {
  const std::array<uint64_t, 2> head{checkpoint_, checkpoint_step_};
  FLOTA_TRY(out.write(RecordKind::kHead, {std::as_bytes(std::span(head))}));
  FLOTA_TRY(registry_.each([&](uint64_t id, const HostedTable& table) { return save_table(out, id, table); },
                           [&](const WholeParameter& parameter) { return save_parameter(out, parameter); }));
  FLOTA_TRY(ledger_.save(out));
  FLOTA_TRY(rejoins_.save(out));
  FLOTA_TRY(team_.save(out));
  FLOTA_TRY(steps_.save(out));
  FLOTA_TRY(steps_.finishes().save(out));
  FLOTA_TRY(barriers_.save(out));
  FLOTA_TRY(clocks_.save(out));
  FLOTA_TRY(leases_.save(out));
  FLOTA_TRY(mailboxes_.save(out));
  return {};
}

}  // namespace flota
