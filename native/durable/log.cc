#include "durable/log.h"

#include <fcntl.h>

namespace flota {

Result<File> Log::make_file(const std::filesystem::path& path, const FileHead& head) {
  FLOTA_ASSIGN(File file, File::open(path, O_RDWR | O_CREAT | O_TRUNC));
  auto bytes = head.encode();
  iovec part{bytes.data(), bytes.size()};
  FLOTA_TRY(file.write_at(0, {&part, 1}));
  return file;
}

Log::Log(File file, uint64_t bytes, uint64_t records)
    : file_(std::make_shared<File>(std::move(file))), end_(bytes), number_(records) {}

Result<void> Log::append_locked(EncodedRecord& record) {
  if (!broken_.empty()) return Error{ErrorCode::kSystem, "the redo log is closed since an error: " + broken_};
  auto written = file_->write_at(end_, record.numbered(number_));
  if (!written) {
    // A part of it may be there: without it, what follows is where it belongs.
    auto cut = file_->truncate(end_);
    if (!cut) broken_ = cut.error().message;
    if (written.error().code != ErrorCode::kNoSpace) broken_ = written.error().message;
    return written.error().with("nothing was changed, because it cannot be written down");
  }
  end_ += record.bytes();
  ++number_;
  total_bytes_.fetch_add(record.bytes(), std::memory_order_relaxed);
  total_records_.fetch_add(1, std::memory_order_relaxed);
  return {};
}

Result<void> Log::append(uint8_t kind, Parts parts) {
  EncodedRecord record(kind, parts);  // the checksum before the lock
  std::lock_guard lock(mutex_);
  return append_locked(record);
}

Result<void> Log::rotate(File next) {
  std::lock_guard lock(mutex_);
  EncodedRecord last(kEndRecord, {});
  FLOTA_TRY(append_locked(last));
  ended_ = std::exchange(file_, std::make_shared<File>(std::move(next)));
  end_ = FileHead::kBytes;
  number_ = 0;
  return {};
}

Result<void> Log::sync() {
  const uint64_t wanted = records();
  std::lock_guard turn(sync_mutex_);
  if (synced_ >= wanted) return {};
  std::shared_ptr<File> ended, file;
  uint64_t reached = 0;
  {
    std::lock_guard lock(mutex_);
    if (!broken_.empty()) return Error{ErrorCode::kSystem, "the redo log is closed since an error: " + broken_};
    ended = ended_;
    file = file_;
    reached = records();
  }
  Result<void> status;
  if (ended) status = ended->sync();
  if (status) status = file->sync();
  std::lock_guard lock(mutex_);
  if (!status) {
    // The kernel may have thrown away what it could not write: nobody knows what is on the disk.
    broken_ = status.error().message;
    return status;
  }
  if (ended_ == ended) ended_.reset();
  synced_ = reached;
  return {};
}

}  // namespace flota
