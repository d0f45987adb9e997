#include "server/ledger.h"

#include <string>

#include "common/check.h"

namespace flota {

Result<std::shared_ptr<Ledger::Worker>> Ledger::worker(uint64_t id, uint32_t epoch) {
  {
    std::shared_lock lock(mutex_);
    auto found = workers_.find(id);
    if (found != workers_.end()) return found->second;
  }
  std::unique_lock lock(mutex_);
  return find_or_make(id, epoch);
}

Result<std::shared_ptr<Ledger::Worker>> Ledger::find_or_make(uint64_t id, uint32_t epoch) {
  auto found = workers_.find(id);
  if (found != workers_.end()) return found->second;
  if (workers_.size() >= kMaxWorkers) return Error{ErrorCode::kBusy, "this server has seen too many workers"};
  auto fresh = std::make_shared<Worker>();
  fresh->epoch = epoch;
  workers_.emplace(id, fresh);
  return fresh;
}

void Ledger::Worker::begin(uint32_t next) {
  epoch = next;
  floor = 0;
  above.clear();
  under_way = 0;
}

Result<Ledger::Verdict> Ledger::begin(const PushId& id, Deadline deadline) {
  FLOTA_ASSIGN(std::shared_ptr<Worker> worker, this->worker(id.worker, id.epoch));
  std::unique_lock lock(worker->mutex);
  // What an earlier incarnation has under way is written down before anything of this one: a replay would refuse it
  // afterwards.
  while (id.epoch > worker->epoch && worker->under_way > 0) {
    if (worker->changed.wait_until(lock, deadline.when()) == std::cv_status::timeout && deadline.passed()) {
      return Error{ErrorCode::kDeadline, "pushes of this worker's earlier incarnation are still being applied"};
    }
  }
  if (id.epoch < worker->epoch) {
    return Error{ErrorCode::kStaleEpoch, "a newer incarnation (epoch " + std::to_string(worker->epoch) +
                                             ") of this worker is at work; this one (epoch " +
                                             std::to_string(id.epoch) + ") must stop"};
  }
  if (id.epoch > worker->epoch) worker->begin(id.epoch);
  if (id.oldest > worker->floor) {
    worker->floor = id.oldest;
    boost::unordered::erase_if(worker->above, [&](const auto& entry) { return entry.first < id.oldest; });
  }
  for (;;) {
    if (id.epoch != worker->epoch) return Error{ErrorCode::kStaleEpoch, "a newer incarnation of this worker took over"};
    auto seen = worker->above.find(id.sequence);
    if (id.sequence < worker->floor || (seen != worker->above.end() && seen->second)) {
      duplicates_.fetch_add(1, std::memory_order_relaxed);
      return Verdict::kDuplicate;
    }
    if (seen == worker->above.end()) break;
    if (worker->changed.wait_until(lock, deadline.when()) == std::cv_status::timeout && deadline.passed()) {
      return Error{ErrorCode::kDeadline, "this push is still being applied for an earlier request"};
    }
  }
  if (worker->above.size() >= kMaxOpen) return Error{ErrorCode::kBusy, "too many unanswered pushes of one worker"};
  worker->above.emplace(id.sequence, false);
  ++worker->under_way;
  return Verdict::kApply;
}

void Ledger::finish(const PushId& id, bool applied) {
  auto found = worker(id.worker, id.epoch);
  FLOTA_CHECK(found.has_value(), "finish without begin");
  Worker& worker = **found;
  {
    std::lock_guard lock(worker.mutex);
    if (worker.epoch != id.epoch) return;
    --worker.under_way;
    // Below the floor it has no place: its worker asks for it no more.
    if (applied && id.sequence >= worker.floor) {
      worker.above[id.sequence] = true;
    } else {
      worker.above.erase(id.sequence);
    }
  }
  worker.changed.notify_all();
}

size_t Ledger::workers() const {
  std::shared_lock lock(mutex_);
  return workers_.size();
}

}  // namespace flota
