#pragma once

#include <atomic>
#include <boost/unordered/unordered_flat_map.hpp>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <span>

#include "common/deadline.h"
#include "common/result.h"
#include "server/record.h"

namespace flota {

// Whose push is it, and which: worker, the worker's incarnation, and its count of pushes.
struct PushId {
  uint64_t worker = 0;
  uint32_t epoch = 0;
  uint64_t sequence = 0;
  uint64_t oldest = 0;  // every lower sequence number was answered and will not come again
};

// Which pushes were applied, so that one that comes again (after a broken connection, from a second connection while
// the first is still at work) is answered and not applied. Thread safety: any thread.
class Ledger {
 public:
  enum class Verdict { kApply, kDuplicate };

  // kApply: the caller applies the push and then calls finish(). While another thread applies the same push, waits.
  Result<Verdict> begin(const PushId& id, Deadline deadline);
  // `applied` false: it failed before it changed anything, and may come again.
  void finish(const PushId& id, bool applied);

  // The worker was started again: pushes of earlier epochs are refused from here on. Requires: frozen.
  Result<void> rejoin(uint64_t worker, uint32_t epoch);

  uint64_t duplicates() const { return duplicates_.load(std::memory_order_relaxed); }
  size_t workers() const;

  // As in server/record.h. A push's own record tells what it changes here, so there is state only. save() requires that
  // no push is between begin() and finish().
  Freeze freeze();
  Result<void> save(Journal& out) const;
  Result<void> replay(RecordKind kind, std::span<const std::byte> payload);

 private:
  // Pushes of one worker may arrive out of order, within limits that keep a mad client from filling the memory.
  static constexpr size_t kMaxOpen = 65536;
  static constexpr size_t kMaxWorkers = size_t{1} << 20;

  struct Worker {
    std::mutex mutex;
    std::condition_variable changed;
    uint32_t epoch = 0;
    uint64_t floor = 0;                               // all below were applied
    boost::unordered_flat_map<uint64_t, bool> above;  // from there on: being applied (false), applied (true)
    size_t under_way = 0;                             // being applied

    void begin(uint32_t next);
  };

  Result<std::shared_ptr<Worker>> worker(uint64_t id, uint32_t epoch);
  // Requires: the lock, not shared.
  Result<std::shared_ptr<Worker>> find_or_make(uint64_t id, uint32_t epoch);
  Result<void> replay_worker(std::span<const std::byte> payload);

  mutable std::shared_mutex mutex_;
  boost::unordered_flat_map<uint64_t, std::shared_ptr<Worker>> workers_;
  std::atomic<uint64_t> duplicates_{0};
};

}  // namespace flota
