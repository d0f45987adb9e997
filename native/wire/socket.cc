#include "wire/socket.h"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

#include "common/interrupt.h"
#include "wire/address.h"
#include "wire/resolver.h"

namespace flota {
namespace {

using std::chrono::milliseconds;

// A blocking call returns this often to look at its deadline. Blocking and looking now and then costs one system call a
// message; asking poll() first costs two.
constexpr milliseconds kSlice(250);

// How long one attempt to connect may take. The kernel repeats its question after 1, 3, 7, … s: later than a new
// attempt.
constexpr milliseconds kAttempt(2000);

// How long a server looks for the address that it is to listen on.
constexpr milliseconds kOwnName(20000);

// The first address of what was found is the one that is listened on.
Result<AddressInfo> resolve_to_listen(const Endpoint& endpoint, Reach reach) {
  FLOTA_ASSIGN(AddressInfo found, resolve(endpoint.host, endpoint.port, true, Deadline::after(kOwnName)));
  if (reach == Reach::kLoopback && !is_loopback(*found->ai_addr)) {
    return invalid(
        "other hosts can reach " + endpoint.to_string() +
        ", and this server has no certificate: make some "
        "with `flota certs` and set FLOTA_CERTS to their folder, or allow traffic that anybody on the network "
        "can read and change, with --insecure or FLOTA_INSECURE=1");
  }
  return found;
}

Result<bool> wait_for(int fd, short events, Deadline deadline) {
  for (;;) {
    pollfd poll_fd{fd, events, 0};
    int status = poll(&poll_fd, 1, static_cast<int>(Interrupt::slice(deadline.left()).count()));
    if (status > 0) return true;
    if (status < 0 && errno != EINTR) return system_error("poll");
    if (deadline.passed()) return false;
    FLOTA_TRY(Interrupt::check());
  }
}

Result<Fd> connect_address(const addrinfo& address, Deadline deadline) {
  Fd fd(socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return system_error("socket");
  if (connect(fd.get(), address.ai_addr, address.ai_addrlen) != 0) {
    if (errno != EINPROGRESS) return system_error("connect");
    FLOTA_ASSIGN(bool connected, wait_for(fd.get(), POLLOUT, deadline.earlier(Deadline::after(kAttempt))));
    if (!connected) {
      return Error{deadline.passed() ? ErrorCode::kDeadline : ErrorCode::kUnavailable,
                   "no answer to the connection attempt"};
    }
    int status = 0;
    socklen_t size = sizeof(status);
    getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &status, &size);
    if (status != 0) {
      errno = status;
      return system_error("connect");
    }
  }
  return fd;
}

sockaddr_un unix_address(const std::string& host, uint16_t port, socklen_t* size) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::string name = "flota/" + host + ":" + std::to_string(port);
  name.resize(std::min(name.size(), sizeof(address.sun_path) - 1));
  std::memcpy(address.sun_path + 1, name.data(), name.size());  // a leading zero byte: the abstract namespace
  *size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

// A setting of a TCP socket; one that is refused (by a Unix socket, by an old kernel) is done without.
void set_tcp(int fd, int option, int value) { setsockopt(fd, IPPROTO_TCP, option, &value, sizeof(value)); }

// How long a silent peer is waited for: an idle connection asks after `idle` seconds, then every `interval`.
void tune_tcp(int fd, int idle, int interval, int probes) {
  int yes = 1;
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof(yes));
  set_tcp(fd, TCP_NODELAY, yes);  // answers at once instead of waiting to fill packets
  set_tcp(fd, TCP_KEEPIDLE, idle);
  set_tcp(fd, TCP_KEEPINTVL, interval);
  set_tcp(fd, TCP_KEEPCNT, probes);
}

// Servers notice within a minute that a peer's machine is gone, also when an answer is on its way to it. They are in no
// hurry: it costs a thread.
void tune_accepted(int fd) {
  constexpr int kGivenUpMs = 60000;
  tune_tcp(fd, 30, 10, 3);
  set_tcp(fd, TCP_USER_TIMEOUT, kGivenUpMs);
}

// Clients are: somebody waits. After a break, TCP asks again at twice the time that it waited before, so that a cable
// that was out for 10 s is noticed to be back up to 10 s later, and one of whose sides has nothing to send notices
// nothing at all. A connection that has been dead for five seconds is given up, and a new one is tried for every two.
void tune_connected(int fd) {
  constexpr int kGivenUpMs = 5000;
  tune_tcp(fd, 3, 1, 5);
  set_tcp(fd, TCP_USER_TIMEOUT, kGivenUpMs);
}

}  // namespace

void Fd::reset() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

Error system_error(const std::string& what) {
  int number = errno;
  bool peer = number == ECONNREFUSED || number == ECONNRESET || number == EPIPE || number == EHOSTUNREACH ||
              number == ENETUNREACH || number == ETIMEDOUT || number == ENOENT;
  char text[128];
  return {peer ? ErrorCode::kUnavailable : ErrorCode::kSystem,
          what + ": " + std::string(strerror_r(number, text, sizeof(text)))};
}

Result<Endpoint> Endpoint::parse(const std::string& text) {
  size_t colon = text.rfind(':');
  auto wrong = [&] { return invalid("'" + text + "' is not host:port, such as 127.0.0.1:7164 or [::1]:7164"); };
  if (colon == std::string::npos || colon == 0) return wrong();
  Endpoint endpoint;
  endpoint.host = text.substr(0, colon);
  if (endpoint.host.front() == '[' && endpoint.host.back() == ']') {
    endpoint.host = endpoint.host.substr(1, endpoint.host.size() - 2);
  } else if (endpoint.host.find(':') != std::string::npos) {
    return wrong();
  }
  const char* end = text.data() + text.size();
  auto [at, status] = std::from_chars(text.data() + colon + 1, end, endpoint.port);
  if (status != std::errc() || at != end || endpoint.host.empty()) return wrong();
  return endpoint;
}

std::string Endpoint::to_string() const {
  bool v6 = host.find(':') != std::string::npos;
  return (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

Result<void> check_reach(const Endpoint& endpoint, Reach reach) {
  FLOTA_TRY(resolve_to_listen(endpoint, reach));
  return {};
}

Result<std::pair<Fd, uint16_t>> listen_tcp(const Endpoint& endpoint, Reach reach) {
  FLOTA_ASSIGN(AddressInfo address, resolve_to_listen(endpoint, reach));
  Fd fd(socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return system_error("socket");
  int yes = 1;
  // A restarted server must get its port back while old connections linger.
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  if (bind(fd.get(), address->ai_addr, address->ai_addrlen) != 0 || listen(fd.get(), 1024) != 0) {
    if (errno == EADDRINUSE) {
      return Error{ErrorCode::kSystem, "port " + std::to_string(endpoint.port) + " on " + endpoint.host +
                                           " is in use by another process; choose another port, or 0 for a free one"};
    }
    return system_error("listen on " + endpoint.to_string());
  }
  sockaddr_storage bound{};
  socklen_t size = sizeof(bound);
  getsockname(fd.get(), reinterpret_cast<sockaddr*>(&bound), &size);
  uint16_t port = ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(bound).sin6_port
                                                    : reinterpret_cast<sockaddr_in&>(bound).sin_port);
  return std::pair(std::move(fd), port);
}

Result<Fd> connect_tcp(const Endpoint& endpoint, Deadline deadline, Reach reach) {
  FLOTA_ASSIGN(AddressInfo addresses, resolve(endpoint.host, endpoint.port, false, deadline));
  Error last{ErrorCode::kUnavailable, "no address"};
  for (const addrinfo* address = addresses.get(); address != nullptr; address = address->ai_next) {
    if (reach == Reach::kLoopback && !is_loopback(*address->ai_addr)) {
      last = invalid(
          "the way there leads over a network, and there is no TLS: set FLOTA_CERTS to a folder that `flota "
          "certs` made, or pass tls=…, or allow traffic that anybody on that network can read and change, "
          "with FLOTA_INSECURE=1 or insecure=True");
      continue;
    }
    auto fd = connect_address(*address, deadline);
    if (fd) {
      tune_connected(fd->get());
      return fd;
    }
    last = fd.error();
  }
  return last;
}

Result<Fd> listen_unix(const std::string& host, uint16_t port) {
  Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return system_error("socket");
  socklen_t size = 0;
  sockaddr_un address = unix_address(host, port, &size);
  if (bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 || listen(fd.get(), 1024) != 0) {
    return system_error("listen on the local socket of port " + std::to_string(port));
  }
  return fd;
}

Result<Fd> connect_unix(const std::string& host, uint16_t port) {
  Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) return system_error("socket");
  socklen_t size = 0;
  sockaddr_un address = unix_address(host, port, &size);
  // Either somebody listens or not: a local connection does not have to be waited for.
  if (connect(fd.get(), reinterpret_cast<sockaddr*>(&address), size) != 0) return system_error("connect");
  return fd;
}

Result<Fd> accept_from(const Fd& listener, Deadline deadline) {
  for (;;) {
    Fd fd(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (fd) {
      tune_accepted(fd.get());
      return fd;
    }
    if (errno == ECONNABORTED || errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return system_error("accept");
    FLOTA_ASSIGN(bool ready, wait_for(listener.get(), POLLIN, deadline));
    if (!ready) return Error{ErrorCode::kDeadline, "nobody connected"};
  }
}

Result<bool> wait_readable(int fd, Deadline deadline) { return wait_for(fd, POLLIN, deadline); }

SocketStream::SocketStream(Fd fd) : fd_(std::move(fd)) {
  fcntl(fd_.get(), F_SETFL, fcntl(fd_.get(), F_GETFL) & ~O_NONBLOCK);
  timeval slice{0, static_cast<suseconds_t>(std::chrono::microseconds(kSlice).count())};
  setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &slice, sizeof(slice));
  setsockopt(fd_.get(), SOL_SOCKET, SO_SNDTIMEO, &slice, sizeof(slice));
}

void SocketStream::close() { shutdown(fd_.get(), SHUT_RDWR); }

Result<size_t> SocketStream::read_some(std::span<std::byte> out, Deadline deadline) {
  ssize_t early = -1;
  auto look = [&] {
    early = recv(fd_.get(), out.data(), out.size(), MSG_DONTWAIT);
    return early >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
  };
  // Looked at before each piece: a peer that sends a byte now and then must not stretch a wait for ever. What is there
  // already still counts.
  const bool late = deadline.passed();
  if ((late ? look() : spin_.until(look)) && early > 0) return static_cast<size_t>(early);
  if (late) return Error{ErrorCode::kDeadline, "no answer in time"};
  for (;;) {
    if (deadline.left(kSlice) < kSlice) {
      // Too near for a slice: wait for exactly what is left.
      FLOTA_ASSIGN(bool ready, wait_for(fd_.get(), POLLIN, deadline));
      if (!ready) return Error{ErrorCode::kDeadline, "no answer in time"};
    }
    ssize_t count = recv(fd_.get(), out.data(), out.size(), 0);
    if (count > 0) return static_cast<size_t>(count);
    if (count == 0) return Error{ErrorCode::kUnavailable, "the connection was closed"};
    if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) return system_error("receive");
    FLOTA_TRY(Interrupt::check());
    if (deadline.passed()) return Error{ErrorCode::kDeadline, "no answer in time"};
  }
}

Result<void> SocketStream::write_all(std::span<const std::byte> bytes, Deadline deadline) {
  while (!bytes.empty()) {
    if (deadline.passed()) return Error{ErrorCode::kDeadline, "the peer takes no more data"};
    // Without waiting inside: a blocking send to a reader that takes a little now and then goes on for as long as that.
    ssize_t count = send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count > 0) {
      bytes = bytes.subspan(static_cast<size_t>(count));
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return system_error("send");
    FLOTA_TRY(wait_for(fd_.get(), POLLOUT, deadline));
  }
  return {};
}

}  // namespace flota
