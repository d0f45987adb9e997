// Sparse tables seen from outside and from many threads: export, import, and rows that are always whole.
#include <algorithm>
#include <atomic>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "sparse_rows.h"

using namespace flota;
using namespace flota::testing;

BOOST_AUTO_TEST_SUITE(sparse_sharing, *boost::unit_test::timeout(120))

// --- export and import ---

BOOST_AUTO_TEST_CASE(export_gives_every_row_once_whatever_the_page_size) {
  auto keys = random_keys(20'000, 12);
  const auto crowd = crowded_keys(300);
  keys.insert(keys.end(), crowd.begin(), crowd.end());
  SparseTable table(sparse_spec(2));
  static_cast<void>(pulled(table, keys));
  for (size_t page_rows : {1, 2, 3, 16, 100'000}) {
    std::multiset<Key> seen;
    size_t misplaced = 0;
    size_t largest = 0;
    for_each_page(table, page_rows, [&](uint32_t shard, const RowPage& page) {
      largest = std::max(largest, page.keys.size());
      for (Key key : page.keys) {
        seen.insert(key);
        misplaced += shard_of(key) != shard;
      }
    });
    BOOST_TEST_CONTEXT(page_rows << " rows a page") {
      BOOST_TEST(misplaced == 0u);
      BOOST_TEST((seen == std::multiset<Key>(keys.begin(), keys.end())));
      // Pages end where lines do, so they are a little longer at most, apart from the crowd that shares a line.
      BOOST_TEST(largest <= std::max(page_rows + 8, crowd.size() + 8));
    }
  }
}

BOOST_AUTO_TEST_CASE(an_empty_table_exports_empty_pages) {
  SparseTable table(sparse_spec(2));
  for_each_page(table, 1, [](uint32_t, const RowPage& page) {
    BOOST_TEST_REQUIRE(page.done);
    BOOST_TEST_REQUIRE(page.keys.empty());
  });
}

BOOST_AUTO_TEST_CASE(a_cursor_from_anywhere_is_harmless) {
  SparseTable table(sparse_spec(1));
  const auto keys = random_keys(2'000, 13);
  static_cast<void>(pulled(table, keys));
  std::mt19937_64 random(14);
  for (int i = 0; i < 2'000; ++i) {
    const uint32_t shard = static_cast<uint32_t>(random() % kShards);
    const uint64_t cursor = i % 7 == 0 ? ~uint64_t{0} : random();
    RowPage page = table.export_shard(shard, cursor, 5);
    for (Key key : page.keys) BOOST_TEST_REQUIRE(shard_of(key) == shard);
  }
}

BOOST_AUTO_TEST_CASE(rows_that_stay_are_exported_once_while_others_come) {
  const auto old_keys = random_keys(3'000, 15);
  SparseTable table(sparse_spec(1));
  static_cast<void>(pulled(table, old_keys));
  std::atomic<bool> exporting{true};
  std::atomic<size_t> rounds{0};
  std::map<Key, size_t> seen;
  std::thread inserter([&] {
    std::mt19937_64 random(16);
    std::vector<float> out(64);
    while (exporting.load()) {
      std::vector<Key> keys;
      for (int i = 0; i < 64; ++i) keys.push_back(random());
      table.pull(keys, out, Missing::kCreate);
      rounds.fetch_add(1);
    }
  });
  while (rounds.load() == 0) std::this_thread::yield();
  size_t pages = 0;
  for_each_page(table, 2, [&](uint32_t, const RowPage& page) {
    ++pages;
    for (Key key : page.keys) ++seen[key];
  });
  exporting.store(false);
  inserter.join();
  size_t wrong = 0;
  for (Key key : old_keys) wrong += seen[key] != 1;
  BOOST_TEST(wrong == 0u);
  size_t twice = 0;
  for (const auto& [key, times] : seen) twice += times > 1;
  BOOST_TEST(twice == 0u);
  BOOST_TEST(pages > kShards);
}

BOOST_AUTO_TEST_CASE(import_of_an_export_gives_the_same_table_bit_for_bit) {
  const auto keys = random_keys(2'000, 17);
  for (Storage storage : kStorages) {
    for (RuleKind rule : {RuleKind::kSgd, RuleKind::kAdam, RuleKind::kFtrl}) {
      BOOST_TEST_CONTEXT(to_string(storage) << ", " << to_string(rule)) {
        auto table = trained(rule, storage, keys);
        SparseTable copy(sparse_spec(5, rule, storage));
        for_each_page(*table, 50, [&](uint32_t, const RowPage& page) { copy.import_rows(page); });
        BOOST_TEST(copy.rows() == table->rows());
        BOOST_TEST((exported(copy) == exported(*table)));
        // And goes on in the same way.
        const auto gradients = random_rows(keys.size() * 5, 18);
        table->push(PushKind::kGradient, {0.1f, 1, 9}, keys, gradients.data());
        copy.push(PushKind::kGradient, {0.1f, 1, 9}, keys, gradients.data());
        BOOST_TEST((exported(copy) == exported(*table)));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(import_overwrites_rows_that_are_there) {
  const auto keys = random_keys(300, 19);
  auto table = trained(RuleKind::kAdagrad, Storage::kFloat32, keys);
  const auto saved = exported(*table);
  std::vector<RowPage> pages;
  for_each_page(*table, 50, [&](uint32_t, const RowPage& page) { pages.push_back(page); });
  table->push(PushKind::kGradient, {0.1f, 1, 9}, keys, random_rows(keys.size() * 5, 20).data());
  BOOST_TEST((exported(*table) != saved));
  for (const RowPage& page : pages) table->import_rows(page);
  BOOST_TEST((exported(*table) == saved));
}

// --- many threads ---

// Adding 1 to a float is exact up to 2^24: the sum shows every push, and equal elements show a whole row.
BOOST_AUTO_TEST_CASE(no_update_is_lost_and_no_row_is_seen_half_updated) {
  constexpr size_t kPushers = 3, kRounds = 150, kHot = 200;
  constexpr uint32_t kDim = 13;
  const auto hot = random_keys(kHot, 21);
  for (Storage storage : {Storage::kFloat32, Storage::kFloat16}) {
    TableSpec spec = sparse_spec(kDim, RuleKind::kSgd, storage);
    spec.init = {InitKind::kConstant, 0};
    SparseTable table(spec);
    std::atomic<size_t> pushing{kPushers};
    std::atomic<size_t> torn{0};
    std::atomic<size_t> looked{0};
    in_threads(kPushers + 3, [&](size_t thread) {
      std::mt19937_64 random(thread);
      auto keys = hot;
      if (thread < kPushers) {
        const std::vector<float> gradients(keys.size() * kDim, -1);
        for (size_t round = 0; round < kRounds; ++round) {
          std::shuffle(keys.begin(), keys.end(), random);
          table.push(PushKind::kGradient, {1, 1, round}, keys, gradients.data());
        }
        pushing.fetch_sub(1);
      } else if (thread == kPushers) {
        std::vector<float> out(keys.size() * kDim);
        do {
          table.pull(keys, out, Missing::kCreate);
          for (size_t i = 0; i < keys.size(); ++i) torn += !all_equal(std::span(out).subspan(i * kDim, kDim));
          ++looked;
        } while (pushing.load() > 0);
      } else if (thread == kPushers + 1) {
        do {
          // A row's weight is its count of updates.
          for_each_page(table, 3, [&](uint32_t, const RowPage& page) {
            for (size_t i = 0; i < page.keys.size(); ++i) {
              auto row = std::span(page.weights).subspan(i * kDim, kDim);
              torn += !all_equal(row) || (page.updates[i] != 0 && row[0] != static_cast<float>(page.updates[i]));
            }
          });
          ++looked;
        } while (pushing.load() > 0);
      } else {
        // Growth moves entries under the others' feet.
        std::vector<float> out(16 * kDim);
        std::vector<Key> fresh(16);
        do {
          for (Key& key : fresh) key = random();
          table.pull(fresh, out, Missing::kCreate);
        } while (pushing.load() > 0);
      }
    });
    BOOST_TEST(torn.load() == 0u);
    BOOST_TEST(looked.load() > 0u);
    const auto rows = pulled(table, hot);
    const auto expected = static_cast<float>(kPushers * kRounds);
    BOOST_TEST(std::all_of(rows.begin(), rows.end(), [&](float value) { return value == expected; }));
  }
}

// What a pull leaves for later, because somebody writes there, must come into the places of its keys.
BOOST_AUTO_TEST_CASE(a_pull_beside_pushes_gives_each_key_its_row) {
  constexpr size_t kPushers = 2, kRounds = 300, kKeys = 3'000;
  constexpr uint32_t kDim = 2;
  SparseTable table(sparse_spec(kDim, RuleKind::kSgd));
  std::vector<Key> keys(kKeys);
  for (size_t i = 0; i < kKeys; ++i) keys[i] = i;
  std::vector<float> values(kKeys * kDim);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i / kDim);
  table.push(PushKind::kAssign, {1, 1, 0}, keys, values.data());
  std::atomic<size_t> pushing{kPushers};
  std::atomic<size_t> wrong{0};
  in_threads(kPushers + 2, [&](size_t thread) {
    if (thread < kPushers) {
      for (uint64_t round = 1; round <= kRounds; ++round) {
        table.push(PushKind::kAssign, {1, 1, round}, keys, values.data());
      }
      pushing.fetch_sub(1);
      return;
    }
    auto asked = keys;
    asked.insert(asked.end(), keys.begin(), keys.end());
    // By subtable, as clients send them, and in any order.
    std::shuffle(asked.begin(), asked.end(), std::mt19937_64(thread));
    if (thread == kPushers) std::ranges::sort(asked, {}, [](Key key) { return hash_key(key); });
    std::vector<float> out(asked.size() * kDim);
    do {
      std::ranges::fill(out, -1.0f);
      table.pull(asked, out, Missing::kCreate);
      for (size_t i = 0; i < out.size(); ++i) wrong += out[i] != static_cast<float>(asked[i / kDim]);
    } while (pushing.load() > 0);
  });
  BOOST_TEST(wrong.load() == 0u);
}

// Adagrad's state counts gradients of 1: weights, state and counters must be of one moment.
BOOST_AUTO_TEST_CASE(weights_state_and_counters_change_together) {
  constexpr uint32_t kDim = 8;
  TableSpec spec = sparse_spec(kDim, RuleKind::kAdagrad);
  spec.rule.initial_accumulator = 0;
  spec.init = {InitKind::kConstant, 0};
  SparseTable table(spec);
  const auto hot = random_keys(60, 22);
  std::atomic<size_t> pushing{2};
  std::atomic<size_t> torn{0};
  in_threads(3, [&](size_t thread) {
    if (thread < 2) {
      const std::vector<float> ones(hot.size() * kDim, 1);
      for (uint64_t step = 1; step <= 400; ++step) table.push(PushKind::kGradient, {0.1f, 1, step}, hot, ones.data());
      pushing.fetch_sub(1);
      return;
    }
    do {
      for_each_page(table, 5, [&](uint32_t, const RowPage& page) {
        for (size_t i = 0; i < page.keys.size(); ++i) {
          auto weights = std::span(page.weights).subspan(i * kDim, kDim);
          auto state = std::span(page.state).subspan(i * kDim, kDim);
          torn += !all_equal(weights) || !all_equal(state) || state[0] != static_cast<float>(page.updates[i]);
        }
      });
    } while (pushing.load() > 0);
  });
  BOOST_TEST(torn.load() == 0u);
  for (const auto& [key, row] : exported(table)) BOOST_TEST_REQUIRE(row.updates == 800u);
}

BOOST_AUTO_TEST_CASE(threads_that_create_the_same_rows_agree_on_them) {
  const auto keys = random_keys(4'000, 23);
  SparseTable expected(sparse_spec(4));
  const auto bits = pulled_bits(expected, keys);
  SparseTable table(sparse_spec(4));
  std::atomic<size_t> wrong{0};
  in_threads(4, [&](size_t thread) {
    auto shuffled = keys;
    std::shuffle(shuffled.begin(), shuffled.end(), std::mt19937_64(thread));
    static_cast<void>(pulled(table, shuffled));
    wrong += pulled_bits(table, keys) != bits;
  });
  BOOST_TEST(wrong.load() == 0u);
  BOOST_TEST(table.rows() == keys.size());
}

BOOST_AUTO_TEST_SUITE_END()
