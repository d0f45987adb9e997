#include <random>
#include <thread>

#include "memory_journal.h"
#include "server/barriers.h"

using namespace flota;
using namespace flota::testing;
using std::chrono::milliseconds;

namespace {

// One worker alone: each arrival is a gathering.
Barriers::Brought arrive(Barriers& barriers, uint64_t count, const std::string& brings, uint64_t call) {
  return value_of(barriers.arrive("b", call, 0, 1, patience(), std::as_bytes(std::span(brings)), count));
}

std::string text_of(const Barriers::Brought& brought) {
  return {reinterpret_cast<const char*>((*brought)[0].data()), (*brought)[0].size()};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(barriers_state, *boost::unit_test::timeout(60))

BOOST_AUTO_TEST_CASE(a_worker_that_counts_is_given_what_was_brought_then) {
  Mortal<Barriers> barriers;
  for (uint64_t count = 0; count < 5; ++count) arrive(*barriers, count, std::to_string(count), 100 + count);
  for (int time = 0; time < 3; ++time) {
    for (uint64_t count = 0; count < 5; ++count) {
      BOOST_TEST(text_of(arrive(*barriers, count, "x", 200 + count)) == std::to_string(count));
    }
    BOOST_TEST(barriers->passed().size() == 1u);
    BOOST_TEST(barriers->passed()[0].times == 5u);
    if (time == 1) barriers.take_snapshot();
    barriers.restart();
  }
  BOOST_TEST(text_of(arrive(*barriers, 5, "new", 300)) == "new");
}

BOOST_AUTO_TEST_CASE(an_answer_that_got_lost_is_given_again_by_the_next_server) {
  Mortal<Barriers> barriers;
  arrive(*barriers, Barrier::kUncounted, "one", 7);
  barriers.restart();
  BOOST_TEST(text_of(arrive(*barriers, Barrier::kUncounted, "other", 7)) == "one");
  barriers.take_snapshot();
  barriers.restart();
  BOOST_TEST(text_of(arrive(*barriers, Barrier::kUncounted, "other", 7)) == "one");
}

BOOST_AUTO_TEST_CASE(the_newest_gatherings_are_kept) {
  Barriers barriers;
  const std::string megabytes(size_t{16} << 20, 'x');
  for (uint64_t count = 0; count < 5; ++count) arrive(barriers, count, megabytes, 100 + count);
  auto gone = barriers.arrive("b", 1, 0, 1, patience(), {}, 1);
  BOOST_TEST(code_of(gone) == ErrorCode::kInvalidArgument);
  BOOST_TEST(contains(message_of(gone), "not kept any more"));
  BOOST_TEST(text_of(arrive(barriers, 2, "", 2)).size() == megabytes.size());
  for (uint64_t count = 5; count < 5 + Barriers::kMaxKept; ++count) arrive(barriers, count, "", 100 + count);
  BOOST_TEST(code_of(barriers.arrive("b", 1, 0, 1, patience(), {}, 4)) == ErrorCode::kInvalidArgument);
  arrive(barriers, 5, "", 1);
}

BOOST_AUTO_TEST_CASE(workers_that_have_been_elsewhere_are_told) {
  Barriers barriers;
  arrive(barriers, 0, "", 1);
  std::thread waits([&] { static_cast<void>(barriers.arrive("b", 2, 0, 2, patience(), {}, 1)); });
  // From then on, one that comes with another number of workers is refused.
  while (code_of(barriers.arrive("b", 3, 1, 9, Deadline::after(milliseconds(0)), {}, 1)) !=
         ErrorCode::kInvalidArgument) {
  }
  BOOST_TEST(contains(message_of(barriers.arrive("b", 4, 1, 2, patience(), {}, 3)), "has been here 3 times"));
  barriers.stop();
  waits.join();
}

BOOST_AUTO_TEST_CASE(a_gathering_that_cannot_be_written_down_is_none) {
  Mortal<Barriers> barriers;
  barriers.journal().full = true;
  BOOST_TEST(code_of(barriers->arrive("b", 1, 0, 1, patience(), {}, 0)) == ErrorCode::kNoSpace);
  barriers.journal().full = false;
  BOOST_TEST(text_of(arrive(*barriers, 0, "now", 2)) == "now");
}

BOOST_AUTO_TEST_CASE(damaged_records_are_refused) {
  Mortal<Barriers> barriers;
  for (uint64_t count = 0; count < 3; ++count) arrive(*barriers, count, "brought", 100 + count);
  BOOST_TEST(refuses_cut_records<Barriers>(barriers.journal().records));
  std::mt19937_64 random(7);
  replay_damaged<Barriers>(
      barriers.journal().records, random,
      [](Barriers& part) { static_cast<void>(part.arrive("b", 1, 0, 1, Deadline::after(milliseconds(0)), {}, 1)); },
      500);
}

BOOST_AUTO_TEST_SUITE_END()
