#include "server/durability.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <random>
#include <system_error>

namespace flota {
namespace {

using std::chrono::milliseconds;

// The machine may lose so much of what was answered for.
constexpr milliseconds kBetweenSyncs{1000};
constexpr milliseconds kBetweenLooks{20};
// A snapshot that takes longer is stuck.
constexpr std::chrono::minutes kSnapshotTime{60};
constexpr std::chrono::seconds kFirstPause{10};
constexpr std::chrono::seconds kLongestPause{600};

// A snapshot as a journal: records go into its file.
class SnapshotJournal final : public Journal {
 public:
  explicit SnapshotJournal(RecordWriter& writer) : writer_(writer) {}
  Result<void> write(RecordKind kind, std::initializer_list<std::span<const std::byte>> parts) override {
    return writer_.write(static_cast<uint8_t>(kind), parts);
  }

 private:
  RecordWriter& writer_;
};

uint64_t random_folder_number() {
  std::random_device device;
  return (uint64_t{device()} << 32 | device()) | 1;
}

template <class Unit>
uint64_t since(Deadline::Clock::time_point begun) {
  return static_cast<uint64_t>(std::chrono::duration_cast<Unit>(Deadline::Clock::now() - begun).count());
}

std::string seconds_of(uint64_t ms) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.2f s", static_cast<double>(ms) / 1000);
  return text;
}

}  // namespace

Result<std::unique_ptr<Durability>> Durability::open(const DurableOptions& options, Identity identity, LogLine say) {
  FLOTA_ASSIGN(Folder folder, Folder::open(options.folder));
  if (!say) say = [](LogLevel, const std::string&) {};
  return std::unique_ptr<Durability>(new Durability(options, identity, std::move(folder), std::move(say)));
}

FileHead Durability::head(FileKind kind, uint64_t generation) const {
  return {kind, generation, identity_.index, identity_.count, folder_number_};
}

Result<std::unique_ptr<Service>> Durability::recover(std::function<std::unique_ptr<Service>()> fresh) {
  const auto begun = Clock::now();
  RecoveryOptions options{identity_.index, identity_.count, options_.before_damage, std::move(fresh), say_};
  FLOTA_ASSIGN(Recovered state, flota::recover(folder_, options));
  recovered_ = state.snapshot != 0 || state.records != 0;
  folder_number_ = state.folder == 0 ? random_folder_number() : state.folder;
  FLOTA_TRY(open_log(state));
  recovered_records_ = state.records;
  bytes_recovered_ = state.log_bytes;
  recovery_ms_ = since<milliseconds>(begun);
  if (recovered_) {
    say_(LogLevel::kInfo, "recovered from " + folder_.path().string() + ": " +
                              (state.snapshot == 0 ? "no snapshot" : "snapshot " + std::to_string(state.snapshot)) +
                              " and logs up to " + std::to_string(state.generation) + ", " +
                              std::to_string(state.records) + " records, " + std::to_string(state.bytes) +
                              " bytes, in " + seconds_of(recovery_ms_));
  }
  // Before anybody may ask: a server is looked at while it does not listen yet.
  state.service->set_report([this](const auto& tell) { report(tell); });
  return std::move(state.service);
}

// Goes on where the newest log's whole records end.
Result<void> Durability::open_log(const Recovered& state) {
  generation_ = std::max<uint64_t>(state.generation + (state.ended ? 1 : 0), 1);
  const bool fresh = state.generation == 0 || state.ended || state.end == 0;
  const auto path = folder_.log(generation_);
  uint64_t bytes = FileHead::kBytes;
  File file;
  if (fresh) {
    FLOTA_ASSIGN(file, Log::make_file(path, head(FileKind::kLog, generation_)));
  } else {
    FLOTA_ASSIGN(file, File::open(path, O_RDWR));
    FLOTA_TRY(file.truncate(state.end));
    bytes = state.end;
  }
  FLOTA_TRY(file.sync());
  FLOTA_TRY(sync_folder(folder_.path()));
  log_ = std::make_unique<Log>(std::move(file), bytes, fresh ? 0 : state.log_records);
  return {};
}

Result<void> Durability::begin(Service& service, bool filled) {
  service_ = &service;
  begun_at_ = Clock::now();
  if (filled) FLOTA_TRY(begin_snapshot(true));
  service.set_journal(this);
  keeper_ = std::thread([this] { keep(); });
  return {};
}

void Durability::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (keeper_.joinable()) keeper_.join();
}

Result<void> Durability::write(RecordKind kind, std::initializer_list<std::span<const std::byte>> parts) {
  return log_->append(static_cast<uint8_t>(kind), parts);
}

Result<void> Durability::settle() {
  if (!options_.sync) return {};
  return log_->sync();
}

void Durability::keep() {
  const milliseconds pace = std::clamp(options_.snapshot_time, kBetweenLooks, kBetweenSyncs);
  next_sync_ = Clock::now() + kBetweenSyncs;
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    changed_.wait_for(lock, process_.at_work() ? kBetweenLooks : pace);
    if (stopping_) break;
    lock.unlock();
    sync_if_due();
    Result<void> status;
    if (process_.at_work()) {
      status = finish_snapshot();
    } else if (is_due()) {
      status = begin_snapshot(false);
    }
    if (!status) failed(status.error());
    lock.lock();
  }
  lock.unlock();
  process_.end();
  ::unlink(folder_.unfinished(generation_).c_str());
  sync_log();
}

void Durability::sync_if_due() {
  if (Clock::now() < next_sync_) return;
  sync_log();
  next_sync_ = Clock::now() + kBetweenSyncs;
}

void Durability::sync_log() {
  const auto status = log_->sync();
  if (!status && !std::exchange(sync_failed_, true)) say_(LogLevel::kError, status.error().message);
}

bool Durability::is_due() const {
  const auto now = Clock::now();
  const uint64_t bytes = log_->bytes() - bytes_before_ + bytes_recovered_;
  if (bytes == 0 || now < not_before_) return false;
  if (now - begun_at_ >= options_.snapshot_time) return true;
  return bytes >= options_.snapshot_bytes && bytes >= service_->table_bytes();
}

Result<void> Durability::write_snapshot(const File& file, uint64_t generation) const {
  RecordWriter writer(file);
  SnapshotJournal journal(writer);
  writer.begin(head(FileKind::kSnapshot, generation));
  FLOTA_TRY(service_->save(journal));
  return writer.finish();
}

// `here`: written by this process, before it serves anybody.
Result<void> Durability::begin_snapshot(bool here) {
  const uint64_t next = generation_ + 1;
  begun_at_ = Clock::now();
  auto made = Log::make_file(folder_.log(next), head(FileKind::kLog, next));
  auto file = File::open(folder_.unfinished(next), O_RDWR | O_CREAT | O_TRUNC);
  Result<void> status = made ? Result<void>() : Result<void>(made.error());
  if (status && !file) status = file.error();
  // What the disk can do beforehand need not be waited for inside.
  if (status) status = sync_folder(folder_.path());
  if (status) status = log_->sync();
  if (status && here) status = write_snapshot(*file, next);
  bool rotated = false;
  if (status) {
    const auto closed = Clock::now();
    const auto frozen = service_->freeze();
    status = log_->rotate(std::move(*made));
    rotated = static_cast<bool>(status);
    if (status && !here) status = process_.begin(*file, [&] { return write_snapshot(*file, next); });
    stall_us_ = since<std::chrono::microseconds>(closed);
  }
  if (rotated) {
    generation_ = next;
    bytes_before_ = log_->bytes();
    bytes_recovered_ = 0;
    // What was written until then: a machine that dies must not lose it and keep what comes after.
    sync_log();
  } else {
    ::unlink(folder_.log(next).c_str());
  }
  if (!status) ::unlink(folder_.unfinished(next).c_str());
  FLOTA_TRY(status);
  if (!here) return {};
  ++snapshots_;
  snapshot_ms_ = since<milliseconds>(begun_at_);
  FLOTA_TRY(folder_.publish(next));
  return folder_.prune();
}

Result<void> Durability::finish_snapshot() {
  const auto ended = process_.poll(
      Deadline::after(std::chrono::duration_cast<milliseconds>(begun_at_ + kSnapshotTime - Clock::now())));
  if (!ended) return {};
  Result<void> status = *ended;
  if (!status) ::unlink(folder_.unfinished(generation_).c_str());
  if (status) status = folder_.publish(generation_);
  if (status) {
    ++snapshots_;
    snapshot_ms_ = since<milliseconds>(begun_at_);
    pause_ = {};
    status = folder_.prune();
  }
  // While the copy was there, each write to a huge page has split it; a fork of small pages takes twenty times as long.
  auto last = Clock::now();
  service_->collapse_pages([&] {
    // Who touches the page meanwhile waits for the kernel, and those who are served may need every core: a fourth of
    // one is enough, unless the next snapshot waits for it.
    const auto spent = Clock::now() - last;
    if (!is_due()) {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, 3 * spent, [this] { return stopping_.load(); });
    }
    sync_if_due();
    last = Clock::now();
    return !stopping_;
  });
  return status;
}

void Durability::failed(const Error& error) {
  ++snapshots_failed_;
  pause_ = std::clamp(pause_ * 2, kFirstPause, kLongestPause);
  not_before_ = Clock::now() + pause_;
  // The log since the last snapshot that was written grows meanwhile: nothing is lost.
  bytes_before_ = 0;
  say_(LogLevel::kWarning, "no snapshot: " + error.message +
                               "; the last one and the logs since are kept, and another is tried in " +
                               std::to_string(pause_.count()) + " s");
}

void Durability::report(const std::function<void(const char* name, uint64_t value)>& tell) const {
  tell("log_bytes", log_->bytes());
  tell("log_records", log_->records());
  tell("snapshots", snapshots_);
  tell("snapshots_failed", snapshots_failed_);
  tell("snapshot_ms", snapshot_ms_);
  tell("snapshot_stall_us", stall_us_);
  tell("recovered_records", recovered_records_);
  tell("recovery_ms", recovery_ms_);
}

}  // namespace flota
