#include "memory_journal.h"
#include "server/ledger.h"

using namespace flota;
using namespace flota::testing;

namespace {

using Verdict = Ledger::Verdict;

// What the ledger says of a push; if that is to apply it, it is applied.
std::string said(Ledger& ledger, const PushId& id) {
  auto verdict = ledger.begin(id, patience());
  if (!verdict) return message_of(verdict);
  if (*verdict == Verdict::kDuplicate) return "duplicate";
  ledger.finish(id, true);
  return "apply";
}

PushId any_push(std::mt19937_64& random, uint64_t newest) {
  const uint64_t sequence = newest - std::min<uint64_t>(newest, random() % 20);
  return {random() % 3, static_cast<uint32_t>(newest / 100 - random() % 2), sequence, sequence - random() % 4};
}

Records some_records() {
  Ledger ledger;
  for (uint64_t worker : {1u, 2u}) {
    for (uint64_t sequence : {3, 5, 9}) said(ledger, {worker, 4, sequence, 2});
  }
  return saved(ledger);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(ledger_state, *boost::unit_test::timeout(60))

BOOST_AUTO_TEST_CASE(a_saved_ledger_says_the_same_of_every_push) {
  std::mt19937_64 random(1);
  Ledger living;
  auto mortal = std::make_unique<Ledger>();
  for (uint64_t newest = 400; newest < 2000; ++newest) {
    const PushId id = any_push(random, newest);
    BOOST_TEST(said(*mortal, id) == said(living, id));
    if (newest % 7 != 0) continue;
    auto next = std::make_unique<Ledger>();
    replay_all(*next, saved(*mortal));
    mortal = std::move(next);
  }
  BOOST_TEST(mortal->workers() == living.workers());
}

BOOST_AUTO_TEST_CASE(a_ledger_is_not_saved_in_the_middle_of_a_push) {
  Ledger ledger;
  value_of(ledger.begin({1, 0, 1, 0}, patience()));
  MemoryJournal snapshot;
  BOOST_TEST(code_of(ledger.save(snapshot)) == ErrorCode::kBusy);
  ledger.finish({1, 0, 1, 0}, true);
  value_of(ledger.save(snapshot));
  BOOST_TEST(snapshot.records.size() == 1u);
}

BOOST_AUTO_TEST_CASE(a_snapshot_that_cannot_be_written_says_so) {
  Ledger ledger;
  said(ledger, {1, 0, 1, 0});
  MemoryJournal snapshot;
  snapshot.full = true;
  BOOST_TEST(code_of(ledger.save(snapshot)) == ErrorCode::kNoSpace);
}

BOOST_AUTO_TEST_CASE(damaged_records_are_refused) {
  const Records records = some_records();
  BOOST_TEST(refuses_cut_records<Ledger>(records));
  Ledger twice;
  replay_all(twice, records);
  for (const Record& record : records) {
    BOOST_TEST(code_of(twice.replay(record.kind, record.bytes)) == ErrorCode::kMalformed);
  }
  BOOST_TEST(code_of(twice.replay(RecordKind::kSteps, records[0].bytes)) == ErrorCode::kMalformed);
  std::mt19937_64 random(2);
  replay_damaged<Ledger>(records, random, [](Ledger& ledger) { said(ledger, {1, 4, 9, 2}); });
}

// Its worker had given it up, and went on, while it was still being applied.
BOOST_AUTO_TEST_CASE(a_push_that_ends_below_the_floor_is_not_saved) {
  Ledger ledger;
  value_of(ledger.begin({1, 0, 10, 10}, patience()));
  value_of(ledger.begin({1, 0, 11, 11}, patience()));
  ledger.finish({1, 0, 10, 10}, true);
  ledger.finish({1, 0, 11, 11}, true);
  Ledger later;
  replay_all(later, saved(ledger));
  BOOST_TEST((value_of(later.begin({1, 0, 11, 11}, patience())) == Ledger::Verdict::kDuplicate));
}

BOOST_AUTO_TEST_SUITE_END()
