// Limits, ends and beginnings of servers and clients.
#include <set>
#include <string>
#include <vector>

#include "cluster.h"

using namespace flota;
using namespace flota::testing;

BOOST_AUTO_TEST_SUITE(cluster_life, *boost::unit_test::timeout(300))

BOOST_AUTO_TEST_CASE(connections_over_the_limit_are_refused_until_others_end) {
  ServerOptions options;
  options.max_connections = 2;
  Cluster cluster(1, options);
  auto one = cluster.client(Transport::kTcp);
  auto two = cluster.client(Transport::kTcp);
  ClientOptions third = cluster.options(Transport::kTcp);
  auto refused = Client::connect(third, milliseconds(200));
  BOOST_TEST(code_of(refused) == ErrorCode::kBusy);
  BOOST_TEST(contains(message_of(refused), "no room"));
  BOOST_TEST(contains(message_of(refused), "server 0 (" + cluster.endpoints[0] + ")"));
  BOOST_TEST(statistic(*one, "refused_connections") > 0u);
  BOOST_TEST(statistic(*one, "connections_open") == 2u);
  two.reset();
  static_cast<void>(value_of(Client::connect(third, kTime)));
}

BOOST_AUTO_TEST_CASE(a_full_server_is_waited_for_until_there_is_room) {
  const auto& files = Certificates::get();
  for (bool tls : {false, true}) {
    BOOST_TEST_CONTEXT((tls ? "with TLS" : "without TLS")) {
      ServerOptions options;
      options.max_connections = 1;
      if (tls) options.tls = {files.server(), files.server_key(), "", true};
      Cluster cluster(1, options);
      ClientOptions chosen = cluster.options(Transport::kTcp);
      if (tls) chosen.tls.authority = files.authority();
      auto first = value_of(Client::connect(chosen, kTime));
      Result<std::unique_ptr<Client>> second = Error{};
      std::thread thread([&] { second = Client::connect(chosen, kTime); });
      while (statistic(*first, "refused_connections") == 0) std::this_thread::yield();
      first.reset();
      thread.join();
      BOOST_TEST(code_of(second) == kNoError, message_of(second));
    }
  }
}

BOOST_AUTO_TEST_CASE(the_end_of_a_connection_makes_room_at_once) {
  constexpr uint64_t kPassers = 20;
  ServerOptions options;
  options.max_connections = 2;
  Cluster cluster(1, options);
  auto keeper = cluster.client(Transport::kTcp);
  for (uint64_t i = 0; i < kPassers; ++i) {
    auto passer = cluster.client(Transport::kTcp);
    passer.reset();
    BOOST_TEST(becomes(*keeper, "connections_open", 1));
  }
  // The number falls a moment before the room is there, so one may come too early, but not every other one.
  BOOST_TEST(statistic(*keeper, "refused_connections") < kPassers / 2);
}

BOOST_AUTO_TEST_CASE(a_client_that_waits_is_told_when_its_server_stops) {
  Cluster cluster;
  auto client = cluster.client();
  auto waiting = cluster.client();
  Result<void> status;
  std::thread thread([&] {
    auto gathered = waiting->gather("b", 0, 2, {}, milliseconds(1500));
    if (!gathered) status = gathered.error();
  });
  // Until its request is there: it is one more than our own.
  while (statistic(*client, "connections_open") < 2) std::this_thread::yield();
  cluster.servers[0]->stop();
  thread.join();
  BOOST_TEST(!status.has_value());
  BOOST_TEST(contains(message_of(status), cluster.endpoints[0]));
  BOOST_TEST(contains(message_of(status), "barrier 'b'"));
  auto later = client->statistics(milliseconds(100));
  BOOST_TEST(code_of(later) == ErrorCode::kUnavailable);
}

BOOST_AUTO_TEST_CASE(a_server_stops_soon_whatever_its_clients_do) {
  for (Transport transport : kTransports) {
    Cluster cluster;
    std::vector<std::unique_ptr<Client>> clients;
    for (int i = 0; i < 3; ++i) clients.push_back(cluster.client(transport));
    const auto start = Deadline::Clock::now();
    cluster.servers[0]->stop();
    BOOST_TEST((Deadline::Clock::now() - start < std::chrono::seconds(5)), name_of(transport));
  }
}

BOOST_AUTO_TEST_CASE(servers_end_when_a_client_asks_for_it) {
  Cluster cluster(2);
  auto client = cluster.client();
  BOOST_TEST(!cluster.servers[0]->wait(Deadline::after(milliseconds(0))));
  BOOST_TEST(code_of(client->shutdown(2, kTime)) == ErrorCode::kInvalidArgument);
  value_of(client->shutdown(1, kTime));
  BOOST_TEST(cluster.servers[1]->wait(patience()));
  BOOST_TEST(!cluster.servers[0]->wait(Deadline::after(milliseconds(0))));
  value_of(client->shutdown(-1, kTime));
  BOOST_TEST(cluster.servers[0]->wait(patience()));
}

BOOST_AUTO_TEST_CASE(a_client_finds_a_restarted_server_again) {
  Cluster cluster;
  auto client = cluster.client();
  const auto table = value_of(client->create_sparse(zeros(1), kTime));
  ServerOptions options;
  options.secret = kJobSecret;
  options.endpoint = cluster.endpoints[0];
  cluster.servers[0].reset();
  Result<RemoteTable> again = table;
  std::thread thread([&] { again = client->create_sparse(zeros(1), kTime); });  // tries until the server is back
  cluster.servers[0] = value_of(Server::start(options));
  thread.join();
  value_of(again);
  BOOST_TEST((pulled(*client, table, std::vector<Key>{1}) == std::vector<float>{0}));
}

BOOST_AUTO_TEST_CASE(a_restarted_server_that_lost_its_tables_says_so) {
  Cluster cluster;
  auto client = cluster.client();
  const auto table = value_of(client->create_sparse(zeros(1), kTime));
  ServerOptions options;
  options.secret = kJobSecret;
  options.endpoint = cluster.endpoints[0];
  cluster.servers[0].reset();
  cluster.servers[0] = value_of(Server::start(options));
  std::vector<float> out(1);
  auto lost = client->pull(table, std::vector<Key>{1}, out, true, kTime);
  BOOST_TEST(code_of(lost) == ErrorCode::kUnknownTable);
  BOOST_TEST(contains(message_of(lost), "restarted"));
}

BOOST_AUTO_TEST_CASE(a_second_stop_does_nothing) {
  Cluster cluster;
  cluster.servers[0]->stop();
  cluster.servers[0]->stop();
  BOOST_TEST(cluster.servers[0]->wait(Deadline::after(milliseconds(0))));
}

BOOST_AUTO_TEST_CASE(statistics_count_what_was_done) {
  Cluster cluster(2);
  auto client = cluster.client();
  const auto table = value_of(client->create_sparse(zeros(2), kTime));
  const uint64_t errors = statistic(*client, "errors");  // whether a table was there is asked, too
  const auto keys = some_keys(100, 13);
  const std::set<Key> distinct(keys.begin(), keys.end());
  static_cast<void>(pulled(*client, table, keys));
  value_of(client->push(table, keys, std::vector<float>(200), {}, kTime));
  BOOST_TEST(statistic(*client, "rows", "rows") == distinct.size());
  BOOST_TEST(statistic(*client, "rows_pulled", "rows") == distinct.size());
  BOOST_TEST(statistic(*client, "rows_pushed", "rows") == distinct.size());
  BOOST_TEST(statistic(*client, "pulls", "rows") == 2u);  // one a server
  BOOST_TEST(statistic(*client, "workers_seen") == 2u);
  BOOST_TEST(statistic(*client, "errors") == errors);
  BOOST_TEST(statistic(*client, "bytes", "rows") > 0u);
}

BOOST_AUTO_TEST_SUITE_END()
