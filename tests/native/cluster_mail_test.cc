// Letters through real servers.
#include <map>

#include "cluster.h"
#include "relay.h"

using namespace flota;
using namespace flota::testing;

namespace {

std::vector<std::byte> contents(uint64_t seed, size_t size) {
  std::mt19937_64 random(seed);
  return random_bytes(random, size);
}

LetterTo letter(uint32_t from, uint32_t to, uint64_t sequence, bool last = false) {
  return {"shuffle", from, to, 2, sequence, last};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cluster_mail, *boost::unit_test::timeout(120))

BOOST_AUTO_TEST_CASE(letters_of_any_size_arrive_by_every_transport) {
  for (Transport transport : kTransports) {
    BOOST_TEST_CONTEXT(name_of(transport)) {
      Cluster cluster(2);
      auto client = cluster.client(transport);
      const size_t sizes[] = {0, 1, 7, 8, 1000, 262'144, 1 << 20, SendHead::kMaxBytes};
      for (uint32_t to : {0, 1}) {
        uint64_t sequence = 0;
        for (size_t size : sizes) {
          value_of(client->send(letter(0, to, sequence, size == SendHead::kMaxBytes), contents(size, size), kTime));
          const Letter got = value_of(client->receive("shuffle", to, 2, sequence, kTime));
          BOOST_TEST((*got.bytes == contents(size, size)));
          BOOST_TEST(got.last == (size == SendHead::kMaxBytes));
          ++sequence;
        }
        value_of(client->send(letter(1, to, 0, true), {}, kTime));
        BOOST_TEST(value_of(client->receive("shuffle", to, 2, sequence, kTime)).from == 1u);
        BOOST_TEST(value_of(client->receive("shuffle", to, 2, sequence + 1, kTime)).over);
      }
      BOOST_TEST(statistic(*client, "mail_bytes") == 0u);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_receivers_letters_are_on_one_server) {
  Cluster cluster(2);
  auto client = cluster.client();
  value_of(client->send(letter(0, 1, 0), contents(1, 100), kTime));
  const auto servers = value_of(client->statistics(kTime));
  for (size_t i = 0; i < 2; ++i) {
    for (const Statistic& value : servers[i].values) {
      if (value.name == "mail_bytes") BOOST_TEST(value.value == 100 * i);
    }
  }
}

BOOST_AUTO_TEST_CASE(who_is_missing_is_named_before_the_client_gives_up) {
  Cluster cluster;
  auto client = cluster.client();
  auto late = client->receive("shuffle", 0, 2, 0, milliseconds(1000));
  BOOST_TEST(code_of(late) == ErrorCode::kDeadline);
  BOOST_TEST(contains(message_of(late), "worker 0 waited"));
  BOOST_TEST(contains(message_of(late), "workers 0, 1 of 2 did not send their last"));
  uint64_t sequence = 0;
  const auto bytes = contents(0, SendHead::kMaxBytes);
  for (; sequence < 4; ++sequence) value_of(client->send(letter(0, 1, sequence), bytes, kTime));
  auto full = client->send(letter(0, 1, sequence), contents(0, 1), milliseconds(1000));
  BOOST_TEST(code_of(full) == ErrorCode::kDeadline);
  BOOST_TEST(contains(message_of(full), "worker 1 has not taken 4 letters (32 MiB)"));
}

BOOST_AUTO_TEST_CASE(what_cannot_be_sent_is_refused) {
  Cluster cluster;
  auto client = cluster.client();
  const auto large = contents(0, SendHead::kMaxBytes + 1);
  BOOST_TEST(code_of(client->send(letter(0, 1, 0), large, kTime)) == ErrorCode::kTooLarge);
  BOOST_TEST(code_of(client->send(letter(2, 1, 0), {}, kTime)) == ErrorCode::kInvalidArgument);
  BOOST_TEST(code_of(client->send(letter(0, 2, 0), {}, kTime)) == ErrorCode::kInvalidArgument);
  BOOST_TEST(code_of(client->send({"", 0, 1, 2, 0, false}, {}, kTime)) == ErrorCode::kInvalidArgument);
  BOOST_TEST(code_of(client->receive("shuffle", 2, 2, 0, kTime)) == ErrorCode::kInvalidArgument);
  BOOST_TEST(code_of(client->receive(std::string(256, 'x'), 0, 2, 0, kTime)) == ErrorCode::kInvalidArgument);
}

BOOST_AUTO_TEST_CASE(every_letter_arrives_once_however_often_connections_are_cut) {
  constexpr uint32_t kWorld = 2;
  constexpr uint64_t kLetters = 60;
  for (uint64_t seed : {1, 2}) {
    Cluster cluster(2);
    std::vector<std::unique_ptr<Relay>> relays;
    ClientOptions options = cluster.options(Transport::kTcp);
    for (uint32_t i = 0; i < 2; ++i) {
      relays.push_back(std::make_unique<Relay>(cluster.servers[i]->port(), seed * 10 + i, 100, 6'000));
      options.endpoints[i] = relays[i]->endpoint();
    }
    auto client = value_of(Client::connect(options, kTime));
    std::atomic<int> errors{0};
    std::atomic<uint64_t> received{0};
    in_threads(2 * kWorld, [&](size_t thread) {
      const auto rank = static_cast<uint32_t>(thread % kWorld);
      if (thread < kWorld) {
        for (uint64_t i = 0; i < kLetters; ++i) {
          for (uint32_t to = 0; to < kWorld; ++to) {
            const auto bytes = contents(rank * 1000 + i, (i * 37) % 900);
            errors += !client->send(letter(rank, to, i, i + 1 == kLetters), bytes, kTime).has_value();
          }
        }
        return;
      }
      std::map<uint32_t, uint64_t> next;
      for (uint64_t taken = 0;; ++taken) {
        auto got = client->receive("shuffle", rank, kWorld, taken, kTime);
        errors += !got.has_value();
        if (!got || got->over) return;
        const uint64_t i = next[got->from]++;
        errors += *got->bytes != contents(got->from * 1000 + i, (i * 37) % 900);
        ++received;
      }
    });
    BOOST_TEST(errors == 0);
    BOOST_TEST(received == kWorld * kWorld * kLetters);
    BOOST_TEST(relays[0]->cuts() + relays[1]->cuts() > 20u);
  }
}

BOOST_AUTO_TEST_CASE(a_server_that_stops_lets_senders_and_receivers_go) {
  Cluster cluster;
  auto client = cluster.client();
  Result<Letter> outcome = Letter();
  std::thread waiting([&] { outcome = client->receive("shuffle", 0, 2, 0, milliseconds(1000)); });
  cluster.servers[0]->stop();
  waiting.join();
  BOOST_TEST(!outcome.has_value());
}

BOOST_AUTO_TEST_SUITE_END()
