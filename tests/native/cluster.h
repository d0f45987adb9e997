#pragma once

#include <memory>
#include <string>
#include <vector>

#include "certificates.h"
#include "client/client.h"
#include "server/server.h"
#include "testing.h"
#include "wire/frame.h"

// Real servers and clients in this process.
namespace flota::testing {

inline const std::string kJobSecret = "the secret of a test cluster";
inline constexpr milliseconds kTime{20'000};

struct Cluster {
  std::vector<std::unique_ptr<Server>> servers;
  std::vector<std::string> endpoints;

  explicit Cluster(uint32_t count = 1, ServerOptions options = {}) {
    options.secret = kJobSecret;
    options.count = count;
    for (uint32_t i = 0; i < count; ++i) {
      options.index = i;
      servers.push_back(value_of(Server::start(options)));
      endpoints.push_back(servers.back()->endpoint());
    }
  }

  ClientOptions options(Transport transport = Transport::kAuto) const {
    ClientOptions options;
    options.endpoints = endpoints;
    options.secret = kJobSecret;
    options.transport = transport;
    return options;
  }
  std::unique_ptr<Client> client(Transport transport = Transport::kAuto) const {
    return value_of(Client::connect(options(transport), kTime));
  }
};

// The sum over all servers.
inline uint64_t statistic(Client& client, const std::string& name, const std::string& table = "") {
  uint64_t sum = 0;
  for (const ServerStatistics& server : value_of(client.statistics(kTime))) {
    for (const Statistic& value : server.values) {
      if (value.name == name && value.table == table) sum += value.value;
    }
  }
  return sum;
}

// Waits until a counter, which servers advance a moment after what it counts, has reached a value.
inline bool reaches(Client& client, const std::string& name, uint64_t value) {
  const Deadline deadline = patience();
  while (statistic(client, name) < value) {
    if (deadline.passed()) return false;
    std::this_thread::yield();
  }
  return statistic(client, name) == value;
}

// A connection that speaks the protocol by hand.
struct RawPeer {
  SocketStream stream;

  explicit RawPeer(uint16_t port) : stream(value_of(connect_tcp({"127.0.0.1", port}, patience()))) {}

  // A peer that has proven the secret.
  static std::unique_ptr<RawPeer> greeted(const Server& server) {
    auto peer = std::make_unique<RawPeer>(server.port());
    value_of(client_handshake(peer->stream, kJobSecret, {}, false, patience()));
    return peer;
  }

  void give(std::span<const std::byte> bytes) {
    value_of(stream.write(bytes, patience()));
    value_of(stream.flush(patience()));
  }
  void ask(MessageKind kind, std::span<const std::byte> payload, uint64_t request = 1) {
    FrameWriter writer(stream);
    value_of(writer.begin(kind, request, payload.size(), patience()));
    value_of(writer.write(payload, patience()));
    value_of(writer.end(patience()));
  }
  // The answer's payload, or the error it carries.
  Result<std::vector<std::byte>> answer(uint64_t request = 1) {
    FrameReader reader(stream, kDefaultMaxPayload);
    FLOTA_ASSIGN(FrameHeader header, reader.next(patience()));
    BOOST_TEST(header.request == request);
    std::vector<std::byte> buffer;
    FLOTA_ASSIGN(auto payload, reader.rest(buffer, patience()));
    std::vector<std::byte> bytes(payload.begin(), payload.end());
    FLOTA_TRY(reader.finish(patience()));
    if (header.kind == MessageKind::kReply) return bytes;
    FLOTA_ASSIGN(ErrorReply reply, ErrorReply::decode(bytes));
    return reply.error;
  }
  // Whether the server has ended the connection.
  bool ended() { return code_of(stream.peek(1, patience())) == ErrorCode::kUnavailable; }
};

}  // namespace flota::testing
