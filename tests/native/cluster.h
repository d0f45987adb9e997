#pragma once

#include <map>
#include <memory>
#include <random>
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

// Waits until a number of the servers' is `value`: they change it a moment after what it tells of.
inline bool becomes(Client& client, const std::string& name, uint64_t value) {
  for (const Deadline deadline = patience(); !deadline.passed(); std::this_thread::yield()) {
    if (statistic(client, name) == value) return true;
  }
  return false;
}

inline bool reaches(Client& client, const std::string& name, uint64_t value) {
  for (const Deadline deadline = patience(); !deadline.passed(); std::this_thread::yield()) {
    if (statistic(client, name) >= value) return true;
  }
  return false;
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

inline constexpr Transport kTransports[] = {Transport::kTcp, Transport::kUnix, Transport::kSharedMemory,
                                            Transport::kAuto};

inline const char* name_of(Transport transport) {
  constexpr const char* kNames[] = {"", "auto", "TCP", "Unix socket", "shared memory"};
  return kNames[static_cast<size_t>(transport)];
}

// Keys in no order, some of them twice.
inline std::vector<Key> some_keys(size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Key> keys(count);
  for (Key& key : keys) key = random() % (2 * count) * 0x9e3779b97f4a7c15u;
  return keys;
}

inline std::vector<float> some_values(size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(static_cast<int64_t>(random() % 2001) - 1000) / 512;
  return values;
}

inline std::vector<float> pulled(Client& client, const RemoteTable& table, std::span<const Key> keys) {
  std::vector<float> out(keys.size() * table.spec.dim);
  value_of(client.pull(table, keys, out, true, kTime));
  return out;
}

inline std::vector<float> pulled(Client& client, const RemoteTable& table) {
  std::vector<float> out(table.spec.size());
  value_of(client.pull_dense(table, out, kTime));
  return out;
}

// As a client gives it: the blocks are the client's to cut.
inline TableSpec uncut(uint64_t size, RuleKind rule = RuleKind::kSgd) {
  TableSpec spec = dense_spec(size, rule);
  spec.blocks.clear();
  return spec;
}

inline TableSpec zeros(uint32_t dim) {
  TableSpec spec = sparse_spec(dim);
  spec.init = {InitKind::kConstant, 0};
  return spec;
}

// A table's rows: weights, state and counters by key.
using Contents = std::map<Key, std::vector<uint64_t>>;

inline Contents exported(Client& client, const RemoteTable& table) {
  Contents contents;
  for (uint32_t shard = 0; shard < kShards; ++shard) {
    uint64_t cursor = 0;
    for (bool done = false; !done;) {
      const ExportFrom from{shard, cursor};
      const auto pages = value_of(client.export_pages(table, std::span(&from, 1), 100, kTime));
      const Rows rows = value_of(Rows::decode(pages[0]));
      for (size_t i = 0; i < rows.keys.size(); ++i) {
        auto& row = contents[rows.keys[i]];
        BOOST_TEST_REQUIRE(row.empty());
        row = {rows.updates[i], rows.last_seen[i]};
        for (uint32_t bits : bits_of(rows.weights.subspan(i * rows.dim, rows.dim))) row.push_back(bits);
        for (uint32_t bits : bits_of(rows.state.subspan(i * rows.state_floats, rows.state_floats))) row.push_back(bits);
      }
      done = rows.done;
      cursor = rows.next;
    }
  }
  return contents;
}

}  // namespace flota::testing
