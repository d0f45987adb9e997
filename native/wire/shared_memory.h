#pragma once

#include <atomic>
#include <memory>

#include "wire/socket.h"
#include "wire/spin.h"
#include "wire/stream.h"

namespace flota {

// A connection between two processes of one host through memory that both map: a ring of bytes each way. It begins as
// an authenticated Unix socket, which stays open to tell when the peer dies.
//
// Neither side trusts the other's counters: each keeps its own and checks the peer's against the ring's size. The
// memory is made, sized and sealed by the server, so a client cannot shrink it under the server's feet.
class SharedMemoryStream : public Stream {
 public:
  ~SharedMemoryStream() override;

  // The server's side: makes the memory and passes it through the socket.
  static Result<std::unique_ptr<Stream>> offer(std::unique_ptr<SocketStream> socket, Deadline deadline);
  // The client's side of the same.
  static Result<std::unique_ptr<Stream>> accept(std::unique_ptr<SocketStream> socket, Deadline deadline);

  Result<std::span<const std::byte>> peek(size_t bytes, Deadline deadline) override;
  size_t peek_limit() const override;
  bool has_input() const override;
  size_t reserve_limit() const override;
  void consume(size_t bytes) override;
  Result<void> read(std::span<std::byte> out, Deadline deadline) override;
  Result<std::span<std::byte>> reserve(size_t bytes, Deadline deadline) override;
  void commit(size_t bytes) override;
  Result<void> write(std::span<const std::byte> bytes, Deadline deadline) override;
  Result<void> flush(Deadline deadline) override;
  void close() override;
  bool in_memory() const override { return true; }

 private:
  struct Control;
  struct Mapping;

  // One direction as one side sees it.
  struct Ring {
    Control* control = nullptr;
    std::byte* data = nullptr;  // mapped twice in a row, so that any stretch up to the ring's size is contiguous
    uint64_t own = 0;           // this side's counter: bytes written, or bytes taken
    uint64_t published = 0;     // up to where the peer was told
  };

  SharedMemoryStream(std::unique_ptr<SocketStream> socket, Fd memory, Fd own_event, Fd peer_event);
  static Result<std::unique_ptr<SharedMemoryStream>> map(std::unique_ptr<SocketStream> socket, Fd memory, Fd own_event,
                                                         Fd peer_event, bool server);
  template <class Ready>
  Result<void> wait(std::atomic<uint32_t>& waiting, Ready ready, Deadline deadline);
  Result<void> block(Deadline deadline);
  void wake_peer(std::atomic<uint32_t>& waiting);
  void publish();

  std::unique_ptr<SocketStream> socket_;
  Fd memory_;
  Fd own_event_;
  Fd peer_event_;
  std::unique_ptr<Mapping> mapping_;
  Ring in_;
  Ring out_;
  Spin spin_;
  std::atomic<bool> closed_{false};
};

}  // namespace flota
