// Pushes are applied exactly once, whatever happens to connections.
#include <algorithm>
#include <memory>
#include <vector>

#include "cluster.h"
#include "message_samples.h"
#include "relay.h"

using namespace flota;
using namespace flota::testing;

BOOST_AUTO_TEST_SUITE(cluster_once, *boost::unit_test::timeout(300))

BOOST_AUTO_TEST_CASE(pushes_are_applied_exactly_once_however_often_connections_are_cut) {
  for (uint64_t seed : {1, 2, 3}) {
    Cluster cluster(2);
    std::vector<std::unique_ptr<Relay>> relays;
    ClientOptions options = cluster.options(Transport::kTcp);
    for (uint32_t i = 0; i < 2; ++i) {
      // The shortest ones end within the handshake.
      relays.push_back(std::make_unique<Relay>(cluster.servers[i]->port(), seed * 10 + i, 100, 4'000));
      options.endpoints[i] = relays[i]->endpoint();
    }
    auto client = value_of(Client::connect(options, kTime));
    const auto table = value_of(client->create_sparse(zeros(3), kTime));
    // Few keys: a fifth of the bytes are answers, and a cut there leaves a push applied and unanswered.
    const std::vector<Key> keys = {1, 2, 3, 4, 5, 6};
    const std::vector<float> ones(keys.size() * 3, 1);
    constexpr int kPushes = 150;
    for (int i = 1; i <= kPushes; ++i) {
      value_of(client->push(table, keys, ones, {PushKind::kGradient, 1, -1, 1}, kTime));
      if (i % 5 != 0) continue;
      const auto rows = pulled(*client, table, keys);
      BOOST_TEST_REQUIRE(std::all_of(rows.begin(), rows.end(), [&](float x) { return x == static_cast<float>(i); }));
    }
    auto observer = cluster.client();
    for (const auto& [key, row] : exported(*observer, table)) BOOST_TEST_REQUIRE(row[0] == uint64_t{kPushes});
    BOOST_TEST(relays[0]->cuts() + relays[1]->cuts() > 20u);
    BOOST_TEST(statistic(*observer, "duplicate_pushes") > 0u);
  }
}

BOOST_AUTO_TEST_CASE(dense_pushes_are_applied_exactly_once_too) {
  Cluster cluster(2);
  ClientOptions options = cluster.options(Transport::kTcp);
  std::vector<std::unique_ptr<Relay>> relays;
  for (uint32_t i = 0; i < 2; ++i) {
    relays.push_back(std::make_unique<Relay>(cluster.servers[i]->port(), 40 + i, 100, 15'000));
    options.endpoints[i] = relays[i]->endpoint();
  }
  auto client = value_of(Client::connect(options, kTime));
  TableSpec spec = uncut(501);
  spec.init = {InitKind::kConstant, 0};
  Slicing slicing;
  slicing.min_block = 16;
  const auto table = value_of(client->create_dense(spec, slicing, kTime));
  const std::vector<float> ones(501, 1);
  for (int i = 0; i < 60; ++i) value_of(client->push_dense(table, ones, {PushKind::kDelta, 0, 1, 1}, kTime));
  BOOST_TEST(relays[0]->cuts() + relays[1]->cuts() > 5u);
  BOOST_TEST((pulled(*client, table) == std::vector<float>(501, 60)));
}

// The same frame on two connections at once, as when a client has given up on the first.
BOOST_AUTO_TEST_CASE(a_push_sent_twice_is_applied_once_and_answered_twice) {
  Cluster cluster;
  auto client = cluster.client();
  const auto table = value_of(client->create_sparse(zeros(1), kTime));
  PushHead head = sample_push_head(3, 1);
  head.table = table.id;
  head.scale = 1;
  const std::vector<Key> keys = {7, 8, 9};
  const std::vector<float> values = {1, 2, 3};
  Writer payload;
  head.encode(payload);
  payload.put_array(std::span<const Key>(keys));
  payload.put_array(std::span<const float>(values));
  auto one = RawPeer::greeted(*cluster.servers[0]);
  auto two = RawPeer::greeted(*cluster.servers[0]);
  for (RawPeer* peer : {one.get(), two.get(), one.get()}) peer->ask(MessageKind::kPush, payload.bytes());
  size_t applied = 0;
  for (RawPeer* peer : {one.get(), two.get(), one.get()}) {
    applied += value_of(PushReply::decode(value_of(peer->answer()))).applied;
  }
  BOOST_TEST(applied == 1u);
  BOOST_TEST((pulled(*client, table, keys) == values));
  BOOST_TEST(statistic(*client, "duplicate_pushes") == 2u);
  BOOST_TEST(statistic(*client, "pushes", "rows") == 1u);
}

BOOST_AUTO_TEST_CASE(an_old_incarnation_of_a_worker_must_stop) {
  Cluster cluster;
  ClientOptions options = cluster.options();
  options.worker = 5;
  options.epoch = 1;
  auto old_one = value_of(Client::connect(options, kTime));
  const auto table = value_of(old_one->create_sparse(zeros(1), kTime));
  const Key key = 1;
  const float one = 1;
  auto push = [&](Client& client) {
    return client.push(table, std::span(&key, 1), std::span(&one, 1), {PushKind::kDelta, 0, 1, 1}, kTime);
  };
  value_of(push(*old_one));
  options.epoch = 2;
  auto new_one = value_of(Client::connect(options, kTime));
  value_of(push(*new_one));
  auto stale = push(*old_one);
  BOOST_TEST(code_of(stale) == ErrorCode::kStaleEpoch);
  BOOST_TEST(contains(message_of(stale), "'rows'"));
  BOOST_TEST((pulled(*new_one, table, std::span(&key, 1)) == std::vector<float>{2}));
}

// Two processes were given the same worker number, or one was restarted without a new epoch. The server cannot tell
// their pushes from repeated ones; that must not pass for success.
BOOST_AUTO_TEST_CASE(two_clients_with_one_name_are_told_instead_of_losing_pushes) {
  Cluster cluster;
  ClientOptions options = cluster.options();
  options.worker = 5;
  auto one = value_of(Client::connect(options, kTime));
  auto two = value_of(Client::connect(options, kTime));
  const auto table = value_of(one->create_sparse(zeros(1), kTime));
  const Key key = 1;
  const float value = 1;
  const PushOptions delta{PushKind::kDelta, 0, 1, 1};
  value_of(one->push(table, std::span(&key, 1), std::span(&value, 1), delta, kTime));
  auto second = two->push(table, std::span(&key, 1), std::span(&value, 1), delta, kTime);
  const auto rows = pulled(*one, table, std::span(&key, 1));
  BOOST_TEST((!second.has_value() || rows == std::vector<float>{2}), "a push was answered and lost");
}

BOOST_AUTO_TEST_SUITE_END()
