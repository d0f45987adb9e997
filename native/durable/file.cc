#include "durable/file.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace flota {

Error file_error(const std::string& what, const std::filesystem::path& path) {
  const int number = errno;
  const bool full = number == ENOSPC || number == EDQUOT || number == EFBIG;
  return {full ? ErrorCode::kNoSpace : ErrorCode::kSystem,
          "cannot " + what + " " + path.string() + ": " + std::strerror(number)};
}

Result<File> File::open(std::filesystem::path path, int flags) {
  const int fd = ::open(path.c_str(), flags | O_CLOEXEC, 0600);
  if (fd < 0) return file_error("open", path);
  return File(std::move(path), fd);
}

File::~File() {
  if (fd_ >= 0) ::close(fd_);
}

Result<uint64_t> File::size() const {
  struct stat known{};
  if (fstat(fd_, &known) != 0) return file_error("look at", path_);
  return static_cast<uint64_t>(known.st_size);
}

Result<size_t> File::read_at(uint64_t offset, std::span<std::byte> into) const {
  size_t done = 0;
  while (done < into.size()) {
    const ssize_t got = pread(fd_, into.data() + done, into.size() - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return file_error("read", path_);
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  return done;
}

Result<void> File::write_at(uint64_t offset, std::span<iovec> parts) const {
  while (!parts.empty()) {
    const auto count = static_cast<int>(std::min<size_t>(parts.size(), IOV_MAX));
    const ssize_t wrote = pwritev(fd_, parts.data(), count, static_cast<off_t>(offset));
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return file_error("write", path_);
    offset += static_cast<uint64_t>(wrote);
    auto left = static_cast<size_t>(wrote);
    while (!parts.empty() && left >= parts.front().iov_len) {
      left -= parts.front().iov_len;
      parts = parts.subspan(1);
    }
    if (left == 0) continue;
    parts.front().iov_base = static_cast<std::byte*>(parts.front().iov_base) + left;
    parts.front().iov_len -= left;
  }
  return {};
}

Result<void> File::truncate(uint64_t size) const {
  if (ftruncate(fd_, static_cast<off_t>(size)) != 0) return file_error("cut", path_);
  return {};
}

Result<void> File::sync() const {
  if (fdatasync(fd_) != 0) return file_error("bring to the disk", path_);
  return {};
}

Result<void> sync_folder(const std::filesystem::path& folder) {
  FLOTA_ASSIGN(File opened, File::open(folder, O_RDONLY | O_DIRECTORY));
  if (fsync(opened.fd()) != 0) return file_error("bring to the disk", folder);
  return {};
}

}  // namespace flota
