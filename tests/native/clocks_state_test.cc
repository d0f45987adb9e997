#include "memory_journal.h"
#include "server/clocks.h"

using namespace flota;
using namespace flota::testing;

namespace {

constexpr uint32_t kWorld = 3;

Deadline now() { return Deadline::after(milliseconds(0)); }

std::string said(Clocks& clocks, const Advance& message) {
  auto slowest = clocks.advance(message, now());
  return slowest ? std::to_string(*slowest) : message_of(slowest);
}

// Mostly a step on; now and then a rest, an end, a step back or another world.
Advance any_advance(std::mt19937_64& random, std::vector<uint64_t>& steps) {
  const auto rank = static_cast<uint32_t>(random() % kWorld);
  Advance message{"train/" + std::to_string(random() % 2), steps[rank], random() % 4, rank, kWorld, 100, false, false};
  message.leave = random() % 12 == 0;
  message.rest = !message.leave && random() % 5 == 0;
  if (random() % 10 == 0) message.world = kWorld - 1 + random() % 2;
  message.rank = std::min(message.rank, message.world - 1);
  if (random() % 3 != 0) steps[rank] += random() % 3;
  return message;
}

Records some_records() {
  Clocks clocks;
  MemoryJournal journal;
  clocks.set_journal(&journal);
  for (uint32_t rank = 0; rank < kWorld; ++rank)
    said(clocks, {"a", rank + 1, 9, rank, kWorld, 100, rank == 2, rank == 1});
  Records records = saved(clocks);
  for (Record& record : journal.records) {
    // Another group than that of the snapshot.
    auto message = value_of(Advance::decode(record.bytes));
    message.group = "b";
    Writer out;
    message.encode(out);
    records.push_back({record.kind, {out.bytes().begin(), out.bytes().end()}});
  }
  return records;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(clocks_state, *boost::unit_test::timeout(60))

BOOST_AUTO_TEST_CASE(clocks_that_die_answer_as_those_that_live) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    std::mt19937_64 random(seed);
    Clocks living;
    Mortal<Clocks> mortal;
    std::vector<uint64_t> steps(kWorld, 1);
    for (int call = 0; call < 200; ++call) {
      const Advance message = any_advance(random, steps);
      BOOST_TEST(said(*mortal, message) == said(living, message));
      if (random() % 30 == 0) mortal.take_snapshot();
      if (random() % 3 == 0) mortal.restart();
      BOOST_TEST(said(*mortal, message) == said(living, message));  // comes again
    }
  }
}

BOOST_AUTO_TEST_CASE(a_snapshot_in_the_middle_of_training_is_of_one_moment) {
  Mortal<Clocks> mortal;
  std::atomic<int> errors{0};
  const auto snapshots = snapshots_during(*mortal, mortal.journal(), kWorld, [&](size_t rank) {
    for (uint64_t step = 1; step <= 300; ++step) {
      const Advance message{"train", step, 2, static_cast<uint32_t>(rank), kWorld, 100, false, false};
      errors += !mortal->advance(message, patience()).has_value();
    }
  });
  BOOST_TEST(errors == 0);
  for (const Snapshot& snapshot : snapshots) {
    Clocks clocks;
    replay_after(clocks, snapshot, mortal.journal().records);
    BOOST_TEST(said(clocks, {"train", 300, 0, 0, kWorld, 100, false, false}) == "300");
  }
}

BOOST_AUTO_TEST_CASE(only_what_is_new_is_written) {
  Mortal<Clocks> clocks;
  for (int times = 0; times < 3; ++times) said(*clocks, {"train", 4, 0, 0, kWorld, 100, false, false});
  BOOST_TEST(clocks.journal().records.size() == 1u);
  said(*clocks, {"train", 3, 0, 0, kWorld, 100, false, false});  // goes back
  said(*clocks, {"train", 5, 0, 0, 7, 100, false, false});       // another world
  BOOST_TEST(clocks.journal().records.size() == 1u);
  said(*clocks, {"train", 4, 0, 0, kWorld, 100, false, true});  // rests
  BOOST_TEST(clocks.journal().records.size() == 2u);
}

BOOST_AUTO_TEST_CASE(what_cannot_be_written_is_not_noted) {
  Mortal<Clocks> clocks;
  clocks.journal().full = true;
  BOOST_TEST(code_of(clocks->advance({"train", 9, 0, 0, 2, 100, false, false}, now())) == ErrorCode::kNoSpace);
  clocks.journal().full = false;
  // Neither the step nor the size of the group.
  BOOST_TEST(said(*clocks, {"train", 3, 3, 0, 1, 100, false, false}) == "3");
  clocks.journal().full = true;
  BOOST_TEST(said(*clocks, {"train", 3, 3, 0, 1, 100, false, false}) == "3");  // tells nothing new
  BOOST_TEST(code_of(clocks->advance({"train", 3, 0, 0, 1, 100, true, false}, now())) == ErrorCode::kNoSpace);
  clocks.journal().full = false;
  BOOST_TEST(said(*clocks, {"train", 4, 3, 0, 1, 100, false, false}) == "4");
}

BOOST_AUTO_TEST_CASE(damaged_records_are_refused) {
  const Records records = some_records();
  BOOST_TEST(records.size() == 1 + kWorld);
  BOOST_TEST(refuses_cut_records<Clocks>(records));
  std::mt19937_64 random(2);
  replay_damaged<Clocks>(records, random, [](Clocks& clocks) { said(clocks, {"a", 8, 2, 0, 3, 100, false, false}); });
}

BOOST_AUTO_TEST_SUITE_END()
