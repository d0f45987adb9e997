#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "common/result.h"
#include "durable/file.h"
#include "durable/record_file.h"

namespace flota {

// Where a server's redo logs and snapshots lie: `log-G` has what changed after `snapshot-G`; generation 1 begins with
// nothing. One process at a time has it. Thread safety: the caller's.
class Folder {
 public:
  // Makes it, or takes it over from a process that has died; what that had not finished is removed.
  static Result<Folder> open(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path log(uint64_t generation) const { return path_ / ("log-" + std::to_string(generation)); }
  std::filesystem::path snapshot(uint64_t generation) const {
    return path_ / ("snapshot-" + std::to_string(generation));
  }
  std::filesystem::path unfinished(uint64_t generation) const {
    return path_ / ("snapshot-" + std::to_string(generation) + ".tmp");
  }

  // Generations of the logs and snapshots that are there, ascending.
  Result<std::vector<uint64_t>> logs() const { return list("log-"); }
  Result<std::vector<uint64_t>> snapshots() const { return list("snapshot-"); }

  // The unfinished snapshot becomes one. Requires: its bytes are on the disk.
  Result<void> publish(uint64_t generation);
  // Removes what is older than the newest two snapshots and the logs that the older of them needs.
  Result<void> prune();
  // Puts a file away under a name that nothing reads; returns that name.
  Result<std::string> put_aside(const std::filesystem::path& file);
  // The same, and it stays under its own name too.
  Result<std::string> keep_aside(const std::filesystem::path& file);
  // Replaces a file by its first bytes, at once; under other names it stays as it is.
  Result<void> cut(const std::filesystem::path& file, uint64_t size);

 private:
  Folder(std::filesystem::path path, File lock) : path_(std::move(path)), lock_(std::move(lock)) {}
  Result<std::vector<uint64_t>> list(const std::string& prefix) const;
  Result<void> remove(const std::filesystem::path& file);

  std::filesystem::path path_;
  File lock_;
};

}  // namespace flota
