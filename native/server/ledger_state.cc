// What a snapshot keeps of a ledger: a record for each worker.
#include "server/ledger.h"

namespace flota {

Freeze Ledger::freeze() {
  Freeze frozen;
  frozen.shared = std::unique_lock(mutex_);
  for (const auto& [id, worker] : workers_) frozen.locks.emplace_back(worker->mutex);
  return frozen;
}

Result<void> Ledger::save(Journal& out) const {
  std::vector<uint64_t> applied;
  for (const auto& [id, worker] : workers_) {
    applied.clear();
    for (const auto& [sequence, done] : worker->above) {
      // Neither "applied" nor "not applied" would be true of it.
      if (!done) return Error{ErrorCode::kBusy, "a push is being applied: the ledger cannot be saved now"};
      applied.push_back(sequence);
    }
    Writer record;
    record.put(id);
    record.put(worker->floor);
    record.put(worker->epoch);
    record.put(static_cast<uint32_t>(applied.size()));
    record.put_array(std::span<const uint64_t>(applied));
    FLOTA_TRY(write_record(&out, RecordKind::kLedger, record));
  }
  return {};
}

Result<void> Ledger::replay(RecordKind kind, std::span<const std::byte> payload) {
  if (kind != RecordKind::kLedger) return replayed(unknown_record(kind), "the ledger");
  return replayed(replay_worker(payload), "the ledger");
}

Result<void> Ledger::replay_worker(std::span<const std::byte> payload) {
  Reader in(payload);
  const auto id = in.get<uint64_t>();
  auto worker = std::make_shared<Worker>();
  worker->floor = in.get<uint64_t>();
  worker->epoch = in.get<uint32_t>();
  const auto applied = in.get_array<uint64_t>(in.get<uint32_t>());
  FLOTA_TRY(in.finish("what was applied of a worker"));
  if (applied.size() > kMaxOpen) return malformed("more pushes of one worker than it may have open");
  for (uint64_t sequence : applied) {
    if (sequence < worker->floor || !worker->above.emplace(sequence, true).second) {
      return malformed("push " + std::to_string(sequence) + " stands there twice");
    }
  }
  std::unique_lock lock(mutex_);
  if (workers_.size() >= kMaxWorkers) return malformed("too many workers");
  if (!workers_.emplace(id, std::move(worker)).second) return malformed("a worker stands there twice");
  return {};
}

}  // namespace flota
