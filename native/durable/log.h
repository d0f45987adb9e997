#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "common/result.h"
#include "durable/file.h"
#include "durable/record_file.h"

namespace flota {

// The redo log: records are appended to one file, and from time to time to the next. What was appended is in the page
// cache, so it outlives this process; sync() makes it outlive the machine. Thread safety: any thread.
class Log {
 public:
  // A file with a head and no records yet, that a log may go on with.
  static Result<File> make_file(const std::filesystem::path& path, const FileHead& head);

  // Goes on with a file that has so many bytes and records.
  Log(File file, uint64_t bytes, uint64_t records);

  // A record: whole when it returns, or not there. kNoSpace: it did not fit, and may later. After another error
  // nothing is appended any more: what the file holds is not known.
  Result<void> append(uint8_t kind, Parts parts);

  // Ends this file and goes on with the next one. On an error the log goes on with the old one.
  Result<void> rotate(File next);

  // What was appended before is on the disk when it returns; who waits at the same time waits for one turn of the disk
  // together.
  Result<void> sync();

  uint64_t bytes() const { return total_bytes_.load(std::memory_order_relaxed); }      // appended by this process
  uint64_t records() const { return total_records_.load(std::memory_order_relaxed); }  // the same

 private:
  // Requires: mutex_.
  Result<void> append_locked(EncodedRecord& record);

  std::mutex mutex_;
  std::shared_ptr<File> file_;
  std::shared_ptr<File> ended_;  // the one before, until it was synced
  uint64_t end_;
  uint64_t number_;
  std::string broken_;  // why nothing can be appended any more; empty: it can
  std::atomic<uint64_t> total_bytes_{0};
  std::atomic<uint64_t> total_records_{0};

  std::mutex sync_mutex_;
  uint64_t synced_ = 0;  // of the records appended by this process
};

}  // namespace flota
