#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "table/sparse_table.h"
#include "testing.h"

// Keys and rows for the tests of sparse tables.
namespace flota::testing {

inline std::vector<Key> random_keys(size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Key> keys = {0, ~uint64_t{0}};
  while (keys.size() < count) keys.push_back(random());
  keys.resize(count);
  return keys;
}

inline std::vector<float> random_rows(size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(static_cast<int64_t>(random() % 2001) - 1000) / 256;
  return values;
}

inline std::vector<Key> in_order_of_subtables(std::vector<Key> keys) {
  std::sort(keys.begin(), keys.end(), [](Key a, Key b) { return hash_key(a) < hash_key(b); });
  return keys;
}

inline std::vector<float> pulled(SparseTable& table, std::span<const Key> keys, Missing missing = Missing::kCreate) {
  std::vector<float> out(keys.size() * table.dim());
  table.pull(keys, out, missing);
  return out;
}

inline std::vector<uint32_t> pulled_bits(SparseTable& table, std::span<const Key> keys,
                                         Missing missing = Missing::kCreate) {
  return bits_of(pulled(table, keys, missing));
}

struct Row {
  uint64_t updates;
  uint64_t last_seen;
  std::vector<uint32_t> weights;
  std::vector<uint32_t> state;

  bool operator==(const Row&) const = default;
};

// Calls use(page) for every page of every shard.
template <class Use>
void for_each_page(const SparseTable& table, size_t page_rows, Use use) {
  for (uint32_t shard = 0; shard < kShards; ++shard) {
    uint64_t cursor = 0;
    for (bool done = false; !done;) {
      RowPage page = table.export_shard(shard, cursor, page_rows);
      use(shard, page);
      done = page.done;
      cursor = page.next;
    }
  }
}

inline std::map<Key, Row> exported(const SparseTable& table, size_t page_rows = 100) {
  std::map<Key, Row> rows;
  for_each_page(table, page_rows, [&](uint32_t, const RowPage& page) {
    for (size_t i = 0; i < page.keys.size(); ++i) {
      auto weights = std::span(page.weights).subspan(i * table.dim(), table.dim());
      auto state = std::span(page.state).subspan(i * table.state_floats(), table.state_floats());
      Row row{page.updates[i], page.last_seen[i], bits_of(weights), bits_of(state)};
      BOOST_TEST_REQUIRE(rows.emplace(page.keys[i], row).second, "key " << page.keys[i] << " came twice");
    }
  });
  return rows;
}

// A table on which something happened to every row.
inline std::unique_ptr<SparseTable> trained(RuleKind rule, Storage storage, std::span<const Key> keys) {
  auto table = std::make_unique<SparseTable>(sparse_spec(5, rule, storage));
  for (uint64_t step = 1; step <= 3; ++step) {
    table->push(PushKind::kGradient, {0.1f, 1, step * 100'003}, keys, random_rows(keys.size() * 5, step).data());
  }
  return table;
}

inline bool all_equal(std::span<const float> values) {
  return std::all_of(values.begin(), values.end(), [&](float value) { return value == values[0]; });
}

// Keys that lie side by side at the end of a subtable's index.
inline std::vector<Key> crowded_keys(size_t count) {
  std::vector<Key> keys;
  for (uint64_t i = 0; i < count; ++i) keys.push_back(unhash_key(hash_of_position(3, (uint64_t{1} << 62) + (i << 6))));
  return keys;
}

}  // namespace flota::testing
