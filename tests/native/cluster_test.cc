// Servers and clients together.
#include "cluster.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "memory_stream.h"
#include "message_samples.h"
#include "relay.h"
#include "table/dense_table.h"
#include "table/sparse_table.h"

using namespace flota;
using namespace flota::testing;

namespace {

constexpr Transport kTransports[] = {Transport::kTcp, Transport::kUnix, Transport::kSharedMemory, Transport::kAuto};

const char* name_of(Transport transport) {
  constexpr const char* kNames[] = {"", "auto", "TCP", "Unix socket", "shared memory"};
  return kNames[static_cast<size_t>(transport)];
}

// Keys in no order, some of them twice.
std::vector<Key> some_keys(size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Key> keys(count);
  for (Key& key : keys) key = random() % (2 * count) * 0x9e3779b97f4a7c15u;
  return keys;
}

std::vector<float> some_values(size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(static_cast<int64_t>(random() % 2001) - 1000) / 512;
  return values;
}

std::vector<float> pulled(Client& client, const RemoteTable& table, std::span<const Key> keys) {
  std::vector<float> out(keys.size() * table.spec.dim);
  value_of(client.pull(table, keys, out, true, kTime));
  return out;
}

std::vector<float> pulled(Client& client, const RemoteTable& table) {
  std::vector<float> out(table.spec.size);
  value_of(client.pull_dense(table, out, kTime));
  return out;
}

// As a client gives it: the blocks are the client's to cut.
TableSpec uncut(uint64_t size, RuleKind rule = RuleKind::kSgd) {
  TableSpec spec = dense_spec(size, rule);
  spec.blocks.clear();
  return spec;
}

TableSpec zeros(uint32_t dim) {
  TableSpec spec = sparse_spec(dim);
  spec.init = {InitKind::kConstant, 0};
  return spec;
}

// A table's rows: weights, state and counters by key.
using Contents = std::map<Key, std::vector<uint64_t>>;

Contents exported(Client& client, const RemoteTable& table) {
  Contents contents;
  std::vector<std::byte> buffer;
  for (uint32_t shard = 0; shard < kShards; ++shard) {
    uint64_t cursor = 0;
    for (bool done = false; !done;) {
      const Rows rows = value_of(client.export_rows(table, shard, cursor, 100, buffer, kTime));
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

// Some steps of training through any number of servers; what the tables hold in the end.
struct Trained {
  Contents sparse;
  std::vector<uint32_t> dense;
};

Trained train(ClientOptions options) {
  options.max_payload = size_t{1} << 20;  // several frames a call
  auto client = value_of(Client::connect(options, kTime));
  const auto rows = value_of(client->create_sparse(sparse_spec(6, RuleKind::kAdam), kTime));
  Slicing slicing;
  slicing.min_block = 64;
  const auto weights = value_of(client->create_dense(uncut(1003, RuleKind::kAdagrad), slicing, kTime));
  for (uint64_t step = 1; step <= 4; ++step) {
    const auto keys = some_keys(2'000, step);
    static_cast<void>(pulled(*client, rows, keys));
    const PushOptions push{PushKind::kGradient, 0.1f, 0.5f, step};
    value_of(client->push(rows, keys, some_values(keys.size() * 6, step), push, kTime));
    value_of(client->push_dense(weights, some_values(1003, step), push, kTime));
  }
  return {exported(*client, rows), bits_of(pulled(*client, weights))};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cluster, *boost::unit_test::timeout(300))

// --- what is pulled is what was pushed ---

BOOST_AUTO_TEST_CASE(every_transport_carries_the_same_rows) {
  const auto keys = some_keys(3'000, 1);
  const auto gradients = some_values(keys.size() * 5, 2);
  // The same in one process, one value a key.
  SparseTable expected(sparse_spec(5));
  {
    std::map<Key, std::vector<float>> sums;
    for (size_t i = 0; i < keys.size(); ++i) {
      auto& sum = sums[keys[i]];
      sum.resize(5);
      for (size_t j = 0; j < 5; ++j) sum[j] += gradients[i * 5 + j];
    }
    for (const auto& [key, sum] : sums) {
      expected.push(PushKind::kGradient, {0.25f, 1, 1}, std::span(&key, 1), sum.data());
    }
  }
  std::vector<float> rows(keys.size() * 5);
  expected.pull(keys, rows, Missing::kCreate);
  for (Transport transport : kTransports) {
    BOOST_TEST_CONTEXT(name_of(transport)) {
      Cluster cluster(2);
      auto client = cluster.client(transport);
      const auto table = value_of(client->create_sparse(sparse_spec(5), kTime));
      value_of(client->push(table, keys, gradients, {PushKind::kGradient, 0.25f, 1, 1}, kTime));
      BOOST_TEST((bits_of(pulled(*client, table, keys)) == bits_of(rows)));
    }
  }
}

BOOST_AUTO_TEST_CASE(tls_carries_the_same_rows) {
  const auto& files = Certificates::get();
  ServerOptions options;
  options.tls = {files.server(), files.server_key(), files.authority(), true};
  Cluster cluster(2, options);
  ClientOptions with_tls = cluster.options(Transport::kTcp);
  with_tls.tls = {files.client(), files.client_key(), files.authority(), true};
  auto client = value_of(Client::connect(with_tls, kTime));
  const auto table = value_of(client->create_sparse(zeros(3), kTime));
  const auto keys = some_keys(5'000, 3);
  const std::vector<float> ones(keys.size() * 3, 1);
  value_of(client->push(table, keys, ones, {PushKind::kAssign, 0, 1, 1}, kTime));
  BOOST_TEST((pulled(*client, table, keys) == ones));
  // Local peers need none of it.
  auto local = cluster.client(Transport::kSharedMemory);
  BOOST_TEST((pulled(*local, table, keys) == ones));
}

BOOST_AUTO_TEST_CASE(any_number_of_servers_gives_the_same_tables_bit_for_bit) {
  std::vector<Trained> results;
  for (uint32_t servers : {1u, 2u, 5u}) {
    Cluster cluster(servers);
    results.push_back(train(cluster.options()));
  }
  BOOST_TEST(results[0].sparse.size() > 2'000u);
  for (size_t i = 1; i < results.size(); ++i) {
    BOOST_TEST((results[i].sparse == results[0].sparse));
    BOOST_TEST((results[i].dense == results[0].dense));
  }
}

BOOST_AUTO_TEST_CASE(equal_keys_of_a_push_are_summed_and_of_an_assignment_the_last_counts) {
  Cluster cluster(2);
  auto client = cluster.client();
  const auto table = value_of(client->create_sparse(zeros(2), kTime));
  const std::vector<Key> keys = {9, 4, 9, 9};
  const std::vector<float> values = {1, 2, 10, 20, 100, 200, 1000, 2000};
  value_of(client->push(table, keys, values, {PushKind::kDelta, 0, 2, 1}, kTime));
  BOOST_TEST((pulled(*client, table, std::vector<Key>{4, 9}) == std::vector<float>{20, 40, 2202, 4404}));
  value_of(client->push(table, keys, values, {PushKind::kAssign, 0, 1, 2}, kTime));
  BOOST_TEST((pulled(*client, table, std::vector<Key>{4, 9}) == std::vector<float>{10, 20, 1000, 2000}));
  // Summed first, then applied: one update.
  BOOST_TEST(exported(*client, table).at(9)[0] == 1u);
}

BOOST_AUTO_TEST_CASE(an_empty_list_of_keys_is_legal) {
  Cluster cluster;
  auto client = cluster.client();
  const auto table = value_of(client->create_sparse(zeros(2), kTime));
  value_of(client->pull(table, {}, {}, true, kTime));
  value_of(client->push(table, {}, {}, {}, kTime));
}

BOOST_AUTO_TEST_CASE(a_pull_may_leave_missing_rows_missing) {
  for (Storage storage : kStorages) {
    Cluster cluster(2);
    auto client = cluster.client();
    const auto table = value_of(client->create_sparse(sparse_spec(4, RuleKind::kSgd, storage), kTime));
    const auto keys = some_keys(100, 4);
    std::vector<float> initial(keys.size() * 4);
    value_of(client->pull(table, keys, initial, false, kTime));
    BOOST_TEST(statistic(*client, "rows", "rows") == 0u);
    BOOST_TEST((bits_of(pulled(*client, table, keys)) == bits_of(initial)));
  }
}

BOOST_AUTO_TEST_CASE(calls_larger_than_a_frame_are_cut) {
  ServerOptions options;
  options.max_payload = 64 << 10;
  Cluster cluster(2, options);
  ClientOptions small = cluster.options();
  small.max_payload = 64 << 10;
  auto client = value_of(Client::connect(small, kTime));
  const auto table = value_of(client->create_sparse(zeros(33), kTime));
  const auto keys = some_keys(4'000, 5);
  const auto values = some_values(keys.size() * 33, 6);
  value_of(client->push(table, keys, values, {PushKind::kAssign, 0, 1, 1}, kTime));
  std::map<Key, size_t> last;
  for (size_t i = 0; i < keys.size(); ++i) last[keys[i]] = i;
  const auto rows = pulled(*client, table, keys);
  size_t wrong = 0;
  for (size_t i = 0; i < keys.size(); ++i) {
    wrong += !std::equal(rows.begin() + static_cast<long>(i * 33), rows.begin() + static_cast<long>(i * 33 + 33),
                         values.begin() + static_cast<long>(last[keys[i]] * 33));
  }
  BOOST_TEST(wrong == 0u);
}

BOOST_AUTO_TEST_CASE(rows_longer_than_a_chunk_travel) {
  for (Transport transport : kTransports) {
    Cluster cluster;
    auto client = cluster.client(transport);
    const auto table = value_of(client->create_sparse(zeros(kMaxDim), kTime));
    const std::vector<Key> keys = {3, 1, 3, 2};
    const auto values = some_values(keys.size() * kMaxDim, 7);
    value_of(client->push(table, keys, values, {PushKind::kAssign, 0, 1, 1}, kTime));
    const auto rows = pulled(*client, table, std::vector<Key>{1, 2, 3});
    BOOST_TEST(std::equal(rows.begin(), rows.begin() + kMaxDim, values.begin() + kMaxDim));
    BOOST_TEST(
        std::equal(rows.begin() + 2 * kMaxDim, rows.end(), values.begin() + 2 * kMaxDim, values.begin() + 3 * kMaxDim));
  }
}

BOOST_AUTO_TEST_CASE(a_table_moves_to_another_number_of_servers) {
  Cluster from(2);
  Cluster to(3);
  auto source = from.client();
  auto target = to.client();
  const TableSpec spec = sparse_spec(4, RuleKind::kAdagrad);
  const auto table = value_of(source->create_sparse(spec, kTime));
  const auto copy = value_of(target->create_sparse(spec, kTime));
  const auto keys = some_keys(1'000, 8);
  value_of(source->push(table, keys, some_values(keys.size() * 4, 9), {PushKind::kGradient, 0.1f, 1, 77}, kTime));
  std::vector<std::byte> buffer;
  for (uint32_t shard = 0; shard < kShards; ++shard) {
    const Rows rows = value_of(source->export_rows(table, shard, 0, 16'384, buffer, kTime));
    BOOST_TEST_REQUIRE(rows.done);
    value_of(target->import_rows(copy, rows, kTime));
  }
  BOOST_TEST((exported(*target, copy) == exported(*source, table)));
}

BOOST_AUTO_TEST_CASE(a_dense_block_is_exported_and_imported) {
  Cluster cluster(2);
  auto client = cluster.client();
  Slicing slicing;
  slicing.min_block = 16;
  const auto table = value_of(client->create_dense(uncut(101, RuleKind::kAdam), slicing, kTime));
  BOOST_TEST_REQUIRE(table.spec.blocks.size() == 2u);
  value_of(client->push_dense(table, some_values(101, 10), {PushKind::kGradient, 0.1f, 1, 1}, kTime));
  const auto before = bits_of(pulled(*client, table));
  std::vector<std::byte> buffers[2];
  Rows blocks[2];
  for (uint32_t id : {0u, 1u}) blocks[id] = value_of(client->export_rows(table, id, 0, 1, buffers[id], kTime));
  value_of(client->push_dense(table, some_values(101, 11), {PushKind::kGradient, 0.1f, 1, 2}, kTime));
  BOOST_TEST((bits_of(pulled(*client, table)) != before));
  for (uint32_t id : {0u, 1u}) value_of(client->import_rows(table, blocks[id], kTime));
  BOOST_TEST((bits_of(pulled(*client, table)) == before));
}

BOOST_AUTO_TEST_CASE(background_calls_keep_their_order) {
  Cluster cluster(2);
  auto client = cluster.client();
  const auto table = value_of(client->create_sparse(zeros(1), kTime));
  const std::vector<Key> keys = {1, 2, 3};
  std::vector<std::vector<float>> values;
  for (int i = 0; i < 50; ++i) values.push_back(std::vector<float>(3, static_cast<float>(i)));
  std::vector<std::shared_ptr<Pending>> pending;
  for (int i = 0; i < 49; ++i) {
    pending.push_back(
        client->push_async(table, keys, values[static_cast<size_t>(i)], {PushKind::kAssign, 0, 1, 1}, kTime, nullptr));
  }
  // A blocking push waits for those before it.
  value_of(client->push(table, keys, values[49], {PushKind::kAssign, 0, 1, 1}, kTime));
  for (auto& call : pending) BOOST_TEST(call->done());
  BOOST_TEST((pulled(*client, table, keys) == values[49]));
  std::vector<float> out(3);
  auto ahead = client->pull_async(table, keys, out, true, kTime, nullptr);
  value_of(ahead->wait(patience()));
  BOOST_TEST((out == values[49]));
}

BOOST_AUTO_TEST_CASE(closing_a_client_finishes_what_was_started) {
  Cluster cluster;
  auto client = cluster.client();
  const auto table = value_of(client->create_sparse(zeros(1), kTime));
  const Key key = 5;
  const float one = 1;
  std::vector<std::shared_ptr<Pending>> pending;
  for (int i = 0; i < 20; ++i) {
    pending.push_back(
        client->push_async(table, std::span(&key, 1), std::span(&one, 1), {PushKind::kDelta, 0, 1, 1}, kTime, nullptr));
  }
  client->close();
  for (auto& call : pending) value_of(call->wait(patience()));
  BOOST_TEST(code_of(client->push(table, std::span(&key, 1), std::span(&one, 1), {}, kTime)) == ErrorCode::kCancelled);
  BOOST_TEST(code_of(client->statistics(kTime)) == ErrorCode::kCancelled);
  auto late = client->push_async(table, std::span(&key, 1), std::span(&one, 1), {}, kTime, nullptr);
  BOOST_TEST(code_of(late->wait(patience())) == ErrorCode::kCancelled);
  auto other = cluster.client();
  BOOST_TEST((pulled(*other, table, std::span(&key, 1)) == std::vector<float>{20}));
}

// --- many at once ---

BOOST_AUTO_TEST_CASE(concurrent_clients_lose_nothing_and_see_whole_rows) {
  constexpr size_t kClients = 4, kRounds = 25;
  constexpr uint32_t kDim = 9;
  Cluster cluster(2);
  auto observer = cluster.client();
  const auto table = value_of(observer->create_sparse(zeros(kDim), kTime));
  std::vector<Key> keys(300);
  for (size_t i = 0; i < keys.size(); ++i) keys[i] = i * 77;
  std::atomic<size_t> torn{0};
  std::atomic<size_t> errors{0};
  std::vector<std::unique_ptr<Client>> clients;
  for (size_t i = 0; i < kClients; ++i) clients.push_back(cluster.client(kTransports[i]));
  in_threads(kClients, [&](size_t i) {
    const std::vector<float> ones(keys.size() * kDim, 1);
    std::vector<float> rows(ones.size());
    for (size_t round = 0; round < kRounds; ++round) {
      errors += !clients[i]->push(table, keys, ones, {PushKind::kDelta, 0, 1, round}, kTime).has_value();
      errors += !clients[i]->pull(table, keys, rows, true, kTime).has_value();
      for (size_t k = 0; k < keys.size(); ++k) {
        torn += !std::all_of(&rows[k * kDim], &rows[k * kDim] + kDim, [&](float x) { return x == rows[k * kDim]; });
      }
    }
  });
  BOOST_TEST(errors.load() == 0u);
  BOOST_TEST(torn.load() == 0u);
  const auto rows = pulled(*observer, table, keys);
  BOOST_TEST(std::all_of(rows.begin(), rows.end(), [](float x) { return x == float{kClients * kRounds}; }));
}

BOOST_AUTO_TEST_CASE(one_client_serves_several_threads) {
  Cluster cluster(2);
  auto client = cluster.client();
  const auto table = value_of(client->create_sparse(zeros(2), kTime));
  std::atomic<size_t> errors{0};
  in_threads(4, [&](size_t thread) {
    const std::vector<Key> keys = {1, 2, 100 + thread};
    const std::vector<float> ones(6, 1);
    std::vector<float> rows(6);
    for (int round = 0; round < 40; ++round) {
      errors += !client->push(table, keys, ones, {PushKind::kDelta, 0, 1, 1}, kTime).has_value();
      errors += !client->pull(table, keys, rows, true, kTime).has_value();
    }
  });
  BOOST_TEST(errors.load() == 0u);
  BOOST_TEST((pulled(*client, table, std::vector<Key>{1, 2, 100, 103}) ==
              std::vector<float>{160, 160, 160, 160, 40, 40, 40, 40}));
}

BOOST_AUTO_TEST_CASE(clients_meet_at_a_barrier) {
  Cluster cluster(2);
  constexpr uint32_t kWorld = 3;
  std::vector<std::unique_ptr<Client>> clients;
  for (uint32_t i = 0; i < kWorld; ++i) clients.push_back(cluster.client());
  std::atomic<size_t> errors{0};
  std::atomic<size_t> early{0};
  std::atomic<size_t> arrived{0};
  in_threads(kWorld, [&](size_t rank) {
    for (uint64_t round = 0; round < 20; ++round) {
      ++arrived;
      errors += !clients[rank]->barrier("step", round, static_cast<uint32_t>(rank), kWorld, kTime).has_value();
      early += arrived.load() < kWorld * (round + 1);
    }
  });
  BOOST_TEST(errors.load() == 0u);
  BOOST_TEST(early.load() == 0u);
}

BOOST_AUTO_TEST_CASE(a_barrier_that_not_everybody_reaches_names_the_missing) {
  Cluster cluster;
  auto client = cluster.client();
  auto status = client->barrier("epoch", 3, 1, 3, milliseconds(200));
  BOOST_TEST(code_of(status) == ErrorCode::kDeadline);
  BOOST_TEST(contains(message_of(status), "workers 0, 2 of 3"));
  BOOST_TEST(contains(message_of(status), "deadline 0.2 s"));
  BOOST_TEST(contains(message_of(status), cluster.endpoints[0]));
}

// --- exactly once ---

BOOST_AUTO_TEST_CASE(pushes_are_applied_exactly_once_however_often_connections_are_cut) {
  for (uint64_t seed : {1, 2, 3}) {
    Cluster cluster(2);
    std::vector<std::unique_ptr<Relay>> relays;
    ClientOptions options = cluster.options(Transport::kTcp);
    for (uint32_t i = 0; i < 2; ++i) {
      relays.push_back(std::make_unique<Relay>(cluster.servers[i]->port(), seed * 10 + i, 100, 12'000));
      options.endpoints[i] = relays[i]->endpoint();
    }
    auto client = value_of(Client::connect(options, kTime));
    const auto table = value_of(client->create_sparse(zeros(3), kTime));
    std::vector<Key> keys(60);
    for (size_t i = 0; i < keys.size(); ++i) keys[i] = i;
    const std::vector<float> ones(keys.size() * 3, 1);
    constexpr int kPushes = 80;
    for (int i = 0; i < kPushes; ++i) {
      value_of(client->push(table, keys, ones, {PushKind::kDelta, 0, 1, 1}, kTime));
      // A pull in between: replies that break off are asked for again.
      const auto rows = pulled(*client, table, keys);
      BOOST_TEST_REQUIRE(
          std::all_of(rows.begin(), rows.end(), [&](float x) { return x == static_cast<float>(i + 1); }));
    }
    BOOST_TEST(relays[0]->cuts() + relays[1]->cuts() > 20u);
    auto observer = cluster.client();
    for (const auto& [key, row] : exported(*observer, table)) BOOST_TEST_REQUIRE(row[0] == uint64_t{kPushes});
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

// --- what bad input gets ---

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
  BOOST_TEST(reaches(*good, "refused_handshakes", 2));
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
  BOOST_TEST(reaches(*good, "refused_handshakes", 1));
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
  BOOST_TEST(reaches(*good, "refused_handshakes", 1));
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

  BOOST_TEST(reaches(*good, "malformed_frames", 3));
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

// --- limits, ends and beginnings ---

BOOST_AUTO_TEST_CASE(connections_over_the_limit_are_refused_until_others_end) {
  ServerOptions options;
  options.max_connections = 2;
  Cluster cluster(1, options);
  auto one = cluster.client(Transport::kTcp);
  auto two = cluster.client(Transport::kTcp);
  ClientOptions third = cluster.options(Transport::kTcp);
  auto refused = Client::connect(third, milliseconds(200));
  BOOST_TEST((code_of(refused) == ErrorCode::kUnavailable || code_of(refused) == ErrorCode::kDeadline));
  BOOST_TEST(contains(message_of(refused), "server 0 (" + cluster.endpoints[0] + ")"));
  BOOST_TEST(statistic(*one, "refused_connections") > 0u);
  BOOST_TEST(statistic(*one, "connections_open") == 2u);
  two.reset();
  static_cast<void>(value_of(Client::connect(third, kTime)));
}

BOOST_AUTO_TEST_CASE(the_end_of_a_connection_makes_room_at_once) {
  ServerOptions options;
  options.max_connections = 2;
  Cluster cluster(1, options);
  auto keeper = cluster.client(Transport::kTcp);
  for (int i = 0; i < 5; ++i) {
    auto passer = cluster.client(Transport::kTcp);
    passer.reset();
    BOOST_TEST(reaches(*keeper, "connections_open", 1));
  }
  BOOST_TEST(statistic(*keeper, "refused_connections") == 0u);
}

BOOST_AUTO_TEST_CASE(a_client_that_waits_is_told_when_its_server_stops) {
  Cluster cluster;
  auto client = cluster.client();
  auto waiting = cluster.client();
  Result<void> status;
  std::thread thread([&] { status = waiting->barrier("b", 0, 0, 2, milliseconds(1500)); });
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
  const auto keys = some_keys(100, 13);
  const std::set<Key> distinct(keys.begin(), keys.end());
  static_cast<void>(pulled(*client, table, keys));
  value_of(client->push(table, keys, std::vector<float>(200), {}, kTime));
  BOOST_TEST(statistic(*client, "rows", "rows") == distinct.size());
  BOOST_TEST(statistic(*client, "rows_pulled", "rows") == distinct.size());
  BOOST_TEST(statistic(*client, "rows_pushed", "rows") == distinct.size());
  BOOST_TEST(statistic(*client, "pulls", "rows") == 2u);  // one a server
  BOOST_TEST(statistic(*client, "workers_seen") == 2u);
  BOOST_TEST(statistic(*client, "errors") == 0u);
  BOOST_TEST(statistic(*client, "bytes", "rows") > 0u);
}

BOOST_AUTO_TEST_SUITE_END()
