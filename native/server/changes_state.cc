// What a snapshot keeps of changes: who changed each key last, and when, in the order of versions.
#include "server/changes.h"

namespace flota {
namespace {

// A megabyte of keys a record, or so.
constexpr size_t kMostKeys = size_t{1} << 16;

}  // namespace

Freeze Changes::freeze() {
  Freeze frozen;
  frozen.locks.emplace_back(mutex_);
  return frozen;
}

Result<void> Changes::save(Journal& out, uint64_t table) const {
  Writer chunks;
  uint64_t count = 0;  // of these
  size_t recorded = 0;
  const auto write = [&]() -> Result<void> {
    if (count == 0) return {};
    Writer head;
    head.put(table);
    head.put(version_);
    head.put(count);
    FLOTA_TRY(out.write(RecordKind::kChanges, {head.bytes(), chunks.bytes()}));
    chunks = Writer();
    count = recorded = 0;
    return {};
  };
  std::vector<Key> keys;
  std::vector<uint64_t> others;
  const auto put = [&](uint64_t version) -> Result<void> {
    if (keys.empty()) return {};
    chunks.put(version);
    chunks.put(last_.at(keys.front()).rank);
    chunks.put(static_cast<uint32_t>(keys.size()));
    chunks.put_array(std::span<const Key>(keys));
    chunks.put_array(std::span<const uint64_t>(others));
    ++count;
    recorded += keys.size();
    keys.clear();
    others.clear();
    return recorded < kMostKeys ? Result<void>() : write();
  };
  for (const Chunk& chunk : log_) {
    for (Key key : chunk.keys) {
      const Last& last = last_.at(key);
      if (last.version != chunk.version) continue;
      keys.push_back(key);
      others.push_back(last.other);
      if (keys.size() == kMostKeys) FLOTA_TRY(put(chunk.version));
    }
    FLOTA_TRY(put(chunk.version));
  }
  return write();
}

Result<uint64_t> Changes::table_of(std::span<const std::byte> payload) {
  Reader in(payload);
  const auto table = in.get<uint64_t>();
  if (!in.ok()) return malformed("a record of changes names no table");
  return table;
}

Result<void> Changes::replay(RecordKind kind, std::span<const std::byte> payload) {
  std::lock_guard lock(mutex_);
  if (kind != RecordKind::kChanges) return replayed(unknown_record(kind), "changes");
  return replayed(replay_keys(payload), "changes");
}

Result<void> Changes::replay_keys(std::span<const std::byte> payload) {
  Reader in(payload);
  in.get<uint64_t>();
  const auto newest = in.get<uint64_t>();
  const auto chunks = in.get<uint64_t>();
  if (!in.ok() || chunks == 0) return malformed("there is nothing in it");
  if (version_ != 0 && version_ != newest) return malformed("it is of another version than those before it");
  version_ = newest;
  for (uint64_t chunk = 0; chunk < chunks; ++chunk) {
    const auto version = in.get<uint64_t>();
    const auto rank = in.get<uint32_t>();
    const auto count = in.get<uint32_t>();
    const auto keys = in.get_array<Key>(count);
    const auto others = in.get_array<uint64_t>(count);
    if (!in.ok()) break;
    const uint64_t before = log_.empty() ? 0 : log_.back().version;
    if (version == 0 || version < before || version > newest) return malformed("its versions do not ascend");
    if (version > before) log_.push_back({version, {}});
    for (size_t i = 0; i < count; ++i) {
      if (others[i] >= version) return malformed("a key was changed before it was changed");
      if (!last_.try_emplace(keys[i], Last{version, others[i], rank}).second) return malformed("a key stands twice");
    }
    log_.back().keys.insert(log_.back().keys.end(), keys.begin(), keys.end());
    logged_ += count;
  }
  return in.finish("the keys that were changed");
}

}  // namespace flota
