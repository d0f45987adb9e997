#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>

#include "common/result.h"

namespace flota {

// "cannot WHAT PATH: No such file or directory", with errno's text. A disk that is full, a quota or a limit that is
// reached give kNoSpace: that may pass.
Error file_error(const std::string& what, const std::filesystem::path& path);

// An open file that closes itself; its errors name it.
class File {
 public:
  File() = default;
  // `flags` as in open(2); what it makes is for its owner alone.
  static Result<File> open(std::filesystem::path path, int flags);
  // Takes over a descriptor; `path` is what its errors call it.
  static File adopt(int fd, std::filesystem::path path) { return File(std::move(path), fd); }
  ~File();
  File(File&& other) noexcept : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}
  File& operator=(File&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(fd_, other.fd_);
    return *this;
  }

  explicit operator bool() const { return fd_ >= 0; }
  int fd() const { return fd_; }
  const std::filesystem::path& path() const { return path_; }

  Result<uint64_t> size() const;
  // As many bytes as there are, up to `into`'s size.
  Result<size_t> read_at(uint64_t offset, std::span<std::byte> into) const;
  // All of the parts, or an error: then any number of bytes was written. Changes `parts`.
  Result<void> write_at(uint64_t offset, std::span<iovec> parts) const;
  Result<void> truncate(uint64_t size) const;
  // What was written outlives the machine.
  Result<void> sync() const;

 private:
  File(std::filesystem::path path, int fd) : path_(std::move(path)), fd_(fd) {}

  std::filesystem::path path_;
  int fd_ = -1;
};

// The names in a folder outlive the machine.
Result<void> sync_folder(const std::filesystem::path& folder);

}  // namespace flota
