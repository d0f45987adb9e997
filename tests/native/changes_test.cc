#include "server/changes.h"

#include <map>
#include <random>
#include <set>

#include "cluster.h"

using namespace flota;
using namespace flota::testing;

namespace {

std::set<Key> keys_of(const Changes::Page& page) {
  std::set<Key> keys(page.keys.begin(), page.keys.end());
  BOOST_TEST(keys.size() == page.keys.size());
  return keys;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(changes)

BOOST_AUTO_TEST_CASE(a_worker_is_told_what_others_changed_and_not_what_it_did) {
  Changes changed;
  changed.note(0, std::vector<Key>{1, 2});
  changed.note(1, std::vector<Key>{2, 3});
  auto page = changed.others(0, 0, 0, 100);
  BOOST_TEST(keys_of(page) == (std::set<Key>{2, 3}));
  BOOST_TEST(keys_of(changed.others(0, page.version, page.version, 100)).empty());
  BOOST_TEST(keys_of(changed.others(1, 0, 0, 100)) == (std::set<Key>{1, 2}));
  // Somebody who asks again from where it was is told again.
  BOOST_TEST(keys_of(changed.others(0, 0, 0, 100)) == (std::set<Key>{2, 3}));
}

BOOST_AUTO_TEST_CASE(a_row_that_both_changed_is_told_to_both) {
  Changes changed;
  changed.note(0, std::vector<Key>{7});
  const uint64_t seen = changed.others(1, 0, 0, 100).version;
  changed.note(1, std::vector<Key>{7});
  changed.note(1, std::vector<Key>{7});
  BOOST_TEST(keys_of(changed.others(0, 0, 0, 100)) == (std::set<Key>{7}));
  BOOST_TEST(keys_of(changed.others(1, 0, 0, 100)) == (std::set<Key>{7}));
  BOOST_TEST(keys_of(changed.others(1, seen, seen, 100)).empty());
}

BOOST_AUTO_TEST_CASE(pages_and_a_model_agree_over_many_changes) {
  constexpr uint32_t kWorkers = 4;
  std::mt19937_64 random(3);
  Changes changed;
  std::map<uint32_t, std::set<Key>> owed;
  std::map<uint32_t, uint64_t> known;
  for (int round = 0; round < 2000; ++round) {
    const auto rank = static_cast<uint32_t>(random() % kWorkers);
    std::set<Key> keys;
    for (int i = 0; i < 20; ++i) keys.insert(random() % 300);
    changed.note(rank, std::vector<Key>(keys.begin(), keys.end()));
    for (uint32_t other = 0; other < kWorkers; ++other) {
      if (other != rank) owed[other].insert(keys.begin(), keys.end());
    }
    if (random() % 10 != 0) continue;
    const auto asks = static_cast<uint32_t>(random() % kWorkers);
    std::set<Key> told;
    uint64_t from = known[asks];
    for (bool done = false; !done;) {
      auto page = changed.others(asks, known[asks], from, 30);
      for (Key key : page.keys) told.insert(key);
      from = page.version;
      done = page.done;
    }
    known[asks] = from;
    BOOST_REQUIRE(told == owed[asks]);
    owed[asks].clear();
  }
}

BOOST_AUTO_TEST_CASE(deltas_of_a_group_are_applied_at_once_and_told_to_the_others) {
  Cluster cluster(3);
  auto first = cluster.client();
  auto second = cluster.client();
  auto table = value_of(first->create_sparse(zeros(1), kTime));
  PushOptions options{PushKind::kDelta, 0, 0.5, 1, hash_name("geo"), 0};
  std::vector<Key> keys(100);
  for (size_t i = 0; i < keys.size(); ++i) keys[i] = i;
  const std::vector<float> ones(keys.size(), 1);
  value_of(first->push(table, keys, ones, options, kTime));
  BOOST_TEST(pulled(*second, table, keys) == std::vector<float>(keys.size(), 0.5));
  std::vector<uint64_t> since(3, 0);
  auto told = value_of(second->changes(table, 1, since, kTime));
  std::sort(told.begin(), told.end());
  BOOST_TEST(told == keys);
  BOOST_TEST(value_of(second->changes(table, 1, since, kTime)).empty());
  std::vector<uint64_t> own(3, 0);
  BOOST_TEST(value_of(first->changes(table, 0, own, kTime)).empty());
  options.kind = PushKind::kAssign;
  BOOST_TEST((code_of(first->push(table, keys, ones, options, kTime)) == ErrorCode::kInvalidArgument));
  BOOST_TEST((code_of(first->changes(table, 0, std::span(own).first(2), kTime)) == ErrorCode::kInvalidArgument));
}

BOOST_AUTO_TEST_SUITE_END()
