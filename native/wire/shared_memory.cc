#include "wire/shared_memory.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "common/check.h"
#include "common/interrupt.h"

namespace flota {
namespace {

// Two of these lie in a second-level cache beside a batch of rows; more memory would only mean more cache misses.
constexpr size_t kRingBytes = size_t{1} << 20;
constexpr size_t kControlBytes = 4096;
// The peer is told of written bytes in portions, so that it works on the first while the next is being written. Each
// costs a sleep and a waking where the peer is faster: with 128 KiB a server took a third more CPU time for dense
// parameters, with 512 KiB a single client's pulls were 7 % slower.
constexpr size_t kPortion = size_t{256} << 10;

constexpr size_t kPassedFds = 3;

Result<void> send_fds(int socket, const int (&fds)[kPassedFds]) {
  uint64_t size = kRingBytes;
  iovec data{&size, sizeof(size)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(fds))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(fds));
  std::memcpy(CMSG_DATA(header), fds, sizeof(fds));
  if (sendmsg(socket, &message, MSG_NOSIGNAL) != sizeof(size)) return system_error("pass shared memory");
  return {};
}

Result<void> receive_fds(int socket, Fd (&fds)[kPassedFds], Deadline deadline) {
  FLOTA_ASSIGN(bool ready, wait_readable(socket, deadline));
  if (!ready) return Error{ErrorCode::kDeadline, "the server offered no shared memory in time"};
  uint64_t size = 0;
  iovec data{&size, sizeof(size)};
  int received[kPassedFds];
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(received))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  ssize_t count = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  if (count == 0) return Error{ErrorCode::kUnavailable, "the connection was closed"};
  if (count < 0) return system_error("receive shared memory");
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS || header->cmsg_len != CMSG_LEN(sizeof(received))) {
    return Error{ErrorCode::kMalformed, "the server's offer of shared memory carries no memory"};
  }
  std::memcpy(received, CMSG_DATA(header), sizeof(received));
  for (size_t i = 0; i < kPassedFds; ++i) fds[i] = Fd(received[i]);
  if (size != kRingBytes) return Error{ErrorCode::kMalformed, "the server's shared memory has another size"};
  return {};
}

}  // namespace

// Both counters only grow. What one side writes and the other polls has a cache line of its own.
struct SharedMemoryStream::Control {
  alignas(64) std::atomic<uint64_t> written{0};
  alignas(64) std::atomic<uint64_t> taken{0};
  alignas(64) std::atomic<uint32_t> reader_waits{0};
  alignas(64) std::atomic<uint32_t> writer_waits{0};
};

struct SharedMemoryStream::Mapping {
  std::byte* control = nullptr;
  std::byte* rings[2] = {nullptr, nullptr};

  ~Mapping() {
    if (control != nullptr) munmap(control, kControlBytes);
    for (std::byte* ring : rings) {
      if (ring != nullptr) munmap(ring, 2 * kRingBytes);
    }
  }

  bool open(int memory) {
    auto map_at = [&](void* at, size_t bytes, size_t offset) {
      return mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | (at != nullptr ? MAP_FIXED : 0), memory,
                  static_cast<off_t>(offset));
    };
    void* page = map_at(nullptr, kControlBytes, 0);
    if (page == MAP_FAILED) return false;
    control = static_cast<std::byte*>(page);
    for (size_t i = 0; i < 2; ++i) {
      void* room = mmap(nullptr, 2 * kRingBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (room == MAP_FAILED) return false;
      rings[i] = static_cast<std::byte*>(room);
      size_t offset = kControlBytes + i * kRingBytes;
      if (map_at(rings[i], kRingBytes, offset) == MAP_FAILED) return false;
      if (map_at(rings[i] + kRingBytes, kRingBytes, offset) == MAP_FAILED) return false;
    }
    return true;
  }
};

SharedMemoryStream::SharedMemoryStream(std::unique_ptr<SocketStream> socket, Fd memory, Fd own_event, Fd peer_event)
    : socket_(std::move(socket)),
      memory_(std::move(memory)),
      own_event_(std::move(own_event)),
      peer_event_(std::move(peer_event)),
      mapping_(std::make_unique<Mapping>()) {}

SharedMemoryStream::~SharedMemoryStream() = default;

Result<std::unique_ptr<SharedMemoryStream>> SharedMemoryStream::map(std::unique_ptr<SocketStream> socket, Fd memory,
                                                                    Fd own_event, Fd peer_event, bool server) {
  std::unique_ptr<SharedMemoryStream> stream(
      new SharedMemoryStream(std::move(socket), std::move(memory), std::move(own_event), std::move(peer_event)));
  if (!stream->mapping_->open(stream->memory_.get())) return system_error("map shared memory");
  auto* controls = reinterpret_cast<Control*>(stream->mapping_->control);
  static_assert(2 * sizeof(Control) <= kControlBytes);
  // Ring 0 carries requests, ring 1 replies. Fresh memory is zero, which is what the counters begin with.
  size_t in = server ? 0 : 1;
  stream->in_ = {&controls[in], stream->mapping_->rings[in]};
  stream->out_ = {&controls[1 - in], stream->mapping_->rings[1 - in]};
  return stream;
}

Result<std::unique_ptr<Stream>> SharedMemoryStream::offer(std::unique_ptr<SocketStream> socket, Deadline deadline) {
  // Wait until the client has read the handshake's last bytes: file descriptors ride on a message of their own.
  uint64_t go = 0;
  FLOTA_TRY(socket->read(std::as_writable_bytes(std::span(&go, 1)), deadline));
  Fd memory(memfd_create("flota", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory) return system_error("make shared memory");
  if (ftruncate(memory.get(), static_cast<off_t>(kControlBytes + 2 * kRingBytes)) != 0 ||
      fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return system_error("size shared memory");
  }
  Fd own_event(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  Fd peer_event(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!own_event || !peer_event) return system_error("eventfd");
  int fds[kPassedFds] = {memory.get(), peer_event.get(), own_event.get()};
  FLOTA_TRY(send_fds(socket->fd().get(), fds));
  FLOTA_ASSIGN(auto stream,
               map(std::move(socket), std::move(memory), std::move(own_event), std::move(peer_event), true));
  return std::unique_ptr<Stream>(std::move(stream));
}

Result<std::unique_ptr<Stream>> SharedMemoryStream::accept(std::unique_ptr<SocketStream> socket, Deadline deadline) {
  uint64_t go = 1;
  FLOTA_TRY(socket->write(std::as_bytes(std::span(&go, 1)), deadline));
  FLOTA_TRY(socket->flush(deadline));
  Fd fds[kPassedFds];
  FLOTA_TRY(receive_fds(socket->fd().get(), fds, deadline));
  struct stat status{};
  if (fstat(fds[0].get(), &status) != 0 || status.st_size < static_cast<off_t>(kControlBytes + 2 * kRingBytes)) {
    return Error{ErrorCode::kMalformed, "the server's shared memory is smaller than it says"};
  }
  FLOTA_ASSIGN(auto stream, map(std::move(socket), std::move(fds[0]), std::move(fds[1]), std::move(fds[2]), false));
  return std::unique_ptr<Stream>(std::move(stream));
}

size_t SharedMemoryStream::peek_limit() const { return kRingBytes; }

size_t SharedMemoryStream::reserve_limit() const { return kRingBytes; }

bool SharedMemoryStream::has_input() const { return in_.control->written.load(std::memory_order_acquire) != in_.own; }

template <class Ready>
Result<void> SharedMemoryStream::wait(std::atomic<uint32_t>& waiting, Ready ready, Deadline deadline) {
  if (spin_.until(ready)) return {};
  for (;;) {
    waiting.store(1, std::memory_order_relaxed);
    // Pairs with the fence in wake_peer(): either this side sees the bytes, or the peer sees the flag.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (ready()) break;
    auto status = block(deadline);
    if (!status) {
      waiting.store(0, std::memory_order_relaxed);
      // What the peer wrote before it left still counts.
      if (ready()) break;
      return status;
    }
  }
  waiting.store(0, std::memory_order_relaxed);
  return {};
}

Result<void> SharedMemoryStream::block(Deadline deadline) {
  if (closed_.load()) return Error{ErrorCode::kCancelled, "the connection was closed on this side"};
  pollfd fds[2] = {{own_event_.get(), POLLIN, 0}, {socket_->fd().get(), POLLIN, 0}};
  int status = poll(fds, 2, static_cast<int>(Interrupt::slice(deadline.left()).count()));
  if (status < 0 && errno != EINTR) return system_error("poll");
  if (fds[0].revents != 0) {
    uint64_t count = 0;
    [[maybe_unused]] ssize_t ignored = ::read(own_event_.get(), &count, sizeof(count));
    return {};
  }
  // Nothing is ever sent on the socket from here on: that it is readable means its end.
  if (fds[1].revents != 0) return Error{ErrorCode::kUnavailable, "the connection was closed"};
  if (deadline.passed()) return Error{ErrorCode::kDeadline, "no answer in time"};
  FLOTA_TRY(Interrupt::check());
  return {};
}

void SharedMemoryStream::wake_peer(std::atomic<uint32_t>& waiting) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (waiting.load(std::memory_order_relaxed) == 0) return;
  uint64_t one = 1;
  [[maybe_unused]] ssize_t ignored = ::write(peer_event_.get(), &one, sizeof(one));
}

Result<std::span<const std::byte>> SharedMemoryStream::peek(size_t bytes, Deadline deadline) {
  FLOTA_CHECK(bytes <= kRingBytes, "peek beyond the ring");
  uint64_t there = 0;
  FLOTA_TRY(wait(
      in_.control->reader_waits,
      [&] {
        there = in_.control->written.load(std::memory_order_acquire) - in_.own;
        return there >= bytes;
      },
      deadline));
  if (there > kRingBytes) return Error{ErrorCode::kMalformed, "the peer's ring counter is out of range"};
  return std::span<const std::byte>(in_.data + in_.own % kRingBytes, bytes);
}

void SharedMemoryStream::consume(size_t bytes) {
  in_.own += bytes;
  in_.control->taken.store(in_.own, std::memory_order_release);
  wake_peer(in_.control->writer_waits);
}

Result<void> SharedMemoryStream::read(std::span<std::byte> out, Deadline deadline) {
  while (!out.empty()) {
    FLOTA_ASSIGN(auto part, peek(std::min(out.size(), kChunk), deadline));
    std::memcpy(out.data(), part.data(), part.size());
    consume(part.size());
    out = out.subspan(part.size());
  }
  return {};
}

Result<std::span<std::byte>> SharedMemoryStream::reserve(size_t bytes, Deadline deadline) {
  FLOTA_CHECK(bytes <= kRingBytes, "reserve beyond the ring");
  uint64_t used = 0;
  auto has_room = [&] {
    used = out_.own - out_.control->taken.load(std::memory_order_acquire);
    // A counter from a peer gone mad must not look like room.
    return used > kRingBytes || used + bytes <= kRingBytes;
  };
  if (!has_room()) {
    publish();
    FLOTA_TRY(wait(out_.control->writer_waits, has_room, deadline));
  }
  if (used > kRingBytes) return Error{ErrorCode::kMalformed, "the peer's ring counter is out of range"};
  return std::span<std::byte>(out_.data + out_.own % kRingBytes, bytes);
}

void SharedMemoryStream::commit(size_t bytes) {
  out_.own += bytes;
  if (out_.own - out_.published >= kPortion) publish();
}

void SharedMemoryStream::publish() {
  if (out_.published == out_.own) return;
  out_.published = out_.own;
  out_.control->written.store(out_.own, std::memory_order_release);
  wake_peer(out_.control->reader_waits);
}

Result<void> SharedMemoryStream::write(std::span<const std::byte> bytes, Deadline deadline) {
  while (!bytes.empty()) {
    FLOTA_ASSIGN(auto room, reserve(std::min(bytes.size(), kChunk), deadline));
    std::memcpy(room.data(), bytes.data(), room.size());
    commit(room.size());
    bytes = bytes.subspan(room.size());
  }
  return {};
}

Result<void> SharedMemoryStream::flush(Deadline) {
  publish();
  return {};
}

void SharedMemoryStream::close() {
  closed_.store(true);
  socket_->close();
  // Our own thread may be asleep in block().
  uint64_t one = 1;
  [[maybe_unused]] ssize_t ignored = ::write(own_event_.get(), &one, sizeof(one));
}

}  // namespace flota
