#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "common/deadline.h"
#include "common/log_line.h"
#include "common/result.h"
#include "durable/folder.h"
#include "durable/log.h"
#include "durable/snapshot_process.h"
#include "server/journal.h"
#include "server/recovery.h"
#include "server/service.h"

namespace flota {

struct DurableOptions {
  std::string folder;  // empty: nothing outlives the process
  bool sync = false;   // answers wait for the disk, so that they outlive the machine as well
  // A snapshot is taken when the log since the last one has so many bytes and as many as the tables, or after a time in
  // which anything has changed.
  uint64_t snapshot_bytes = uint64_t{256} << 20;
  std::chrono::milliseconds snapshot_time{300'000};
  bool before_damage = false;  // a damaged log is used up to its damage
};

// What makes a server outlive its process: a folder with a redo log and snapshots, and the thread that takes care of
// them. Thread safety: write(), settle() and report() any thread, the rest one after another.
class Durability final : private Journal {
 public:
  struct Identity {
    uint32_t index = 0;
    uint32_t count = 1;
  };

  // Takes the folder; another server that has it is named.
  static Result<std::unique_ptr<Durability>> open(const DurableOptions& options, Identity identity, LogLine say);
  ~Durability() override { stop(); }

  // A service, made by `fresh`, with all that the folder holds.
  Result<std::unique_ptr<Service>> recover(std::function<std::unique_ptr<Service>()> fresh);
  // Whether that was anything.
  bool recovered() const { return recovered_; }

  // From here on what the service changes is written down. `filled`: it holds more than was recovered, so a snapshot is
  // written first. Requires: recover() made the service, which outlives this and serves nobody yet.
  Result<void> begin(Service& service, bool filled);
  // What was written down is on the disk, and nothing more is. A second call does nothing.
  void stop();

  // Numbers for the statistics.
  void report(const std::function<void(const char* name, uint64_t value)>& tell) const;

 private:
  using Clock = Deadline::Clock;

  Durability(const DurableOptions& options, Identity identity, Folder folder, LogLine say)
      : options_(options), identity_(identity), folder_(std::move(folder)), say_(std::move(say)) {}

  Result<void> write(RecordKind kind, std::initializer_list<std::span<const std::byte>> parts) override;
  Result<void> settle() override;

  FileHead head(FileKind kind, uint64_t generation) const;
  Result<void> open_log(const Recovered& state);
  void keep();
  void sync_log();
  void sync_if_due();
  bool is_due() const;
  Result<void> begin_snapshot(bool here);
  Result<void> finish_snapshot();
  void failed(const Error& error);
  Result<void> write_snapshot(const File& file, uint64_t generation) const;

  DurableOptions options_;
  Identity identity_;
  Folder folder_;
  LogLine say_;
  bool recovered_ = false;
  uint64_t folder_number_ = 0;
  uint64_t generation_ = 0;  // of the log
  std::unique_ptr<Log> log_;
  Service* service_ = nullptr;

  // Of the thread that takes care of it all.
  SnapshotProcess process_;
  uint64_t bytes_before_ = 0;     // of the log, when the last snapshot was begun
  uint64_t bytes_recovered_ = 0;  // of logs that are in no snapshot of this process
  Clock::time_point begun_at_{};
  Clock::time_point not_before_{};  // a snapshot that failed is tried again later
  std::chrono::seconds pause_{0};
  bool sync_failed_ = false;
  Clock::time_point next_sync_{};

  std::atomic<uint64_t> recovered_records_{0};
  std::atomic<uint64_t> recovery_ms_{0};
  std::atomic<uint64_t> snapshots_{0};
  std::atomic<uint64_t> snapshots_failed_{0};
  std::atomic<uint64_t> snapshot_ms_{0};
  std::atomic<uint64_t> stall_us_{0};

  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<bool> stopping_{false};
  std::thread keeper_;
};

}  // namespace flota
