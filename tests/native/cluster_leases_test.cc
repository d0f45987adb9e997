// Leases through real servers.
#include <set>

#include "cluster.h"
#include "relay.h"

using namespace flota;
using namespace flota::testing;

namespace {

LeaseRequest request(uint32_t rank, uint64_t shards, uint64_t call, std::vector<ShardProgress> progress = {}) {
  LeaseRequest message;
  message.pass = "train";
  message.shards = shards;
  message.rank = rank;
  message.world = 2;
  message.call = call;
  message.ttl_ms = 60'000;
  message.take = true;
  message.progress = std::move(progress);
  return message;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cluster_leases, *boost::unit_test::timeout(120))

BOOST_AUTO_TEST_CASE(clients_share_shards_by_the_first_server) {
  Cluster cluster(2);
  auto one = cluster.client();
  auto two = cluster.client();
  BOOST_TEST(value_of(one->lease(request(0, 2, 1), kTime)).shard == 0u);
  BOOST_TEST(value_of(two->lease(request(1, 2, 1), kTime)).shard == 1u);
  // The answer comes before the client would give up.
  BOOST_TEST((value_of(one->lease(request(0, 2, 2), milliseconds(1000))).outcome == LeaseOutcome::kNone));
  LeaseReply waited;
  std::thread waiting([&] { waited = value_of(one->lease(request(0, 2, 3, {{0, 5, ShardProgress::kDone}}), kTime)); });
  LeaseRequest release = request(1, 2, 2, {{1, 9, ShardProgress::kReleased}});
  release.take = false;
  BOOST_TEST((value_of(two->lease(release, kTime)).outcome == LeaseOutcome::kNoted));
  waiting.join();
  BOOST_TEST(waited.shard == 1u);
  BOOST_TEST(waited.samples == 9u);
  BOOST_TEST(waited.left == 1u);
  BOOST_TEST((value_of(one->lease(request(0, 2, 4, {{1, 9, 1}}), kTime)).outcome == LeaseOutcome::kOver));
  BOOST_TEST(statistic(*one, "leases_granted") == 3u);
}

BOOST_AUTO_TEST_CASE(a_restarted_worker_takes_its_own_place) {
  Cluster cluster;
  ClientOptions options = cluster.options();
  options.epoch = 1;
  auto old_one = value_of(Client::connect(options, kTime));
  options.epoch = 2;
  auto new_one = value_of(Client::connect(options, kTime));
  BOOST_TEST(value_of(old_one->lease(request(0, 5, 1), kTime)).shard == 0u);
  BOOST_TEST(value_of(new_one->lease(request(0, 5, 1), kTime)).shard == 0u);
  BOOST_TEST(code_of(old_one->lease(request(0, 5, 2), kTime)) == ErrorCode::kStaleEpoch);
}

BOOST_AUTO_TEST_CASE(the_state_of_leases_goes_to_another_cluster) {
  Cluster cluster;
  auto client = cluster.client();
  BOOST_TEST(value_of(client->lease_states(kTime)).epochs.empty());
  value_of(client->lease(request(0, 5, 1, {{0, 1, ShardProgress::kDone}, {2, 70, 0}}), kTime));
  const LeaseStates states = value_of(client->lease_states(kTime));
  Cluster another(2);
  auto other = another.client();
  value_of(other->restore_leases(states, kTime));
  LeaseRequest third = request(1, 5, 1);
  third.first = 2;
  third.stride = 3;
  const LeaseReply reply = value_of(other->lease(third, kTime));
  BOOST_TEST(reply.shard == 2u);
  BOOST_TEST(reply.samples == 70u);
  BOOST_TEST(reply.left == 4u);
  BOOST_TEST(code_of(other->restore_leases({{{"", 0, 0, 0, {}, {}}}}, kTime)) == ErrorCode::kInvalidArgument);
}

BOOST_AUTO_TEST_CASE(no_shard_is_lost_or_trained_twice_however_often_connections_are_cut) {
  constexpr uint64_t kShards = 150;
  for (uint64_t seed : {1, 2}) {
    Cluster cluster;
    Relay relay(cluster.servers[0]->port(), seed, 100, 3'000);
    ClientOptions options = cluster.options(Transport::kTcp);
    options.endpoints[0] = relay.endpoint();
    std::vector<std::set<uint64_t>> trained(2);
    std::atomic<int> errors{0};
    std::vector<std::unique_ptr<Client>> clients;
    for (int i = 0; i < 2; ++i) clients.push_back(value_of(Client::connect(options, kTime)));
    in_threads(2, [&](size_t rank) {
      std::vector<ShardProgress> progress;
      for (uint64_t call = 0;; ++call) {
        auto reply = clients[rank]->lease(request(static_cast<uint32_t>(rank), kShards, call, progress), kTime);
        errors += !reply.has_value() || !reply->lost.empty();
        if (!reply || reply->outcome != LeaseOutcome::kGranted) return;
        errors += !trained[rank].insert(reply->shard).second;
        progress = {{reply->shard, 1, ShardProgress::kDone}};
      }
    });
    BOOST_TEST(errors == 0);
    BOOST_TEST(trained[0].size() + trained[1].size() == kShards);
    BOOST_TEST(relay.cuts() > 10u);
    auto observer = cluster.client();
    BOOST_TEST(statistic(*observer, "leases_granted") == kShards);
  }
}

BOOST_AUTO_TEST_CASE(a_question_that_cannot_be_is_refused_by_the_server_too) {
  Cluster cluster;
  auto peer = RawPeer::greeted(*cluster.servers[0]);
  LeaseRequest message = request(0, 5, 1);
  message.stride = 0;
  Writer payload;
  message.encode(payload);
  peer->ask(MessageKind::kLease, payload.bytes());
  BOOST_TEST(code_of(peer->answer()) == ErrorCode::kInvalidArgument);
  peer->ask(MessageKind::kLeaseStates, payload.bytes());
  BOOST_TEST(code_of(peer->answer()) == ErrorCode::kMalformed);
  Writer states;
  LeaseStates{{{"train", 0, 1, 0, {{0, 1}}, {}}}}.encode(states);
  peer->ask(MessageKind::kRestoreLeases, states.bytes());
  BOOST_TEST(code_of(peer->answer()) == ErrorCode::kInvalidArgument);
}

BOOST_AUTO_TEST_SUITE_END()
