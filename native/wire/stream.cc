#include "wire/stream.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/check.h"

namespace flota {

Result<std::span<const std::byte>> BufferedStream::peek(size_t bytes, Deadline deadline) {
  FLOTA_CHECK(bytes <= kBuffer, "peek beyond the buffer");
  const size_t start = taken_ % kAlign;
  if (in_begin_ == in_end_) in_begin_ = in_end_ = start;
  if (in_begin_ + bytes > kBuffer + start) {
    std::memmove(in_.get() + start, in_.get() + in_begin_, in_end_ - in_begin_);
    in_end_ -= in_begin_ - start;
    in_begin_ = start;
  }
  while (in_end_ - in_begin_ < bytes) {
    FLOTA_ASSIGN(size_t count, read_some({in_.get() + in_end_, kBuffer + start - in_end_}, deadline));
    in_end_ += count;
  }
  return std::span<const std::byte>(in_.get() + in_begin_, bytes);
}

Result<void> BufferedStream::read(std::span<std::byte> out, Deadline deadline) {
  if (out.empty()) return {};
  size_t buffered = std::min(out.size(), in_end_ - in_begin_);
  std::memcpy(out.data(), in_.get() + in_begin_, buffered);
  consume(buffered);
  out = out.subspan(buffered);
  // The rest goes straight to its place, except a small one, which may well bring the next message with it.
  while (out.size() >= kChunk) {
    FLOTA_ASSIGN(size_t count, read_some(out, deadline));
    taken_ += count;
    out = out.subspan(count);
  }
  if (out.empty()) return {};
  FLOTA_ASSIGN(std::span<const std::byte> rest, peek(out.size(), deadline));
  std::memcpy(out.data(), rest.data(), rest.size());
  consume(rest.size());
  return {};
}

Result<std::span<std::byte>> BufferedStream::reserve(size_t bytes, Deadline deadline) {
  FLOTA_CHECK(bytes <= kChunk, "reserve beyond the chunk");
  if (out_end_ + bytes > kBuffer) FLOTA_TRY(flush(deadline));
  return std::span<std::byte>(out_.get() + out_end_, bytes);
}

Result<void> BufferedStream::write(std::span<const std::byte> bytes, Deadline deadline) {
  if (bytes.size() <= kBuffer - out_end_) {
    if (!bytes.empty()) std::memcpy(out_.get() + out_end_, bytes.data(), bytes.size());
    out_end_ += bytes.size();
    return {};
  }
  FLOTA_TRY(flush(deadline));
  return write_all(bytes, deadline);
}

Result<void> BufferedStream::flush(Deadline deadline) {
  if (out_end_ == 0) return {};
  size_t count = std::exchange(out_end_, 0);
  return write_all({out_.get(), count}, deadline);
}

}  // namespace flota
