// Servers and clients together: what is pulled is what was pushed.
#include "cluster.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <vector>

#include "table/sparse_table.h"

using namespace flota;
using namespace flota::testing;

namespace {

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
  value_of(client->push(table, keys, values, {PushKind::kGradient, 1, 1, 3}, kTime));
  BOOST_TEST((pulled(*client, table, std::vector<Key>{4, 9}) == std::vector<float>{0, 0, -101, -202}));
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
  std::vector<ExportFrom> shards;
  for (uint32_t shard = 0; shard < kShards; ++shard) shards.push_back({shard, 0});
  for (const auto& page : value_of(source->export_pages(table, shards, 16'384, kTime))) {
    const Rows rows = value_of(Rows::decode(page));
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
  const ExportFrom both[2] = {{0, 0}, {1, 0}};
  const auto pages = value_of(client->export_pages(table, both, 1, kTime));
  Rows blocks[2];
  for (uint32_t id : {0u, 1u}) blocks[id] = value_of(Rows::decode(pages[id]));
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
      errors += !clients[rank]->gather("step", static_cast<uint32_t>(rank), kWorld, {}, kTime).has_value();
      early += arrived.load() < kWorld * (round + 1);
    }
  });
  BOOST_TEST(errors.load() == 0u);
  BOOST_TEST(early.load() == 0u);
}

BOOST_AUTO_TEST_CASE(a_barrier_that_not_everybody_reaches_names_the_missing) {
  Cluster cluster;
  auto client = cluster.client();
  auto status = client->gather("epoch", 1, 3, {}, milliseconds(200));
  BOOST_TEST(code_of(status) == ErrorCode::kDeadline);
  BOOST_TEST(contains(message_of(status), "workers 0, 2 of 3"));
  BOOST_TEST(contains(message_of(status), "deadline 0.2 s"));
  BOOST_TEST(contains(message_of(status), cluster.endpoints[0]));
}

BOOST_AUTO_TEST_SUITE_END()
