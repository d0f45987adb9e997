#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "common/deadline.h"
#include "common/result.h"

namespace flota {

// A connection as two queues of bytes that are filled and emptied in place: what is to be sent is written straight
// into reserve()'s memory and what arrived is used where peek() shows it, so that shared memory costs no copy at all
// and a socket only the kernel's.
//
// Thread safety: one thread at a time, but close() may come from any. After a failure only close() and destruction.
class Stream {
 public:
  // What reserve() and peek() of any stream can give.
  static constexpr size_t kChunk = size_t{64} << 10;

  virtual ~Stream() = default;

  // Waits for `bytes` bytes and shows them, unconsumed. Requires: bytes <= peek_limit().
  virtual Result<std::span<const std::byte>> peek(size_t bytes, Deadline deadline) = 0;
  virtual size_t peek_limit() const = 0;
  // Whether bytes have arrived that were not consumed yet.
  virtual bool has_input() const = 0;
  // Requires: a peek() showed that many.
  virtual void consume(size_t bytes) = 0;
  // Waits for out.size() bytes and takes them.
  virtual Result<void> read(std::span<std::byte> out, Deadline deadline) = 0;

  // Waits for room and gives it. Requires: bytes <= reserve_limit(). What is written there counts from commit() on.
  virtual Result<std::span<std::byte>> reserve(size_t bytes, Deadline deadline) = 0;
  virtual size_t reserve_limit() const { return kChunk; }
  virtual void commit(size_t bytes) = 0;
  virtual Result<void> write(std::span<const std::byte> bytes, Deadline deadline) = 0;
  // Lets the peer see all that was committed.
  virtual Result<void> flush(Deadline deadline) = 0;

  // Ends the connection; a call that waits in another thread returns kCancelled or kUnavailable.
  virtual void close() = 0;

  // Bytes of the frames that were begun, as far as whoever makes frames says.
  uint64_t framed() const { return framed_; }
  void count_framed(uint64_t bytes) { framed_ += bytes; }

  // Whether bytes can only change on the way if memory itself does: then frames carry no payload checksum.
  virtual bool in_memory() const { return false; }

 private:
  uint64_t framed_ = 0;
};

// Buffers for streams whose transport moves bytes by calls.
class BufferedStream : public Stream {
 public:
  Result<std::span<const std::byte>> peek(size_t bytes, Deadline deadline) override;
  size_t peek_limit() const override { return kBuffer; }
  bool has_input() const override { return in_end_ > in_begin_; }
  void consume(size_t bytes) override {
    in_begin_ += bytes;
    taken_ += bytes;
  }
  Result<void> read(std::span<std::byte> out, Deadline deadline) override;
  Result<std::span<std::byte>> reserve(size_t bytes, Deadline deadline) override;
  void commit(size_t bytes) override { out_end_ += bytes; }
  Result<void> write(std::span<const std::byte> bytes, Deadline deadline) override;
  Result<void> flush(Deadline deadline) override;

 protected:
  // Asio's default of 64 KB a call costs a third of the throughput of large replies.
  static constexpr size_t kBuffer = size_t{256} << 10;

  // Not zeroed: a connection that carries small messages touches a page or two of its buffers.
  BufferedStream()
      : in_(std::make_unique_for_overwrite<std::byte[]>(kBuffer + kAlign)),
        out_(std::make_unique_for_overwrite<std::byte[]>(kBuffer)) {}

  // Waits until some bytes arrived and takes them, at least one.
  virtual Result<size_t> read_some(std::span<std::byte> out, Deadline deadline) = 0;
  virtual Result<void> write_all(std::span<const std::byte> bytes, Deadline deadline) = 0;

 private:
  static constexpr size_t kAlign = 8;

  // Byte n of the stream lies at n modulo 8 in the buffer, so that what is a multiple of eight bytes from the
  // connection's beginning can be used as numbers where it lies.
  std::unique_ptr<std::byte[]> in_;
  uint64_t taken_ = 0;
  size_t in_begin_ = 0;
  size_t in_end_ = 0;
  std::unique_ptr<std::byte[]> out_;
  size_t out_end_ = 0;
};

}  // namespace flota
