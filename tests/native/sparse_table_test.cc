#include "table/sparse_table.h"

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "common/half.h"
#include "sparse_rows.h"

using namespace flota;
using namespace flota::testing;

BOOST_AUTO_TEST_SUITE(sparse_table, *boost::unit_test::timeout(120))

// --- first values ---

BOOST_AUTO_TEST_CASE(a_first_value_does_not_depend_on_order_company_or_batch) {
  const auto keys = random_keys(3'000, 1);
  for (Storage storage : kStorages) {
    BOOST_TEST_CONTEXT(to_string(storage)) {
      SparseTable table(sparse_spec(9, RuleKind::kAdagrad, storage));
      const auto expected = pulled_bits(table, keys);

      SparseTable backwards(sparse_spec(9, RuleKind::kAdagrad, storage));
      const std::vector<Key> reversed(keys.rbegin(), keys.rend());
      static_cast<void>(pulled(backwards, reversed));
      BOOST_TEST((pulled_bits(backwards, keys) == expected));

      SparseTable crowded(sparse_spec(9, RuleKind::kAdagrad, storage));
      static_cast<void>(pulled(crowded, random_keys(5'000, 2)));
      BOOST_TEST((pulled_bits(crowded, keys) == expected));

      SparseTable one_by_one(sparse_spec(9, RuleKind::kAdagrad, storage));
      std::vector<uint32_t> bits;
      for (Key key : keys) {
        auto row = pulled_bits(one_by_one, std::span(&key, 1));
        bits.insert(bits.end(), row.begin(), row.end());
      }
      BOOST_TEST((bits == expected));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_row_made_by_a_push_begins_with_the_same_value) {
  const auto keys = random_keys(500, 3);
  for (Storage storage : kStorages) {
    BOOST_TEST_CONTEXT(to_string(storage)) {
      SparseTable table(sparse_spec(6, RuleKind::kSgd, storage));
      const auto expected = pulled_bits(table, keys);
      SparseTable by_push(sparse_spec(6, RuleKind::kSgd, storage));
      const std::vector<float> zeros(keys.size() * 6);
      by_push.push(PushKind::kGradient, {1, 1, 1}, keys, zeros.data());
      BOOST_TEST((pulled_bits(by_push, keys) == expected));
    }
  }
}

BOOST_AUTO_TEST_CASE(other_seeds_give_other_values) {
  const auto keys = random_keys(100, 4);
  TableSpec spec = sparse_spec(4);
  SparseTable table(spec);
  spec.seed += 1;
  SparseTable other(spec);
  BOOST_TEST((pulled_bits(table, keys) != pulled_bits(other, keys)));
}

BOOST_AUTO_TEST_CASE(a_pull_that_creates_nothing_gives_what_creation_would) {
  const auto keys = random_keys(1'000, 5);
  for (Storage storage : kStorages) {
    BOOST_TEST_CONTEXT(to_string(storage)) {
      SparseTable table(sparse_spec(7, RuleKind::kAdam, storage));
      const size_t bytes = table.bytes();
      const auto initial = pulled_bits(table, keys, Missing::kInitial);
      BOOST_TEST(table.rows() == 0u);
      BOOST_TEST(table.bytes() == bytes);
      BOOST_TEST((pulled_bits(table, keys, Missing::kCreate) == initial));
      BOOST_TEST(table.rows() == keys.size());
    }
  }
}

BOOST_AUTO_TEST_CASE(a_pull_that_creates_nothing_sees_rows_that_are_there) {
  SparseTable table(sparse_spec(2));
  const std::vector<Key> keys = {1, 2, 3};
  const std::vector<float> values = {5, 6};
  table.push(PushKind::kAssign, {}, std::span(keys).subspan(1, 1), values.data());
  auto rows = pulled(table, keys, Missing::kInitial);
  BOOST_TEST(rows[2] == 5);
  BOOST_TEST(rows[3] == 6);
  BOOST_TEST(table.rows() == 1u);
}

BOOST_AUTO_TEST_CASE(an_empty_batch_does_nothing) {
  SparseTable table(sparse_spec(3));
  table.pull({}, {}, Missing::kCreate);
  table.push(PushKind::kGradient, {1, 1, 1}, {}, nullptr);
  BOOST_TEST(table.rows() == 0u);
}

BOOST_AUTO_TEST_CASE(the_storage_rounds_first_values) {
  const auto keys = random_keys(200, 6);
  SparseTable exact(sparse_spec(11));
  SparseTable half(sparse_spec(11, RuleKind::kSgd, Storage::kFloat16));
  SparseTable brain(sparse_spec(11, RuleKind::kSgd, Storage::kBFloat16));
  auto halves = pulled(exact, keys);
  auto brains = halves;
  for (float& value : halves) value = float16_to_float32(float32_to_float16(value));
  for (float& value : brains) value = bfloat16_to_float32(float32_to_bfloat16(value));
  BOOST_TEST((pulled_bits(half, keys) == bits_of(halves)));
  BOOST_TEST((pulled_bits(brain, keys) == bits_of(brains)));
}

// --- pushes ---

BOOST_AUTO_TEST_CASE(each_kind_of_push_does_what_it_says) {
  const std::vector<Key> keys = {10, 20};
  const std::vector<float> values = {1, 2, 3, 4};
  TableSpec spec = sparse_spec(2);
  spec.init = {InitKind::kConstant, 100};
  for (Storage storage : kStorages) {
    spec.storage = storage;
    SparseTable table(spec);
    table.push(PushKind::kGradient, {2, 4, 7}, keys, values.data());
    BOOST_TEST((pulled(table, keys) == std::vector<float>{92, 84, 76, 68}));
    table.push(PushKind::kDelta, {9, 0.5, 8}, keys, values.data());
    BOOST_TEST((pulled(table, keys) == std::vector<float>{92.5, 85, 77.5, 70}));
    table.push(PushKind::kAssign, {9, 3, 9}, keys, values.data());
    BOOST_TEST((pulled(table, keys) == values));
    auto rows = exported(table);
    BOOST_TEST(rows.at(10).updates == 1u);  // what a rule counts: gradients
    BOOST_TEST(rows.at(10).last_seen == 9u);
    BOOST_TEST(table.rows() == 2u);
  }
}

BOOST_AUTO_TEST_CASE(only_gradients_touch_the_state) {
  const std::vector<Key> keys = {1};
  const std::vector<float> values = {1, 2, 3};
  SparseTable table(sparse_spec(3, RuleKind::kAdam));
  static_cast<void>(pulled(table, keys));
  const auto fresh = exported(table).at(1).state;
  table.push(PushKind::kDelta, {1, 1, 1}, keys, values.data());
  table.push(PushKind::kAssign, {1, 1, 1}, keys, values.data());
  BOOST_TEST((exported(table).at(1).state == fresh));
  table.push(PushKind::kGradient, {1, 1, 1}, keys, values.data());
  BOOST_TEST((exported(table).at(1).state != fresh));
}

BOOST_AUTO_TEST_CASE(the_order_of_keys_in_a_batch_does_not_matter) {
  const auto keys = random_keys(4'000, 8);
  const auto sorted = in_order_of_subtables(keys);
  const uint32_t dim = 5;
  const auto gradients = random_rows(keys.size() * dim, 9);
  std::map<Key, size_t> place;
  for (size_t i = 0; i < keys.size(); ++i) place[keys[i]] = i;
  std::vector<float> sorted_gradients;
  for (Key key : sorted) {
    auto row = std::span(gradients).subspan(place[key] * dim, dim);
    sorted_gradients.insert(sorted_gradients.end(), row.begin(), row.end());
  }
  for (Storage storage : kStorages) {
    SparseTable table(sparse_spec(dim, RuleKind::kAdagrad, storage));
    SparseTable ordered(sparse_spec(dim, RuleKind::kAdagrad, storage));
    for (uint64_t step = 1; step <= 3; ++step) {
      table.push(PushKind::kGradient, {0.1f, 1, step}, keys, gradients.data());
      ordered.push(PushKind::kGradient, {0.1f, 1, step}, sorted, sorted_gradients.data());
    }
    BOOST_TEST((pulled_bits(table, keys) == pulled_bits(ordered, keys)));
    BOOST_TEST((exported(table) == exported(ordered)));
  }
}

BOOST_AUTO_TEST_CASE(a_key_that_stands_twice_in_a_pull_gets_its_row_twice) {
  SparseTable table(sparse_spec(3));
  auto rows = pulled(table, std::vector<Key>{5, 6, 5, 5});
  BOOST_TEST(table.rows() == 2u);
  BOOST_TEST(std::equal(rows.begin(), rows.begin() + 3, rows.begin() + 6));
  BOOST_TEST(std::equal(rows.begin(), rows.begin() + 3, rows.begin() + 9));
}

// As if the values had come one after another.
BOOST_AUTO_TEST_CASE(a_key_that_stands_twice_in_a_push_is_updated_twice) {
  const std::vector<Key> keys = {5, 5, 6, 5, 9, 6, 6, 6};
  const uint32_t dim = 3;
  const auto values = random_rows(keys.size() * dim, 10);
  for (Storage storage : kStorages) {
    for (RuleKind rule : {RuleKind::kSgd, RuleKind::kAdagrad, RuleKind::kMomentum, RuleKind::kAdam}) {
      for (PushKind kind : kPushKinds) {
        BOOST_TEST_CONTEXT(to_string(storage) << ", " << to_string(rule) << ", push kind " << static_cast<int>(kind)) {
          SparseTable together(sparse_spec(dim, rule, storage));
          together.push(kind, {0.1f, 1, 1}, keys, values.data());
          SparseTable apart(sparse_spec(dim, rule, storage));
          for (size_t i = 0; i < keys.size(); ++i) {
            apart.push(kind, {0.1f, 1, 1}, std::span(keys).subspan(i, 1), values.data() + i * dim);
          }
          BOOST_TEST((exported(together) == exported(apart)));
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_batch_that_makes_the_index_grow_updates_every_row_once) {
  // One subtable, so that one run of keys causes many moves.
  const auto keys = crowded_keys(600);
  const std::vector<float> ones(keys.size(), 1);
  TableSpec spec = sparse_spec(1);
  spec.init = {InitKind::kConstant, 0};
  SparseTable table(spec);
  for (uint64_t step = 1; step <= 2; ++step) table.push(PushKind::kGradient, {1, -1, step}, keys, ones.data());
  const auto rows = exported(table, 7);
  BOOST_TEST(rows.size() == keys.size());
  for (const auto& [key, row] : rows) {
    BOOST_TEST_REQUIRE(row.updates == 2u);
    BOOST_TEST_REQUIRE((row.weights == bits_of(std::vector<float>{2})));
  }
}

// An index that moves twice for one key can come to lie where it lay before, and its entries have moved all the same.
BOOST_AUTO_TEST_CASE(counters_stay_with_their_rows_however_the_index_moves) {
  std::mt19937_64 random(11);
  TableSpec spec = sparse_spec(1);
  spec.init = {InitKind::kConstant, 0};
  for (int round = 0; round < 60; ++round) {
    SparseTable table(spec);
    std::vector<Key> keys;
    for (uint32_t subtable = 0; subtable < kSubtables; ++subtable) {
      // A crowd at the end needs more room there, with luck just when the others need more everywhere.
      std::vector<uint64_t> positions;
      for (uint64_t i = random() % 80; i > 0; --i) positions.push_back(random() & ~uint64_t{63});
      for (uint64_t i = 20 + random() % 120; i > 0; --i) positions.push_back(~uint64_t{63} - (i << 6));
      std::shuffle(positions.begin(), positions.end(), random);
      for (uint64_t position : positions) keys.push_back(unhash_key(hash_of_position(subtable, position)));
    }
    const std::vector<float> ones(keys.size(), 1);
    table.push(PushKind::kGradient, {1, -1, 1}, keys, ones.data());
    for (const auto& [key, row] : exported(table)) BOOST_TEST_REQUIRE(row.updates == 1u);
  }
}

BOOST_AUTO_TEST_CASE(rows_of_every_length_are_kept) {
  for (uint32_t dim : {1u, 2u, 3u, 7u, 8u, 9u, 15u, 16u, 17u, 31u, 33u, 64u, 100u, 4097u, kMaxDim}) {
    for (Storage storage : kStorages) {
      SparseTable table(sparse_spec(dim, RuleKind::kSgd, storage));
      const std::vector<Key> keys = {3, 1, 2};
      std::vector<float> values(keys.size() * dim);
      for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 127);
      table.push(PushKind::kAssign, {}, keys, values.data());
      BOOST_TEST_REQUIRE((pulled(table, keys) == values), "dim " << dim << ", " << to_string(storage));
    }
  }
}

// --- memory ---

BOOST_AUTO_TEST_CASE(memory_is_counted_and_is_close_to_what_rows_need) {
  const auto keys = random_keys(200'000, 24);
  SparseTable table(sparse_spec(16, RuleKind::kAdagrad));
  const size_t empty = table.bytes();
  BOOST_TEST(empty < 100'000u);
  static_cast<void>(pulled(table, in_order_of_subtables(keys)));
  const double needed = 8 + 16 * 4 + 16 * 4 + 8;  // key, weights, state, counters
  const double a_row = static_cast<double>(table.bytes() - empty) / static_cast<double>(keys.size());
  BOOST_TEST(a_row >= needed);
  BOOST_TEST(a_row <= 1.25 * needed);
  const size_t before = table.bytes();
  static_cast<void>(pulled(table, keys));
  BOOST_TEST(table.bytes() == before);  // nothing new
}

BOOST_AUTO_TEST_SUITE_END()
