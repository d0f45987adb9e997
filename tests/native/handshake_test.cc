#include "wire/handshake.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <cstring>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "transports.h"

using namespace flota;
using namespace flota::testing;

namespace {

using Bytes = std::vector<std::byte>;

const std::string kSecret = "a secret of the job, long enough";
const std::string kOther = "another secret, also long enough";
const ServerIdentity kIdentity{2, 5, 0x1122334455667788, false};

constexpr size_t kServerHello = 40, kClientHello = 72, kServerProof = 56;

struct Outcome {
  Result<ServerIdentity> client = Error{};
  Result<void> server;
  bool wants_memory = false;
};

struct Setting {
  std::string client_secret = kSecret;
  std::string server_secret = kSecret;
  ChannelBinding client_binding{};
  ChannelBinding server_binding{};
  ServerIdentity identity = kIdentity;
  bool want_memory = false;
};

Outcome shake(const Setting& setting) {
  auto sockets = unix_ends();
  Outcome outcome;
  auto [client, server] = at_once(
      [&] {
        return client_handshake(*sockets.client, setting.client_secret, setting.client_binding, setting.want_memory,
                                patience());
      },
      [&] {
        return server_handshake(*sockets.server, setting.server_secret, setting.server_binding, setting.identity,
                                &outcome.wants_memory, patience());
      });
  outcome.client = std::move(client);
  outcome.server = std::move(server);
  return outcome;
}

// A server in a thread against bytes that the test writes by hand.
class ByHand {
 public:
  explicit ByHand(Deadline deadline = patience()) {
    auto sockets = unix_ends();
    client_ = std::move(sockets.client);
    thread_ = std::thread([this, deadline, socket = std::move(sockets.server)]() mutable {
      bool wants_memory = false;
      result_ = server_handshake(*socket, kSecret, {}, kIdentity, &wants_memory, deadline);
    });
  }
  ~ByHand() {
    if (thread_.joinable()) thread_.join();
  }

  Bytes take(size_t count) {
    Bytes bytes(count);
    value_of(client_->read(bytes, patience()));
    return bytes;
  }
  void give(const Bytes& bytes) {
    value_of(client_->write(bytes, patience()));
    value_of(client_->flush(patience()));
  }
  void leave() { client_->close(); }
  Result<void> result() {
    thread_.join();
    return result_;
  }
  SocketStream& client() { return *client_; }

 private:
  std::unique_ptr<SocketStream> client_;
  Result<void> result_;
  std::thread thread_;
};

template <class T>
T field(const Bytes& bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

template <class T>
void set_field(Bytes& bytes, size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof(T));
}

// A client's hello as docs/wire_format.md describes it, made here from scratch.
Bytes client_hello(const Bytes& server_hello, const std::string& secret, uint16_t version = 2, uint16_t flags = 0) {
  Bytes hello(kClientHello);
  set_field(hello, 0, uint32_t{0x484c4f46});
  set_field(hello, 4, version);
  set_field(hello, 6, flags);
  for (size_t i = 8; i < 40; ++i) hello[i] = static_cast<std::byte>(i);
  Bytes signed_bytes(32);  // the binding: none
  signed_bytes.insert(signed_bytes.end(), server_hello.begin(), server_hello.end());
  signed_bytes.insert(signed_bytes.end(), hello.begin(), hello.begin() + 40);
  for (char c : std::string("flota client 1")) signed_bytes.push_back(static_cast<std::byte>(c));
  unsigned size = 0;
  HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
       reinterpret_cast<const unsigned char*>(signed_bytes.data()), signed_bytes.size(),
       reinterpret_cast<unsigned char*>(hello.data() + 40), &size);
  return hello;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(handshake, *boost::unit_test::timeout(120))

BOOST_AUTO_TEST_CASE(the_same_secret_lets_in_and_tells_who_answered) {
  const Outcome outcome = shake({});
  BOOST_TEST(outcome.server.has_value(), message_of(outcome.server));
  const ServerIdentity identity = value_of(outcome.client);
  BOOST_TEST(identity.index == 2u);
  BOOST_TEST(identity.count == 5u);
  BOOST_TEST(identity.incarnation == 0x1122334455667788u);
  BOOST_TEST(!identity.shared_memory);
  BOOST_TEST(!outcome.wants_memory);
}

BOOST_AUTO_TEST_CASE(shared_memory_needs_both_sides) {
  for (bool offered : {false, true}) {
    for (bool wanted : {false, true}) {
      Setting setting;
      setting.identity.shared_memory = offered;
      setting.want_memory = wanted;
      const Outcome outcome = shake(setting);
      BOOST_TEST(outcome.wants_memory == (offered && wanted));
      BOOST_TEST(value_of(outcome.client).shared_memory == (offered && wanted));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_wrong_secret_is_refused_on_both_sides) {
  Setting setting;
  setting.client_secret = kOther;
  const Outcome outcome = shake(setting);
  BOOST_TEST(code_of(outcome.server) == ErrorCode::kUnauthenticated);
  BOOST_TEST(code_of(outcome.client) == ErrorCode::kUnauthenticated);
  BOOST_TEST(contains(message_of(outcome.client), "FLOTA_SECRET"));
  // The secrets themselves appear nowhere.
  BOOST_TEST(!contains(message_of(outcome.client) + message_of(outcome.server), kSecret));
  BOOST_TEST(!contains(message_of(outcome.client) + message_of(outcome.server), kOther));
}

BOOST_AUTO_TEST_CASE(a_secret_that_only_begins_the_same_is_wrong) {
  for (const std::string& near : {kSecret + "x", kSecret.substr(1), kSecret.substr(0, 20)}) {
    Setting setting;
    setting.client_secret = near;
    BOOST_TEST(code_of(shake(setting).server) == ErrorCode::kUnauthenticated);
  }
}

// Somebody in the middle passes a proof on through a connection of his own.
BOOST_AUTO_TEST_CASE(a_proof_made_for_another_tls_connection_is_refused) {
  Setting setting;
  setting.client_binding[5] = std::byte{1};
  const Outcome outcome = shake(setting);
  BOOST_TEST(code_of(outcome.server) == ErrorCode::kUnauthenticated);
  BOOST_TEST(code_of(outcome.client) == ErrorCode::kUnauthenticated);
  setting.server_binding = setting.client_binding;
  BOOST_TEST(shake(setting).server.has_value());
}

BOOST_AUTO_TEST_CASE(the_messages_are_as_documented) {
  ByHand server;
  const Bytes hello = server.take(kServerHello);
  BOOST_TEST(field<uint32_t>(hello, 0) == 0x484c4f46u);
  BOOST_TEST(field<uint16_t>(hello, 4) == 2u);
  BOOST_TEST(field<uint16_t>(hello, 6) == 2u);
  server.give(client_hello(hello, kSecret));
  const Bytes proof = server.take(kServerProof);
  BOOST_TEST(field<uint32_t>(proof, 0) == 0u);
  BOOST_TEST(field<uint32_t>(proof, 4) == 0u);
  BOOST_TEST(field<uint32_t>(proof, 8) == 2u);
  BOOST_TEST(field<uint32_t>(proof, 12) == 5u);
  BOOST_TEST(field<uint64_t>(proof, 16) == 0x1122334455667788u);
  BOOST_TEST(server.result().has_value());
}

BOOST_AUTO_TEST_CASE(a_recorded_hello_is_worthless_next_time) {
  Bytes recorded;
  {
    ByHand server;
    recorded = client_hello(server.take(kServerHello), kSecret);
    server.give(recorded);
    BOOST_TEST(server.result().has_value());
  }
  ByHand server;
  static_cast<void>(server.take(kServerHello));
  server.give(recorded);
  const Bytes proof = server.take(kServerProof);
  BOOST_TEST(field<uint32_t>(proof, 0) == static_cast<uint32_t>(ErrorCode::kUnauthenticated));
  // A refusal tells nothing else.
  BOOST_TEST(std::all_of(proof.begin() + 4, proof.end(), [](std::byte byte) { return byte == std::byte{0}; }));
  BOOST_TEST(code_of(server.result()) == ErrorCode::kUnauthenticated);
}

BOOST_AUTO_TEST_CASE(every_changed_bit_of_a_hello_is_refused) {
  for (size_t bit = 0; bit < 8 * kClientHello; bit += 5) {
    ByHand server;
    Bytes hello = client_hello(server.take(kServerHello), kSecret);
    hello[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    server.give(hello);
    server.leave();
    BOOST_TEST(code_of(server.result()) != kNoError);
  }
}

BOOST_AUTO_TEST_CASE(another_version_is_refused_on_the_server) {
  for (uint16_t version : {0, 1, 3, 65535}) {
    ByHand server;
    server.give(client_hello(server.take(kServerHello), kSecret, version));
    const Bytes proof = server.take(kServerProof);
    BOOST_TEST(field<uint32_t>(proof, 0) == static_cast<uint32_t>(ErrorCode::kVersion));
    BOOST_TEST(code_of(server.result()) == ErrorCode::kVersion);
  }
}

BOOST_AUTO_TEST_CASE(another_version_is_refused_on_the_client) {
  auto sockets = unix_ends();
  Bytes hello(kServerHello);
  set_field(hello, 0, uint32_t{0x484c4f46});
  set_field(hello, 4, uint16_t{3});
  set_field(hello, 6, uint16_t{4});
  value_of(sockets.server->write(hello, patience()));
  value_of(sockets.server->flush(patience()));
  auto identity = client_handshake(*sockets.client, kSecret, {}, false, patience());
  BOOST_TEST(code_of(identity) == ErrorCode::kVersion);
  BOOST_TEST(contains(message_of(identity), "3 to 4"));
}

BOOST_AUTO_TEST_CASE(a_refusal_for_the_version_reaches_the_client) {
  auto sockets = unix_ends();
  auto [client, server] = at_once([&] { return client_handshake(*sockets.client, kSecret, {}, false, patience()); },
                                  [&]() -> Result<void> {
                                    Bytes hello(kServerHello);
                                    set_field(hello, 0, uint32_t{0x484c4f46});
                                    set_field(hello, 4, uint16_t{2});
                                    set_field(hello, 6, uint16_t{2});
                                    FLOTA_TRY(sockets.server->write(hello, patience()));
                                    FLOTA_TRY(sockets.server->flush(patience()));
                                    Bytes answer(kClientHello);
                                    FLOTA_TRY(sockets.server->read(answer, patience()));
                                    Bytes proof(kServerProof);
                                    set_field(proof, 0, static_cast<uint32_t>(ErrorCode::kVersion));
                                    FLOTA_TRY(sockets.server->write(proof, patience()));
                                    return sockets.server->flush(patience());
                                  });
  value_of(server);
  BOOST_TEST(code_of(client) == ErrorCode::kVersion);
}

// It knows the protocol, but not the secret: a client must not trust it, although it says yes.
BOOST_AUTO_TEST_CASE(a_server_that_lets_everybody_in_without_the_secret_is_refused) {
  auto sockets = unix_ends();
  auto [client, server] = at_once([&] { return client_handshake(*sockets.client, kSecret, {}, true, patience()); },
                                  [&]() -> Result<void> {
                                    Bytes hello(kServerHello);
                                    set_field(hello, 0, uint32_t{0x484c4f46});
                                    set_field(hello, 4, uint16_t{2});
                                    set_field(hello, 6, uint16_t{2});
                                    FLOTA_TRY(sockets.server->write(hello, patience()));
                                    FLOTA_TRY(sockets.server->flush(patience()));
                                    Bytes answer(kClientHello);
                                    FLOTA_TRY(sockets.server->read(answer, patience()));
                                    Bytes proof(kServerProof);
                                    // Its own proof thrown back.
                                    std::copy(answer.begin() + 40, answer.end(), proof.begin() + 24);
                                    FLOTA_TRY(sockets.server->write(proof, patience()));
                                    return sockets.server->flush(patience());
                                  });
  value_of(server);
  BOOST_TEST(code_of(client) == ErrorCode::kUnauthenticated);
  BOOST_TEST(contains(message_of(client), "not ours"));
}

BOOST_AUTO_TEST_CASE(whoever_does_not_say_hello_gets_no_answer) {
  std::mt19937_64 random(1);
  ByHand server;
  static_cast<void>(server.take(kServerHello));
  server.give(random_bytes(random, kClientHello));
  BOOST_TEST(code_of(server.result()) == ErrorCode::kMalformed);
  BOOST_TEST(code_of(server.client().peek(1, patience())) == ErrorCode::kUnavailable);
}

BOOST_AUTO_TEST_CASE(a_server_that_speaks_something_else_is_refused) {
  auto sockets = unix_ends();
  const std::string text = "SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u3 and so on\r\n";
  value_of(sockets.server->write(std::as_bytes(std::span(text)), patience()));
  value_of(sockets.server->flush(patience()));
  auto identity = client_handshake(*sockets.client, kSecret, {}, false, patience());
  BOOST_TEST(code_of(identity) == ErrorCode::kMalformed);
  BOOST_TEST(contains(message_of(identity), "no flota server"));
}

BOOST_AUTO_TEST_CASE(a_peer_that_stops_in_the_middle_ends_at_the_deadline) {
  for (size_t bytes : {0, 1, 40, 71}) {
    ByHand server(Deadline::after(milliseconds(60)));
    Bytes hello = client_hello(server.take(kServerHello), kSecret);
    hello.resize(bytes);
    server.give(hello);
    BOOST_TEST(code_of(server.result()) == ErrorCode::kDeadline);
  }
  auto sockets = unix_ends();
  BOOST_TEST(code_of(client_handshake(*sockets.client, kSecret, {}, false, Deadline::after(milliseconds(60)))) ==
             ErrorCode::kDeadline);
}

BOOST_AUTO_TEST_CASE(a_peer_that_leaves_in_the_middle_is_noticed) {
  for (size_t bytes : {0, 1, 40, 71}) {
    ByHand server;
    Bytes hello = client_hello(server.take(kServerHello), kSecret);
    hello.resize(bytes);
    server.give(hello);
    server.leave();
    BOOST_TEST(code_of(server.result()) == ErrorCode::kUnavailable);
  }
}

BOOST_AUTO_TEST_CASE(a_server_without_room_says_so) {
  auto sockets = unix_ends();
  value_of(sockets.server->write(busy_hello(), patience()));
  value_of(sockets.server->flush(patience()));
  auto identity = client_handshake(*sockets.client, kSecret, {}, false, patience());
  BOOST_TEST(code_of(identity) == ErrorCode::kBusy);
  BOOST_TEST(contains(message_of(identity), "no room"));
}

BOOST_AUTO_TEST_CASE(no_two_hellos_are_alike) {
  std::set<Bytes> hellos;
  for (int i = 0; i < 20; ++i) {
    ByHand server;
    hellos.insert(server.take(kServerHello));
    server.leave();
  }
  BOOST_TEST(hellos.size() == 20u);
}

BOOST_AUTO_TEST_CASE(a_short_secret_is_refused) {
  BOOST_TEST(code_of(check_secret("")) == ErrorCode::kInvalidArgument);
  BOOST_TEST(code_of(check_secret(std::string(kMinSecretBytes - 1, 'x'))) == ErrorCode::kInvalidArgument);
  BOOST_TEST(contains(message_of(check_secret("short")), "token_hex"));
  BOOST_TEST(check_secret(std::string(kMinSecretBytes, 'x')).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
