#include "client/batch.h"

#include <set>

#include "cluster.h"

using namespace flota;
using namespace flota::testing;

BOOST_AUTO_TEST_SUITE(batch)

BOOST_AUTO_TEST_CASE(rows_of_a_batch_are_those_of_its_keys) {
  for (Transport transport : kTransports) {
    BOOST_TEST_CONTEXT(name_of(transport)) {
      Cluster cluster(3);
      auto client = cluster.client(transport);
      auto table = value_of(client->create_sparse(sparse_spec(5), kTime));
      const auto keys = some_keys(2000, 1);
      Batch batch = client->make_batch();
      std::vector<uint32_t> places(keys.size());
      batch.route(keys, places);
      BOOST_TEST(batch.keys().size() < keys.size());
      std::vector<float> rows(batch.keys().size() * 5);
      value_of(client->pull(table, batch, rows, true, kTime));
      const auto plain = pulled(*client, table, keys);
      size_t wrong = 0;
      for (size_t i = 0; i < keys.size(); ++i) {
        const size_t place = places[i];
        wrong += batch.keys()[place] != keys[i];
        wrong += !std::equal(&plain[i * 5], &plain[i * 5] + 5, &rows[place * 5]);
      }
      BOOST_TEST(wrong == 0u);
      // Their gradients go back in the same order.
      value_of(client->push(table, batch, rows, {PushKind::kAssign, 0, 1, 1}, kTime));
      for (float& value : rows) value += 1;
      value_of(client->push(table, batch, rows, {PushKind::kAssign, 0, 1, 2}, kTime));
      const auto after = pulled(*client, table, keys);
      for (size_t i = 0; i < after.size(); ++i) wrong += after[i] != plain[i] + 1;
      BOOST_TEST(wrong == 0u);
    }
  }
}

BOOST_AUTO_TEST_CASE(it_finds_which_of_its_rows_are_among_others) {
  Batch batch(ShardMap::even(3));
  std::vector<uint32_t> places(5);
  batch.route(std::vector<Key>{5, 6, 7, 5, 9}, places);
  std::set<Key> found;
  for (uint32_t place : batch.common(std::vector<Key>{9, 5, 100, 9})) found.insert(batch.keys()[place]);
  BOOST_TEST(found == (std::set<Key>{5, 9}));
  BOOST_TEST(batch.common({}).empty());
}

BOOST_AUTO_TEST_CASE(how_stale_gradients_are_is_counted) {
  Cluster cluster(1);
  auto client = cluster.client();
  auto table = value_of(client->create_sparse(zeros(1), kTime));
  const std::vector<Key> keys = {1, 2, 3};
  const std::vector<float> ones = {1, 1, 1};
  Batch batch = client->make_batch();
  std::vector<uint32_t> places(keys.size());
  batch.route(keys, places);
  std::vector<float> rows(3);
  value_of(client->pull(table, batch, rows, true, kTime));
  value_of(client->push(table, batch, ones, {}, kTime));  // fresh
  value_of(client->pull(table, batch, rows, true, kTime));
  for (int i = 0; i < 4; ++i) value_of(client->push(table, keys, ones, {}, kTime));  // tells no version
  value_of(client->push(table, batch, ones, {}, kTime));                             // four others came since
  BOOST_TEST(statistic(*client, "staleness_count", table.spec.name) == 2u);
  BOOST_TEST(statistic(*client, "staleness_sum", table.spec.name) == 4u);
  BOOST_TEST(statistic(*client, "staleness_max", table.spec.name) == 4u);
}

BOOST_AUTO_TEST_CASE(a_batch_with_a_nan_is_not_sent) {
  Cluster cluster(2);
  auto client = cluster.client();
  auto table = value_of(client->create_sparse(zeros(2), kTime));
  const std::vector<Key> keys = {10, 11};
  Batch batch = client->make_batch();
  std::vector<uint32_t> places(keys.size());
  batch.route(keys, places);
  std::vector<float> values(4, 1.0f);
  values[3] = NAN;
  auto refused = client->push(table, batch, values, {}, kTime);
  BOOST_TEST(code_of(refused) == ErrorCode::kNonFinite);
  BOOST_TEST(message_of(refused).find("key " + std::to_string(batch.keys()[1])) != std::string::npos);
  BOOST_TEST(pulled(*client, table, keys) == std::vector<float>(4, 0.0f), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(an_empty_batch_is_nothing_to_do) {
  Cluster cluster(1);
  auto client = cluster.client();
  auto table = value_of(client->create_sparse(zeros(2), kTime));
  Batch batch = client->make_batch();
  batch.route({}, {});
  value_of(client->pull(table, batch, {}, true, kTime));
  value_of(client->push(table, batch, {}, {}, kTime));
}

BOOST_AUTO_TEST_CASE(several_parameters_travel_together) {
  Cluster cluster(3);
  auto client = cluster.client();
  Slicing slicing;
  slicing.min_block = 16;
  std::vector<RemoteTable> tables;
  for (int i = 0; i < 6; ++i) {
    TableSpec spec = uncut(50 + 30 * static_cast<uint64_t>(i));
    spec.name = "weights" + std::to_string(i);
    tables.push_back(value_of(client->create_dense(spec, slicing, kTime)));
  }
  std::vector<std::vector<float>> values;
  std::vector<DensePush> pushes;
  for (size_t i = 0; i < tables.size(); ++i) values.push_back(some_values(tables[i].spec.size(), i));
  for (size_t i = 0; i < tables.size(); ++i) pushes.push_back({&tables[i], values[i], {PushKind::kAssign, 0, 1, 1}});
  value_of(client->push_dense(pushes, kTime));
  std::vector<std::vector<float>> back;
  std::vector<DensePull> pulls;
  for (const RemoteTable& table : tables) back.emplace_back(table.spec.size());
  for (size_t i = 0; i < tables.size(); ++i) pulls.push_back({&tables[i], back[i]});
  value_of(client->pull_dense(pulls, kTime));
  BOOST_TEST((back == values));
  // One that is refused does not keep the others from being answered, and the connection goes on.
  RemoteTable unknown = tables[0];
  unknown.id = 12345;
  pulls[2].table = &unknown;
  pulls[2].out = back[0];
  BOOST_TEST(code_of(client->pull_dense(pulls, kTime)) == ErrorCode::kUnknownTable);
  BOOST_TEST((pulled(*client, tables[5]) == values[5]));
}

BOOST_AUTO_TEST_SUITE_END()
