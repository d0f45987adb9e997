#include "server/recovery.h"

#include <fcntl.h>

#include <algorithm>
#include <new>
#include <stdexcept>

#include "server/row_loaders.h"
#include "wire/fields.h"

namespace flota {
namespace {

bool is_damage(const Error& error) { return error.code == ErrorCode::kMalformed; }

// One attempt: a snapshot, or nothing, and all logs after it.
class Attempt {
 public:
  Attempt(Folder& folder, const RecoveryOptions& options, std::vector<uint64_t> logs)
      : folder_(folder), options_(options), logs_(std::move(logs)) {}

  Result<void> read_snapshot(uint64_t generation);
  Result<void> read_logs();
  Recovered& state() { return state_; }

 private:
  Result<void> check_head(const FileHead& head, uint64_t generation, const std::filesystem::path& path);
  Result<void> read_log(uint64_t generation, bool last);
  Result<void> go_on_before(const Error& damage, const RecordReader& reader, uint64_t generation);
  Result<uint64_t> bytes_after(uint64_t generation) const;

  Folder& folder_;
  const RecoveryOptions& options_;
  std::vector<uint64_t> logs_;
  Recovered state_;
  bool over_ = false;  // a damaged log was cut: those after it are put aside
};

Result<void> Attempt::check_head(const FileHead& head, uint64_t generation, const std::filesystem::path& path) {
  if (head.index != options_.index || head.count != options_.count) {
    return invalid(path.string() + " is of server " + std::to_string(head.index) + " of " + std::to_string(head.count) +
                   ", and this is server " + std::to_string(options_.index) + " of " + std::to_string(options_.count) +
                   "; to begin anew, name another folder");
  }
  if (state_.folder == 0) state_.folder = head.folder;
  if (head.folder != state_.folder || head.generation != generation) {
    return Error{ErrorCode::kMalformed, path.string() + " is another folder's or another generation's file"};
  }
  return {};
}

Result<void> Attempt::read_snapshot(uint64_t generation) {
  state_.service = options_.service();
  if (generation == 0) return {};
  const auto path = folder_.snapshot(generation);
  FLOTA_ASSIGN(auto reader, read_records(path));
  FLOTA_ASSIGN(const auto head, reader.head(FileKind::kSnapshot));
  FLOTA_TRY(check_head(head, generation, path));
  bool ended = false;
  FLOTA_TRY(replay_records(reader, *state_.service, &ended));
  if (!ended)
    return Error{ErrorCode::kMalformed, path.string() + " is cut off at byte " + std::to_string(reader.end())};
  state_.snapshot = generation;
  state_.bytes += reader.size();
  state_.records += reader.records();
  return {};
}

Result<void> Attempt::read_logs() {
  uint64_t next = std::max<uint64_t>(state_.snapshot, 1);
  std::erase_if(logs_, [&](uint64_t generation) { return generation < next; });
  for (const uint64_t generation : logs_) {
    if (generation != next && !over_) {
      return invalid(folder_.log(next).string() + " is missing: what it held is lost, and " +
                     folder_.log(generation).string() + " cannot go on without it");
    }
    FLOTA_TRY(read_log(generation, generation == logs_.back()));
    ++next;
  }
  if (logs_.empty() && state_.snapshot != 0) {
    return invalid(folder_.log(next).string() + " is missing: what it held since the snapshot is lost");
  }
  return {};
}

Result<void> Attempt::read_log(uint64_t generation, bool last) {
  const auto path = folder_.log(generation);
  if (over_) {
    FLOTA_ASSIGN(const std::string aside, folder_.put_aside(path));
    options_.say(LogLevel::kWarning, "put aside as " + aside + ": what it holds came after the damage");
    return {};
  }
  FLOTA_ASSIGN(auto reader, read_records(path));
  if (state_.generation != 0 && !state_.ended) {
    // Made, and not begun when the server died: the log before it goes on.
    if (reader.size() <= FileHead::kBytes) return {};
    if (options_.before_damage) {
      over_ = true;
      return read_log(generation, last);
    }
    return Error{ErrorCode::kMalformed, folder_.log(generation - 1).string() + " is cut off at byte " +
                                            std::to_string(state_.end) + ", and " + path.string() +
                                            " goes on after it; --recover_before_damage "
                                            "(FLOTA_RECOVER_BEFORE_DAMAGE=1) goes on from there without it"};
  }
  // A log that was being made: no record of it was ever answered for.
  FLOTA_ASSIGN(const bool blank, reader.only_zeros_left());
  if (last && (blank || reader.size() < FileHead::kBytes)) {
    state_.generation = generation;
    state_.ended = false;
    state_.end = 0;
    state_.log_records = 0;
    return {};
  }
  bool ended = false;
  const auto status = [&]() -> Result<void> {
    FLOTA_ASSIGN(const auto head, reader.head(FileKind::kLog));
    FLOTA_TRY(check_head(head, generation, path));
    return replay_records(reader, *state_.service, &ended);
  }();
  if (!status) {
    if (!is_damage(status.error())) return status;
    FLOTA_TRY(go_on_before(status.error(), reader, generation));
  }
  state_.generation = generation;
  state_.ended = ended;
  state_.end = reader.end();
  state_.log_records = reader.records();
  state_.bytes += reader.end();
  state_.log_bytes += reader.end() - std::min<uint64_t>(reader.end(), FileHead::kBytes);
  // A log that has its end only is one in which nothing was ever written down.
  state_.records += reader.records() - (ended ? 1 : 0);
  if (reader.torn()) {
    options_.say(LogLevel::kWarning,
                 path.string() + " ends in the middle of record " + std::to_string(reader.records()) +
                     ", which nobody was answered for; it is cut at byte " + std::to_string(reader.end()));
  }
  return {};
}

Result<uint64_t> Attempt::bytes_after(uint64_t generation) const {
  uint64_t bytes = 0;
  for (const uint64_t later : logs_) {
    if (later <= generation) continue;
    FLOTA_ASSIGN(const File file, File::open(folder_.log(later), O_RDONLY));
    FLOTA_ASSIGN(const uint64_t size, file.size());
    bytes += size;
  }
  return bytes;
}

// Refuses, or cuts the log where it is damaged, if that is what was asked for.
Result<void> Attempt::go_on_before(const Error& damage, const RecordReader& reader, uint64_t generation) {
  FLOTA_ASSIGN(const uint64_t after, bytes_after(generation));
  const std::string lost = std::to_string(reader.size() - reader.end() + after) + " bytes";
  if (!options_.before_damage) {
    return Error{ErrorCode::kMalformed,
                 damage.message + "; all before it is whole. Restore the file, or start the server with " +
                     "--recover_before_damage (FLOTA_RECOVER_BEFORE_DAMAGE=1) to go on from there without the last " +
                     lost + " of changes"};
  }
  const auto path = folder_.log(generation);
  FLOTA_ASSIGN(const std::string aside, folder_.keep_aside(path));
  FLOTA_TRY(folder_.cut(path, reader.end()));
  options_.say(LogLevel::kError, damage.message + "; going on from before it without the last " + lost +
                                     " of changes, as was asked for; " + "the damaged file is kept as " + aside);
  over_ = true;
  return {};
}

Result<void> replay_record(const Record& record, Service& service, RowLoaders& loaders, const RecordReader& reader) {
  const auto kind = static_cast<RecordKind>(record.kind);
  if (kind == RecordKind::kRows) return loaders.load(record.payload);
  try {
    return service.replay(kind, record.payload, reader.size());
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::kSystem, "there is not enough memory for what it holds"};
  } catch (const std::length_error& error) {
    return Error{ErrorCode::kTooLarge, error.what()};
  }
}

}  // namespace

Result<void> replay_records(RecordReader& reader, Service& service, bool* ended) {
  RowLoaders loaders(service, reader.size());
  *ended = false;
  for (;;) {
    FLOTA_ASSIGN(const auto record, reader.next());
    if (!record) break;
    if (!*ended && record->kind == kEndRecord) {
      *ended = true;
      continue;
    }
    const Result<void> status =
        *ended ? Result<void>(malformed("it comes after the end")) : replay_record(*record, service, loaders, reader);
    if (status) continue;
    reader.put_back(*record);
    const auto& error = status.error();
    // Whatever a record is refused for, it is the file that is wrong; but for want of memory.
    return Error{error.code == ErrorCode::kSystem ? error.code : ErrorCode::kMalformed,
                 reader.name() + " cannot be used from byte " + std::to_string(record->offset) + " on, record " +
                     std::to_string(record->number) + ": " + error.message};
  }
  return loaders.finish();
}

Result<Recovered> recover(Folder& folder, const RecoveryOptions& options) {
  FLOTA_ASSIGN(auto candidates, folder.snapshots());
  FLOTA_ASSIGN(const auto logs, folder.logs());
  // Generation 1 begins with nothing, as long as its log is there.
  if (candidates.empty() || (!logs.empty() && logs.front() == 1)) candidates.insert(candidates.begin(), 0);
  std::vector<std::filesystem::path> damaged;
  std::string why;
  for (; !candidates.empty(); candidates.pop_back()) {
    Attempt attempt(folder, options, logs);
    const auto status = attempt.read_snapshot(candidates.back());
    if (!status && !is_damage(status.error())) return status.error();
    if (!status) {
      options.say(LogLevel::kError,
                  "DAMAGED: " + status.error().message + "; the snapshot before it and the logs since give the same");
      why += status.error().message + "; ";
      damaged.push_back(folder.snapshot(candidates.back()));
      continue;
    }
    FLOTA_TRY(attempt.read_logs());
    for (const auto& path : damaged) {
      FLOTA_ASSIGN(const std::string aside, folder.put_aside(path));
      options.say(LogLevel::kWarning, "the damaged snapshot is kept as " + aside);
    }
    return std::move(attempt.state());
  }
  return Error{ErrorCode::kMalformed, "no snapshot in " + folder.path().string() + " is whole: " + why +
                                          "restore one of them, or name another folder to begin anew"};
}

}  // namespace flota
