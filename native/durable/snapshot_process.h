#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "common/deadline.h"
#include "common/result.h"
#include "durable/file.h"

namespace flota {

// A copy of this process, as it is at one moment, that writes a snapshot while this one goes on: the kernel gives it
// the same memory, and copies a page only when this process writes to it. It ends when it has written, and with this
// process. Thread safety: the caller's. Requires: the thread that forks lives until the process ended.
class SnapshotProcess {
 public:
  SnapshotProcess() = default;
  ~SnapshotProcess() { end(); }
  SnapshotProcess(const SnapshotProcess&) = delete;
  SnapshotProcess& operator=(const SnapshotProcess&) = delete;

  // Forks. In the copy there is one thread only: `write` takes no lock that another thread may have held, and gets by
  // with the files `kept`. kSystem: there is not enough memory for another process.
  Result<void> begin(const File& kept, const std::function<Result<void>()>& write);
  bool at_work() const { return pid_ != 0; }
  // How it ended; none while it is at work. After the deadline it is ended.
  std::optional<Result<void>> poll(Deadline deadline);
  void end();

 private:
  std::optional<Result<void>> poll_lost(Deadline deadline);

  pid_t pid_ = 0;  // 0: none
  File words_;     // where it says that it is done, or why it failed
};

}  // namespace flota
