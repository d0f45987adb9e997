#pragma once

#include <unistd.h>

#include <atomic>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "certificates.h"
#include "testing.h"
#include "wire/shared_memory.h"
#include "wire/socket.h"
#include "wire/tls.h"

// Both ends of a connection in this process, over each transport.
namespace flota::testing {

struct Ends {
  std::unique_ptr<Stream> client;
  std::unique_ptr<Stream> server;
};

struct SocketEnds {
  std::unique_ptr<SocketStream> client;
  std::unique_ptr<SocketStream> server;
};

inline SocketEnds tcp_ends() {
  auto [listener, port] = value_of(listen_tcp({"127.0.0.1", 0}));
  Fd client = value_of(connect_tcp({"127.0.0.1", port}, patience()));
  Fd server = value_of(accept_from(listener, patience()));
  return {std::make_unique<SocketStream>(std::move(client)), std::make_unique<SocketStream>(std::move(server))};
}

inline SocketEnds unix_ends() {
  static std::atomic<uint16_t> next{1};
  const std::string host = "flota-test-" + std::to_string(getpid());
  const uint16_t port = next.fetch_add(1);
  Fd listener = value_of(listen_unix(host, port));
  Fd client = value_of(connect_unix(host, port));
  Fd server = value_of(accept_from(listener, patience()));
  return {std::make_unique<SocketStream>(std::move(client)), std::make_unique<SocketStream>(std::move(server))};
}

// Does the two halves of a handshake at once.
template <class Client, class Server>
auto at_once(Client client, Server server) {
  decltype(server()) server_result = Error{};
  std::thread thread([&] { server_result = server(); });
  auto client_result = client();
  thread.join();
  return std::pair(std::move(client_result), std::move(server_result));
}

inline TlsOptions server_tls() { return {Certificates::get().server(), Certificates::get().server_key(), "", true}; }
inline TlsOptions client_tls() { return {"", "", Certificates::get().authority(), true}; }

struct TlsEnds {
  Result<std::unique_ptr<TlsStream>> client;
  Result<std::unique_ptr<TlsStream>> server;
};

inline TlsEnds tls_ends(const TlsOptions& client_options, const TlsOptions& server_options,
                        const std::string& host = "127.0.0.1") {
  auto client_context = value_of(TlsContext::client(client_options));
  auto server_context = value_of(TlsContext::server(server_options));
  auto sockets = tcp_ends();
  // Each side closes its socket when it gives up, so that the other need not wait.
  auto [client, server] =
      at_once([&] { return TlsStream::connect(client_context, std::move(sockets.client), host, patience()); },
              [&] { return TlsStream::accept(server_context, std::move(sockets.server), patience()); });
  return {std::move(client), std::move(server)};
}

struct Tcp {
  static Ends ends() {
    auto sockets = tcp_ends();
    return {std::move(sockets.client), std::move(sockets.server)};
  }
};

struct Unix {
  static Ends ends() {
    auto sockets = unix_ends();
    return {std::move(sockets.client), std::move(sockets.server)};
  }
};

struct Tls {
  static Ends ends() {
    auto streams = tls_ends(client_tls(), server_tls());
    return {value_of(std::move(streams.client)), value_of(std::move(streams.server))};
  }
};

struct SharedMemory {
  static Ends ends() {
    auto sockets = unix_ends();
    auto [client, server] = at_once([&] { return SharedMemoryStream::accept(std::move(sockets.client), patience()); },
                                    [&] { return SharedMemoryStream::offer(std::move(sockets.server), patience()); });
    return {value_of(std::move(client)), value_of(std::move(server))};
  }
};

// Soon enough for a test that waits for it.
inline constexpr milliseconds kSoon{60};

inline std::vector<std::byte> sample(size_t size) {
  std::mt19937_64 random(size);
  return random_bytes(random, size);
}

inline Result<void> send_bytes(Stream& stream, std::span<const std::byte> bytes, Deadline deadline = patience()) {
  FLOTA_TRY(stream.write(bytes, deadline));
  return stream.flush(deadline);
}

}  // namespace flota::testing
