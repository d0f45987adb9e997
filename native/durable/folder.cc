#include "durable/folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <system_error>
#include <thread>

#include "common/deadline.h"

namespace flota {
namespace {

constexpr size_t kKeptSnapshots = 2;

// A process that was killed a moment ago may still be on its way out.
constexpr std::chrono::milliseconds kLockTime{500};

// Its text names who has it.
Result<File> take_lock(const std::filesystem::path& folder) {
  FLOTA_ASSIGN(File lock, File::open(folder / "lock", O_RDWR | O_CREAT));
  const Deadline deadline = Deadline::after(kLockTime);
  while (flock(lock.fd(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return file_error("lock", lock.path());
    if (!deadline.passed()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      continue;
    }
    std::array<std::byte, 32> text{};
    FLOTA_ASSIGN(const size_t bytes, lock.read_at(0, text));
    return Error{ErrorCode::kBusy, "the server process " +
                                       std::string(reinterpret_cast<const char*>(text.data()), bytes) + " uses " +
                                       folder.string() + "; give each server a folder of its own"};
  }
  std::string pid = std::to_string(getpid());
  iovec part{pid.data(), pid.size()};
  FLOTA_TRY(lock.truncate(0));
  FLOTA_TRY(lock.write_at(0, {&part, 1}));
  return lock;
}

Error folder_error(const std::string& what, const std::filesystem::path& path, const std::error_code& error) {
  errno = error.value();
  return file_error(what, path);
}

}  // namespace

Result<Folder> Folder::open(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return folder_error("make the folder", path, error);
  FLOTA_ASSIGN(File lock, take_lock(path));
  Folder folder(path, std::move(lock));
  for (auto entry = std::filesystem::directory_iterator(path, error); !error && entry != end(entry);
       entry.increment(error)) {
    if (entry->path().extension() == ".tmp") FLOTA_TRY(folder.remove(entry->path()));
  }
  if (error) return folder_error("read", path, error);
  return folder;
}

Result<std::vector<uint64_t>> Folder::list(const std::string& prefix) const {
  std::vector<uint64_t> found;
  std::error_code error;
  for (auto entry = std::filesystem::directory_iterator(path_, error); !error && entry != end(entry);
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(prefix)) continue;
    uint64_t generation = 0;
    const char* last = name.data() + name.size();
    const auto [end, problem] = std::from_chars(name.data() + prefix.size(), last, generation);
    if (problem == std::errc() && end == last && generation > 0) found.push_back(generation);
  }
  if (error) return folder_error("read", path_, error);
  std::sort(found.begin(), found.end());
  return found;
}

Result<void> Folder::remove(const std::filesystem::path& file) {
  if (::unlink(file.c_str()) != 0 && errno != ENOENT) return file_error("remove", file);
  return {};
}

Result<void> Folder::publish(uint64_t generation) {
  if (::rename(unfinished(generation).c_str(), snapshot(generation).c_str()) != 0) {
    return file_error("rename", unfinished(generation));
  }
  return sync_folder(path_);
}

Result<void> Folder::prune() {
  FLOTA_ASSIGN(const auto snapshots, this->snapshots());
  if (snapshots.size() < kKeptSnapshots) return {};
  const uint64_t oldest = snapshots[snapshots.size() - kKeptSnapshots];
  FLOTA_ASSIGN(const auto logs, this->logs());
  for (const uint64_t generation : snapshots) {
    if (generation < oldest) FLOTA_TRY(remove(snapshot(generation)));
  }
  for (const uint64_t generation : logs) {
    if (generation < oldest) FLOTA_TRY(remove(log(generation)));
  }
  return sync_folder(path_);
}

Result<std::string> Folder::put_aside(const std::filesystem::path& file) {
  FLOTA_ASSIGN(std::string aside, keep_aside(file));
  FLOTA_TRY(remove(file));
  return aside;
}

Result<void> Folder::cut(const std::filesystem::path& file, uint64_t size) {
  std::filesystem::path whole = file;
  whole += ".tmp";
  std::error_code problem;
  std::filesystem::copy_file(file, whole, problem);
  if (problem) return folder_error("copy", file, problem);
  FLOTA_ASSIGN(const File copy, File::open(whole, O_RDWR));
  FLOTA_TRY(copy.truncate(size));
  FLOTA_TRY(copy.sync());
  if (::rename(whole.c_str(), file.c_str()) != 0) return file_error("replace", file);
  return sync_folder(path_);
}

Result<std::string> Folder::keep_aside(const std::filesystem::path& file) {
  for (int number = 1;; ++number) {
    std::filesystem::path aside = file;
    aside += ".damaged-" + std::to_string(number);
    // Unlike rename(), link() replaces nothing.
    if (::link(file.c_str(), aside.c_str()) != 0) {
      if (errno == EEXIST) continue;
      return file_error("put aside", file);
    }
    return aside.string();
  }
}

}  // namespace flota
