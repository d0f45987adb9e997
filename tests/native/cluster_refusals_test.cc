// What bad input gets: a typed error that says what to do, and nobody else notices.
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "cluster.h"
#include "memory_stream.h"
#include "message_samples.h"

using namespace flota;
using namespace flota::testing;

BOOST_AUTO_TEST_SUITE(cluster_refusals, *boost::unit_test::timeout(300))

BOOST_AUTO_TEST_CASE(a_wrong_secret_is_refused_at_once_counted_and_disturbs_nobody) {
  Cluster cluster;
  auto good = cluster.client();
  for (Transport transport : {Transport::kTcp, Transport::kUnix}) {
    ClientOptions options = cluster.options(transport);
    options.secret = "quite another secret than the job's";
    const auto start = Deadline::Clock::now();
    auto bad = Client::connect(options, kTime);
    BOOST_TEST(code_of(bad) == ErrorCode::kUnauthenticated);
    BOOST_TEST(contains(message_of(bad), cluster.endpoints[0]));
    BOOST_TEST((Deadline::Clock::now() - start < kTime / 2));
  }
  BOOST_TEST(becomes(*good, "refused_handshakes", 2));
  ClientOptions options = cluster.options();
  options.secret = "short";
  BOOST_TEST(code_of(Client::connect(options, kTime)) == ErrorCode::kInvalidArgument);
}

BOOST_AUTO_TEST_CASE(whoever_begins_without_a_handshake_is_refused) {
  Cluster cluster;
  auto good = cluster.client();
  RawPeer peer(cluster.servers[0]->port());
  const std::string text = "GET / HTTP/1.1\r\nHost: server\r\nUser-Agent: curious\r\nAccept: everything\r\n\r\n";
  peer.give(std::as_bytes(std::span(text)));
  std::vector<std::byte> hello(40);
  value_of(peer.stream.read(hello, patience()));
  // It may be a reset: the server did not read all that was sent.
  BOOST_TEST(peer.ended());
  BOOST_TEST(becomes(*good, "refused_handshakes", 1));
}

BOOST_AUTO_TEST_CASE(a_silent_peer_is_sent_away_and_blocks_nobody) {
  ServerOptions options;
  options.handshake_time = milliseconds(100);
  Cluster cluster(1, options);
  RawPeer silent(cluster.servers[0]->port());
  auto good = cluster.client();
  std::vector<std::byte> hello(40);
  value_of(silent.stream.read(hello, patience()));
  BOOST_TEST(silent.ended());
  BOOST_TEST(becomes(*good, "refused_handshakes", 1));
}

BOOST_AUTO_TEST_CASE(peers_without_a_proof_make_room_for_others) {
  ServerOptions options;
  options.max_handshakes = 4;
  Cluster cluster(1, options);
  std::vector<std::unique_ptr<RawPeer>> silent;
  for (int i = 0; i < 40; ++i) silent.push_back(std::make_unique<RawPeer>(cluster.servers[0]->port()));
  auto good = cluster.client(Transport::kTcp);
  BOOST_TEST(becomes(*good, "connections_open", 1));
  BOOST_TEST(reaches(*good, "refused_connections", 36));
  BOOST_TEST(statistic(*good, "refused_handshakes") == 0);
}

BOOST_AUTO_TEST_CASE(without_tls_nobody_listens_or_connects_beyond_this_host_unless_it_is_allowed) {
  ServerOptions server;
  server.secret = kJobSecret;
  server.endpoint = "0.0.0.0:0";
  BOOST_TEST(code_of(Server::make(server)) == ErrorCode::kInvalidArgument);
  BOOST_TEST(contains(message_of(Server::make(server)), "flota certs"));
  server.insecure = true;
  BOOST_TEST(code_of(Server::make(server)) == kNoError);
  server.insecure = false;
  server.tls = {Certificates::get().server(), Certificates::get().server_key(), "", true};
  BOOST_TEST(code_of(Server::make(server)) == kNoError);
  ClientOptions client;
  client.endpoints = {"192.0.2.99:7164"};
  client.secret = kJobSecret;
  BOOST_TEST(code_of(Client::connect(client, kTime)) == ErrorCode::kInvalidArgument);
}

BOOST_AUTO_TEST_CASE(a_malformed_frame_ends_only_its_connection) {
  Cluster cluster;
  auto good = cluster.client();
  const auto table = value_of(good->create_sparse(zeros(1), kTime));
  const std::vector<Key> keys = {1, 2, 3};
  std::mt19937_64 random(12);
  auto next = RawPeer::greeted(*cluster.servers[0]);
  next->give(random_bytes(random, 64));
  BOOST_TEST(next->ended());

  // Damaged on the way: the payload does not fit its checksum.
  MessageKind kind = MessageKind::kPull;
  auto damaged = RawPeer::greeted(*cluster.servers[0]);
  {
    std::vector<std::byte> frame(kHeaderBytes);
    const auto payload = sample_pull();
    encode_header({kind, kFlagChecksum, 1, payload.size()}, std::span(frame).first<kHeaderBytes>());
    frame.insert(frame.end(), payload.begin(), payload.end());
    frame.resize(frame.size() + kTrailerBytes);
    damaged->give(frame);
  }
  BOOST_TEST(damaged->ended());

  // Beyond the limit.
  auto large = RawPeer::greeted(*cluster.servers[0]);
  std::array<std::byte, kHeaderBytes> header;
  encode_header({kind, kFlagChecksum, 1, kDefaultMaxPayload + 8}, header);
  large->give(header);
  BOOST_TEST(large->ended());

  BOOST_TEST(becomes(*good, "malformed_frames", 3));
  BOOST_TEST((pulled(*good, table, keys) == std::vector<float>(3)));
}

BOOST_AUTO_TEST_CASE(a_truncated_frame_ends_its_connection_at_the_deadline) {
  ServerOptions options;
  options.io_time = milliseconds(100);
  Cluster cluster(1, options);
  auto peer = RawPeer::greeted(*cluster.servers[0]);
  std::vector<std::byte> frame(kHeaderBytes + 100);
  encode_header({MessageKind::kPull, kFlagChecksum, 1, 1024}, std::span(frame).first<kHeaderBytes>());
  peer->give(frame);
  BOOST_TEST(peer->ended());
  static_cast<void>(cluster.client());
}

BOOST_AUTO_TEST_CASE(messages_that_make_no_sense_are_answered_and_the_connection_goes_on) {
  Cluster cluster;
  auto good = cluster.client();
  const auto sparse = value_of(good->create_sparse(zeros(2), kTime));
  const auto dense = value_of(good->create_dense(uncut(10), {}, kTime));
  auto peer = RawPeer::greeted(*cluster.servers[0]);
  auto refused = [&](MessageKind kind, std::span<const std::byte> payload) {
    peer->ask(kind, payload);
    return code_of(peer->answer());
  };
  for (const Sample& sample : all_samples()) {
    if (sample.kind == MessageKind::kReply || sample.kind == MessageKind::kError) {
      BOOST_TEST(refused(sample.kind, sample.payload) == ErrorCode::kMalformed);
      continue;
    }
    auto shorter = sample.payload;
    shorter.resize(shorter.size() - 8);
    if (sample.kind != MessageKind::kPushDense) {
      BOOST_TEST(refused(sample.kind, shorter) == ErrorCode::kMalformed, sample.name);
    }
  }
  // They are well made, but for a table that is not there.
  for (const auto& [kind, payload] : {std::pair(MessageKind::kPull, sample_pull()),
                                      {MessageKind::kPush, sample_push()},
                                      {MessageKind::kPushDense, sample_push_dense()},
                                      {MessageKind::kImport, sample_rows()},
                                      {MessageKind::kPullDense, encoded(PullDense{1, {0}})},
                                      {MessageKind::kExport, encoded(Export{1, 0, 0, 1})},
                                      {MessageKind::kDescribeTable, encoded(DescribeTable{"nobody"})}}) {
    BOOST_TEST(refused(kind, payload) == ErrorCode::kUnknownTable);
  }
  Writer wrong_dim;
  PullHead{sparse.id, 0, 3, true}.encode(wrong_dim);
  BOOST_TEST(refused(MessageKind::kPull, wrong_dim.bytes()) == ErrorCode::kInvalidArgument);
  Writer not_sparse;
  PullHead{dense.id, 0, 2, true}.encode(not_sparse);
  BOOST_TEST(refused(MessageKind::kPull, not_sparse.bytes()) == ErrorCode::kInvalidArgument);
  BOOST_TEST(refused(MessageKind::kPullDense, encoded(PullDense{sparse.id, {0}})) == ErrorCode::kInvalidArgument);
  BOOST_TEST(refused(MessageKind::kPullDense, encoded(PullDense{dense.id, {1}})) == ErrorCode::kInvalidArgument);
  BOOST_TEST(refused(MessageKind::kPullDense, encoded(PullDense{dense.id, {0, 0}})) == ErrorCode::kInvalidArgument);
  BOOST_TEST(refused(MessageKind::kExport, encoded(Export{sparse.id, 0, 1024, 1})) == ErrorCode::kInvalidArgument);
  BOOST_TEST(refused(MessageKind::kExport, encoded(Export{dense.id, 0, 9, 1})) == ErrorCode::kInvalidArgument);
  BOOST_TEST(refused(MessageKind::kImport, encoded(Rows{sparse.id, 0, true, 5, 5, {}, {}, {}, {}, {}})) ==
             ErrorCode::kInvalidArgument);
  BOOST_TEST(refused(MessageKind::kImport, encoded(Rows{dense.id, 0, true, 10, 0, {}, {}, {}, {}, {}})) ==
             ErrorCode::kInvalidArgument);
  const std::vector<std::byte> eight(8);
  BOOST_TEST(refused(MessageKind::kStatistics, eight) == ErrorCode::kMalformed);
  BOOST_TEST(refused(MessageKind::kShutdown, eight) == ErrorCode::kMalformed);
  // And still it is served.
  peer->ask(MessageKind::kStatistics, {});
  value_of(peer->answer());
  BOOST_TEST(statistic(*good, "malformed_frames") == 0u);
}

BOOST_AUTO_TEST_CASE(requests_may_follow_each_other_without_waiting) {
  Cluster cluster;
  auto client = cluster.client();
  const auto table = value_of(client->create_sparse(zeros(4), kTime));
  auto peer = RawPeer::greeted(*cluster.servers[0]);
  // Large and small ones, all on their way at once.
  std::vector<std::byte> wire;
  constexpr uint64_t kRequests = 30;
  for (uint64_t i = 0; i < kRequests; ++i) {
    std::vector<Key> keys(i % 3 == 0 ? 40'000 + i : i);
    for (size_t k = 0; k < keys.size(); ++k) keys[k] = k % 50;
    Writer payload;
    PullHead{table.id, static_cast<uint32_t>(keys.size()), 4, false}.encode(payload);
    payload.put_array(std::span<const Key>(keys));
    MemoryStream frame;
    FrameWriter writer(frame);
    value_of(writer.begin(MessageKind::kPull, i, payload.bytes().size(), patience()));
    value_of(writer.write(payload.bytes(), patience()));
    value_of(writer.end(patience()));
    wire.insert(wire.end(), frame.output().begin(), frame.output().end());
  }
  std::thread sender([&] { static_cast<void>(peer->stream.write_all(wire, patience())); });
  for (uint64_t i = 0; i < kRequests; ++i) {
    const auto rows = value_of(peer->answer(i));
    BOOST_TEST(value_of(RowsHead::decode(rows)).count == (i % 3 == 0 ? 40'000 + i : i));
  }
  sender.join();
}

BOOST_AUTO_TEST_CASE(values_that_are_not_finite_are_refused_naming_table_and_key) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  Cluster cluster(2);
  auto client = cluster.client();
  const auto table = value_of(client->create_sparse(zeros(2), kTime));
  const std::vector<Key> keys = {11, static_cast<Key>(-12), 13};
  for (float bad : {nan, infinity, -infinity}) {
    auto refused = client->push(table, keys, std::vector<float>{1, 1, 1, bad, 1, bad}, {}, kTime);
    BOOST_TEST(code_of(refused) == ErrorCode::kNonFinite);
    BOOST_TEST(contains(message_of(refused), "'rows'"));
    BOOST_TEST(contains(message_of(refused), "key -12"));
  }
  BOOST_TEST(statistic(*client, "rows", "rows") == 0u);

  // A client that does not look is refused by the server, and nothing is applied.
  auto peer = RawPeer::greeted(*cluster.servers[0]);
  PushHead head = sample_push_head(2, 2);
  head.table = table.id;
  Writer payload;
  head.encode(payload);
  payload.put_array(std::span<const Key>(keys).first(2));
  const std::vector<float> values = {1, 1, nan, 1};
  payload.put_array(std::span<const float>(values));
  peer->ask(MessageKind::kPush, payload.bytes());
  auto refused = peer->answer();
  BOOST_TEST(code_of(refused) == ErrorCode::kNonFinite);
  BOOST_TEST(contains(message_of(refused), "key -12"));
  BOOST_TEST(statistic(*client, "rows", "rows") == 0u);

  TableSpec open = zeros(2);
  open.name = "open";
  open.allow_nonfinite = true;
  const auto lenient = value_of(client->create_sparse(open, kTime));
  value_of(
      client->push(lenient, keys, std::vector<float>{1, 1, 1, nan, 1, infinity}, {PushKind::kAssign, 0, 1, 1}, kTime));
  BOOST_TEST(std::isnan(pulled(*client, lenient, keys)[3]));

  const auto dense = value_of(client->create_dense(uncut(4), {}, kTime));
  auto element = client->push_dense(dense, std::vector<float>{1, 1, nan, 1}, {}, kTime);
  BOOST_TEST(code_of(element) == ErrorCode::kNonFinite);
  BOOST_TEST(contains(message_of(element), "element 2"));
}

BOOST_AUTO_TEST_CASE(shapes_that_do_not_fit_are_refused_before_anything_is_sent) {
  Cluster cluster;
  auto client = cluster.client();
  const auto sparse = value_of(client->create_sparse(zeros(2), kTime));
  const auto dense = value_of(client->create_dense(uncut(4), {}, kTime));
  const std::vector<Key> keys = {1, 2};
  std::vector<float> three(3);
  BOOST_TEST(code_of(client->pull(sparse, keys, three, true, kTime)) == ErrorCode::kInvalidArgument);
  BOOST_TEST(code_of(client->push(sparse, keys, three, {}, kTime)) == ErrorCode::kInvalidArgument);
  BOOST_TEST(code_of(client->pull_dense(dense, three, kTime)) == ErrorCode::kInvalidArgument);
  BOOST_TEST(code_of(client->push_dense(dense, three, {}, kTime)) == ErrorCode::kInvalidArgument);
  BOOST_TEST(code_of(client->pull(dense, keys, three, true, kTime)) == ErrorCode::kInvalidArgument);
  BOOST_TEST(code_of(client->pull_dense(sparse, three, kTime)) == ErrorCode::kInvalidArgument);
}

BOOST_AUTO_TEST_CASE(a_request_larger_than_a_frame_is_refused_at_once) {
  Cluster cluster;
  ClientOptions small = cluster.options();
  small.max_payload = 64 << 10;
  auto client = value_of(Client::connect(small, kTime));
  // A parameter that must stay whole.
  const auto table = value_of(client->create_dense(uncut(100'000, RuleKind::kLamb), {}, kTime));
  std::vector<float> values(100'000);
  const auto start = Deadline::Clock::now();
  BOOST_TEST(code_of(client->push_dense(table, values, {}, kTime)) == ErrorCode::kTooLarge);
  BOOST_TEST(code_of(client->pull_dense(table, values, kTime)) == ErrorCode::kTooLarge);
  BOOST_TEST((Deadline::Clock::now() - start < kTime / 2));
}

BOOST_AUTO_TEST_CASE(a_block_that_no_frame_of_the_server_can_carry_is_refused_when_its_table_is_made) {
  ServerOptions options;
  options.max_payload = 64 << 10;
  Cluster cluster(2, options);
  auto client = cluster.client();
  auto refused = client->create_dense(uncut(100'000, RuleKind::kLamb), {}, kTime);
  BOOST_TEST(code_of(refused) == ErrorCode::kTooLarge);
  BOOST_TEST(contains(message_of(refused), "'weights'"));
  // Rows are cut to what the server takes, whatever the client would.
  const auto table = value_of(client->create_sparse(zeros(33), kTime));
  const auto keys = some_keys(2'000, 5);
  value_of(client->push(table, keys, some_values(keys.size() * 33, 6), {PushKind::kAssign, 0, 1, 1}, kTime));
}

BOOST_AUTO_TEST_CASE(a_table_that_another_client_made_otherwise_is_refused) {
  Cluster cluster(2);
  auto one = cluster.client();
  auto two = cluster.client();
  value_of(one->create_sparse(zeros(4), kTime));
  value_of(two->create_sparse(zeros(4), kTime));
  auto refused = two->create_sparse(zeros(8), kTime);
  BOOST_TEST(code_of(refused) == ErrorCode::kTableMismatch);
  BOOST_TEST(contains(message_of(refused), "dim is 4 there and 8 here"));
  const auto summary = value_of(two->describe("rows", kTime));
  BOOST_TEST(summary.table.spec.dim == 4u);
  auto unknown = two->describe("columns", kTime);
  BOOST_TEST(code_of(unknown) == ErrorCode::kUnknownTable);
  BOOST_TEST(contains(message_of(unknown), "rows"));
}

BOOST_AUTO_TEST_CASE(a_dense_table_is_described_with_all_its_blocks) {
  Cluster cluster(3);
  auto client = cluster.client();
  Slicing slicing;
  slicing.min_block = 16;
  const auto table = value_of(client->create_dense(uncut(100), slicing, kTime));
  const auto summary = value_of(client->describe("weights", kTime));
  BOOST_TEST((summary.table.spec == table.spec));
  BOOST_TEST((summary.table.block_server == table.block_server));
  BOOST_TEST(summary.rows == 100u);
}

BOOST_AUTO_TEST_CASE(servers_in_the_wrong_order_are_noticed) {
  Cluster cluster(2);
  ClientOptions options = cluster.options();
  std::swap(options.endpoints[0], options.endpoints[1]);
  auto swapped = Client::connect(options, kTime);
  BOOST_TEST(code_of(swapped) == ErrorCode::kWrongServer);
  BOOST_TEST(contains(message_of(swapped), "same order"));
  options.endpoints.resize(1);
  options.endpoints[0] = cluster.endpoints[0];
  BOOST_TEST(code_of(Client::connect(options, kTime)) == ErrorCode::kWrongServer);
}

BOOST_AUTO_TEST_CASE(a_server_that_is_not_there_is_named) {
  uint16_t port = 0;
  {
    Cluster cluster;
    port = cluster.servers[0]->port();
  }
  ClientOptions options;
  options.secret = kJobSecret;
  options.endpoints = {"127.0.0.1:" + std::to_string(port)};
  auto missing = Client::connect(options, milliseconds(200));
  BOOST_TEST(code_of(missing) == ErrorCode::kUnavailable);
  BOOST_TEST(contains(message_of(missing), "server 0 (127.0.0.1:" + std::to_string(port) + ")"));
  BOOST_TEST(contains(message_of(missing), "deadline 0.2 s"));
}

BOOST_AUTO_TEST_CASE(a_port_in_use_is_an_error_that_says_so) {
  Cluster cluster;
  ServerOptions options;
  options.secret = kJobSecret;
  options.endpoint = cluster.endpoints[0];
  auto second = Server::start(options);
  BOOST_TEST(code_of(second) == ErrorCode::kSystem);
  BOOST_TEST(contains(message_of(second), "in use"));
}

BOOST_AUTO_TEST_CASE(options_that_cannot_work_are_refused) {
  ServerOptions server;
  server.secret = "short";
  BOOST_TEST(code_of(Server::start(server)) == ErrorCode::kInvalidArgument);
  server.secret = kJobSecret;
  server.index = 2;
  server.count = 2;
  BOOST_TEST(code_of(Server::start(server)) == ErrorCode::kInvalidArgument);
  server.index = 0;
  for (const char* endpoint : {"", "nowhere", ":80", "a:b", "1.2.3.4:", "1.2.3.4:99999", "::1:80", "[::1]"}) {
    server.endpoint = endpoint;
    BOOST_TEST(code_of(Server::start(server)) == ErrorCode::kInvalidArgument, endpoint);
  }
  ClientOptions client;
  client.secret = kJobSecret;
  BOOST_TEST(code_of(Client::connect(client, kTime)) == ErrorCode::kInvalidArgument);
  client.endpoints = {"nonsense"};
  BOOST_TEST(code_of(Client::connect(client, kTime)) == ErrorCode::kInvalidArgument);
  // No row fits such a frame.
  Cluster cluster;
  client = cluster.options();
  client.max_payload = 100;
  BOOST_TEST(code_of(Client::connect(client, kTime)) == ErrorCode::kInvalidArgument);
}

BOOST_AUTO_TEST_CASE(tls_that_does_not_fit_is_refused) {
  const auto& files = Certificates::get();
  ServerOptions options;
  options.tls = {files.server(), files.server_key(), "", true};
  Cluster cluster(1, options);
  ClientOptions client = cluster.options(Transport::kTcp);
  client.tls.authority = files.stranger();
  BOOST_TEST(code_of(Client::connect(client, kTime)) == ErrorCode::kUnauthenticated);
  // Without TLS it hears nothing that it understands.
  client.tls = {};
  BOOST_TEST(!Client::connect(client, milliseconds(300)).has_value());
  Cluster plain;
  ClientOptions with_tls = plain.options(Transport::kTcp);
  with_tls.tls.authority = files.authority();
  BOOST_TEST(code_of(Client::connect(with_tls, kTime)) == ErrorCode::kUnauthenticated);
}

BOOST_AUTO_TEST_SUITE_END()
