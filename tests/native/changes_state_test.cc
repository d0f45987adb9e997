#include <algorithm>

#include "memory_journal.h"
#include "server/changes.h"

using namespace flota;
using namespace flota::testing;

namespace {

constexpr uint64_t kTable = 77;

Records saved(Changes& changes) {
  MemoryJournal snapshot;
  const Freeze frozen = changes.freeze();
  value_of(changes.save(snapshot, kTable));
  return snapshot.records;
}

std::vector<Key> any_keys(std::mt19937_64& random, size_t most, uint64_t of) {
  std::vector<Key> keys(1 + random() % most);
  for (Key& key : keys) key = random() % of;
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  return keys;
}

std::vector<Key> told(const Changes& changes, uint32_t rank, uint64_t since) {
  auto keys = changes.others(rank, since, since, ~size_t{0}).keys;
  std::sort(keys.begin(), keys.end());
  return keys;
}

Records some_records() {
  Changes changes;
  changes.note(0, std::vector<Key>{1, 2, 3});
  changes.note(1, std::vector<Key>{3, 4});
  changes.note(2, std::vector<Key>{4});
  return saved(changes);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(changes_state, *boost::unit_test::timeout(60))

BOOST_AUTO_TEST_CASE(saved_changes_are_told_the_same) {
  std::mt19937_64 random(1);
  Changes living;
  auto mortal = std::make_unique<Changes>();
  for (uint64_t version = 1; version <= 400; ++version) {
    const auto rank = static_cast<uint32_t>(random() % 4);
    const auto keys = any_keys(random, 30, 300);
    living.note(rank, keys);
    mortal->note(rank, keys);
    if (version % 5 == 0) {
      auto next = std::make_unique<Changes>();
      for (const Record& record : saved(*mortal)) {
        BOOST_TEST(value_of(Changes::table_of(record.bytes)) == kTable);
        value_of(next->replay(record.kind, record.bytes));
      }
      mortal = std::move(next);
    }
    for (uint32_t asks = 0; asks < 4; ++asks) {
      const uint64_t since = random() % (version + 1);
      BOOST_TEST(told(*mortal, asks, since) == told(living, asks, since), boost::test_tools::per_element());
      BOOST_TEST(mortal->others(asks, since, since, ~size_t{0}).version == version);
    }
  }
}

// More than fits a record, by one change and by many.
BOOST_AUTO_TEST_CASE(many_keys_are_saved_in_several_records) {
  Changes living;
  std::vector<Key> keys(200'000);
  for (size_t i = 0; i < keys.size(); ++i) keys[i] = i;
  living.note(0, keys);
  for (size_t i = 0; i < keys.size(); i += 100) living.note(1, std::span(keys).subspan(i, 50));
  const Records records = saved(living);
  BOOST_TEST(records.size() == 4u);
  Changes next;
  replay_all(next, records);
  for (uint32_t rank : {0u, 1u, 2u}) {
    for (uint64_t since : {0u, 1u, 500u}) BOOST_TEST((told(next, rank, since) == told(living, rank, since)));
  }
}

BOOST_AUTO_TEST_CASE(damaged_records_are_refused) {
  const Records records = some_records();
  BOOST_TEST(refuses_cut_records<Changes>(records));
  BOOST_TEST(code_of(Changes::table_of(std::span(records[0].bytes).first(7))) == ErrorCode::kMalformed);
  std::mt19937_64 random(2);
  replay_damaged<Changes>(records, random, [](Changes& changes) {
    changes.note(1, std::vector<Key>{1, 2});
    told(changes, 0, 0);
  });
}

BOOST_AUTO_TEST_SUITE_END()
