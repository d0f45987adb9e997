#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "common/deadline.h"
#include "common/result.h"
#include "wire/spin.h"
#include "wire/stream.h"

namespace flota {

// A file descriptor that closes itself.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() { reset(); }
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  void reset();

 private:
  int fd_ = -1;
};

// Where a server listens: "127.0.0.1:7164", "node3:7164", "[::1]:7164".
struct Endpoint {
  std::string host;
  uint16_t port = 0;

  static Result<Endpoint> parse(const std::string& text);
  std::string to_string() const;
};

// "what: No such file or directory", with errno's text.
Error system_error(const std::string& what);

// How far a socket without TLS may reach.
enum class Reach { kLoopback, kAnywhere };

// Refuses an endpoint to listen on that is beyond `reach`: what listen_tcp() would do, early.
Result<void> check_reach(const Endpoint& endpoint, Reach reach);

// Listens on a TCP port; port 0 takes a free one. The second value is the port.
Result<std::pair<Fd, uint16_t>> listen_tcp(const Endpoint& endpoint, Reach reach = Reach::kAnywhere);
// Decided by the very address that is connected to, so that a name which changes its meaning opens no gap.
Result<Fd> connect_tcp(const Endpoint& endpoint, Deadline deadline, Reach reach = Reach::kAnywhere);

// Peers on one host meet at a name in the kernel's abstract socket namespace, which network namespaces have each for
// themselves, so that containers and test hosts do not mistake each other for neighbours. Nothing is left behind.
Result<Fd> listen_unix(const std::string& host, uint16_t port);
Result<Fd> connect_unix(const std::string& host, uint16_t port);

// Waits for a connection; kDeadline when none came.
Result<Fd> accept_from(const Fd& listener, Deadline deadline);

// Waits until `fd` has something to read, or the deadline passes (false).
Result<bool> wait_readable(int fd, Deadline deadline);

// A connected TCP or Unix socket.
class SocketStream : public BufferedStream {
 public:
  explicit SocketStream(Fd fd);
  void close() override;
  const Fd& fd() const { return fd_; }

  Result<size_t> read_some(std::span<std::byte> out, Deadline deadline) override;
  Result<void> write_all(std::span<const std::byte> bytes, Deadline deadline) override;

 private:
  Fd fd_;
  Spin spin_;
};

}  // namespace flota
