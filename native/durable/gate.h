#pragma once

#include <mutex>
#include <optional>
#include <shared_mutex>

#include "common/read_write_lock.h"

namespace flota {

// What changes tables passes through it, many at a time; a snapshot closes it for the moment in which it forks, and so
// do changes of whole tables, so that the log has them in the order in which they were made. Nobody waits for others
// inside, but for a mutex whose holder never waits for the gate. Thread safety: any thread.
class Gate {
 public:
  using Passing = std::shared_lock<ReadWriteLock>;
  using Closed = std::unique_lock<ReadWriteLock>;

  Passing pass() { return Passing(lock_); }
  Closed close() { return Closed(lock_); }

 private:
  ReadWriteLock lock_;
};

}  // namespace flota
