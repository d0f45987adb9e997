#include "server/barriers.h"

#include <atomic>
#include <string>
#include <vector>

#include "testing.h"

using namespace flota;
using namespace flota::testing;

namespace {

// Returns once a thread waits in the barrier: a request that disagrees with it is refused from then on.
void wait_for_somebody(Barriers& barriers, const std::string& name, uint64_t round) {
  constexpr uint32_t kNobodysWorld = 1u << 20;
  while (code_of(barriers.arrive(name, round, 0, kNobodysWorld, Deadline::after(milliseconds(0)))) !=
         ErrorCode::kInvalidArgument) {
    std::this_thread::yield();
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(barriers, *boost::unit_test::timeout(60))

BOOST_AUTO_TEST_CASE(nobody_leaves_a_round_before_everybody_came) {
  constexpr uint32_t kWorld = 5;
  constexpr uint64_t kRounds = 200;
  Barriers barriers;
  std::vector<std::atomic<uint32_t>> arrived(kRounds);
  std::atomic<size_t> early{0};
  std::atomic<size_t> errors{0};
  in_threads(kWorld, [&](size_t rank) {
    for (uint64_t round = 0; round < kRounds; ++round) {
      ++arrived[round];
      errors += !barriers.arrive("step", round, static_cast<uint32_t>(rank), kWorld, patience()).has_value();
      early += arrived[round].load() != kWorld;
    }
  });
  BOOST_TEST(early.load() == 0u);
  BOOST_TEST(errors.load() == 0u);
}

BOOST_AUTO_TEST_CASE(a_world_of_one_never_waits) {
  Barriers barriers;
  for (uint64_t round = 0; round < 5; ++round) value_of(barriers.arrive("solo", round, 0, 1, patience()));
}

BOOST_AUTO_TEST_CASE(everybody_is_given_what_each_has_brought) {
  Barriers barriers;
  constexpr uint32_t kWorld = 3;
  std::vector<Barriers::Brought> given(kWorld);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    threads.emplace_back([&, rank] {
      const std::vector<std::byte> brings(rank, static_cast<std::byte>(rank));
      given[rank] = value_of(barriers.arrive("sum", rank, rank, kWorld, patience(), brings));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& all : given) {
    BOOST_TEST_REQUIRE(all->size() == kWorld);
    for (uint32_t rank = 0; rank < kWorld; ++rank) {
      BOOST_TEST(((*all)[rank] == std::vector<std::byte>(rank, static_cast<std::byte>(rank))));
    }
  }
  // Whose answer was lost is given the same again.
  BOOST_TEST((value_of(barriers.arrive("sum", 1, 1, kWorld, patience())) == given[1]));
}

BOOST_AUTO_TEST_CASE(barriers_of_other_names_do_not_meet) {
  Barriers barriers;
  auto alone = barriers.arrive("a", 0, 0, 2, Deadline::after(milliseconds(30)));
  BOOST_TEST(code_of(alone) == ErrorCode::kDeadline);
  BOOST_TEST(code_of(barriers.arrive("b", 0, 1, 2, Deadline::after(milliseconds(30)))) == ErrorCode::kDeadline);
}

BOOST_AUTO_TEST_CASE(the_deadline_names_who_is_missing) {
  Barriers barriers;
  std::thread waiting([&] { static_cast<void>(barriers.arrive("epoch", 7, 3, 5, patience())); });
  wait_for_somebody(barriers, "epoch", 7);
  const std::string message = message_of(barriers.arrive("epoch", 7, 0, 5, Deadline::after(milliseconds(10))));
  barriers.stop();
  waiting.join();
  BOOST_TEST(contains(message, "barrier 'epoch'"));
  BOOST_TEST(contains(message, "worker 0 waited"));
  BOOST_TEST(contains(message, "workers 1, 2, 4 of 5"));
}

BOOST_AUTO_TEST_CASE(of_many_missing_some_are_named_and_the_others_counted) {
  Barriers barriers;
  auto status = barriers.arrive("epoch", 0, 0, 100, Deadline::after(milliseconds(10)));
  BOOST_TEST(contains(message_of(status), "workers 1, 2, 3, 4, 5, 6, 7, 8 and 91 more of 100"));
  auto last = barriers.arrive("pair", 0, 1, 2, Deadline::after(milliseconds(10)));
  BOOST_TEST(contains(message_of(last), "worker 0 of 2"));
}

BOOST_AUTO_TEST_CASE(who_gave_up_does_not_count_as_waiting) {
  Barriers barriers;
  BOOST_TEST(code_of(barriers.arrive("b", 0, 0, 2, Deadline::after(milliseconds(10)))) == ErrorCode::kDeadline);
  BOOST_TEST(code_of(barriers.arrive("b", 0, 1, 2, Deadline::after(milliseconds(10)))) == ErrorCode::kDeadline);
  // Both come again, and meet.
  std::atomic<size_t> errors{0};
  in_threads(2, [&](size_t rank) {
    errors += !barriers.arrive("b", 0, static_cast<uint32_t>(rank), 2, patience()).has_value();
  });
  BOOST_TEST(errors.load() == 0u);
}

// Its connection broke, it came again, and the server still knows the first request.
BOOST_AUTO_TEST_CASE(coming_twice_counts_once) {
  Barriers barriers;
  std::atomic<size_t> done{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] { done += barriers.arrive("b", 0, 0, 2, patience()).has_value(); });
  }
  // Three requests of one rank are not two ranks.
  BOOST_TEST(code_of(barriers.arrive("b", 0, 0, 2, Deadline::after(milliseconds(30)))) == ErrorCode::kDeadline);
  BOOST_TEST(done.load() == 0u);
  value_of(barriers.arrive("b", 0, 1, 2, patience()));
  for (auto& thread : threads) thread.join();
  BOOST_TEST(done.load() == 3u);
}

BOOST_AUTO_TEST_CASE(one_of_two_requests_of_a_rank_may_give_up) {
  Barriers barriers;
  std::atomic<bool> passed{false};
  std::thread patient([&] { passed = barriers.arrive("b", 0, 0, 2, patience()).has_value(); });
  BOOST_TEST(code_of(barriers.arrive("b", 0, 0, 2, Deadline::after(milliseconds(30)))) == ErrorCode::kDeadline);
  value_of(barriers.arrive("b", 0, 1, 2, patience()));
  patient.join();
  BOOST_TEST(passed.load());
}

BOOST_AUTO_TEST_CASE(who_comes_to_a_round_that_is_over_goes_on) {
  Barriers barriers;
  in_threads(2, [&](size_t rank) {
    for (uint64_t round = 0; round < 3; ++round) {
      static_cast<void>(barriers.arrive("b", round, static_cast<uint32_t>(rank), 2, patience()));
    }
  });
  // The last answer was lost on the way.
  value_of(barriers.arrive("b", 2, 0, 2, Deadline::after(milliseconds(10))));
  // Any other call has to wait for the others.
  BOOST_TEST(code_of(barriers.arrive("b", 7, 0, 2, Deadline::after(milliseconds(10)))) == ErrorCode::kDeadline);
}

BOOST_AUTO_TEST_CASE(a_new_call_of_a_rank_takes_the_old_ones_place) {
  Barriers barriers;
  Result<Barriers::Brought> old = Barriers::Brought();
  std::thread first([&] { old = barriers.arrive("b", 5, 0, 2, patience()); });
  wait_for_somebody(barriers, "b", 5);
  std::atomic<bool> passed{false};
  std::thread second([&] { passed = barriers.arrive("b", 6, 0, 2, patience()).has_value(); });
  first.join();
  BOOST_TEST(code_of(old) == ErrorCode::kInvalidArgument);
  BOOST_TEST(contains(message_of(old), "worker 0 came again"));
  value_of(barriers.arrive("b", 8, 1, 2, patience()));
  second.join();
  BOOST_TEST(passed.load());
}

BOOST_AUTO_TEST_CASE(workers_that_disagree_about_their_number_are_told_so) {
  Barriers barriers;
  std::thread first([&] { static_cast<void>(barriers.arrive("b", 0, 0, 2, patience())); });
  wait_for_somebody(barriers, "b", 0);
  auto other = barriers.arrive("b", 0, 1, 3, patience());
  BOOST_TEST(code_of(other) == ErrorCode::kInvalidArgument);
  BOOST_TEST(contains(message_of(other), "says there are 3 workers, others say 2"));
  value_of(barriers.arrive("b", 0, 1, 2, patience()));
  first.join();
}

BOOST_AUTO_TEST_CASE(the_world_may_change_between_rounds) {
  Barriers barriers;
  std::atomic<size_t> errors{0};
  uint64_t round = 0;
  for (uint32_t world : {3u, 2u, 4u}) {
    in_threads(world, [&](size_t rank) {
      errors += !barriers.arrive("b", round, static_cast<uint32_t>(rank), world, patience()).has_value();
    });
    ++round;
  }
  BOOST_TEST(errors.load() == 0u);
}

BOOST_AUTO_TEST_CASE(stop_wakes_everybody) {
  Barriers barriers;
  constexpr size_t kWaiting = 3;
  std::atomic<size_t> told{0};
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < kWaiting; ++rank) {
    threads.emplace_back([&, rank] {
      auto status = barriers.arrive("b", 0, rank, kWaiting + 1, patience());
      told += code_of(status) == ErrorCode::kShuttingDown;
    });
  }
  barriers.stop();
  for (auto& thread : threads) thread.join();
  BOOST_TEST(told.load() == kWaiting);
}

BOOST_AUTO_TEST_CASE(the_number_of_names_is_limited) {
  Barriers barriers;
  for (int i = 0; i < 65536; ++i) value_of(barriers.arrive("b" + std::to_string(i), 0, 0, 1, patience()));
  BOOST_TEST(code_of(barriers.arrive("one more", 0, 0, 1, patience())) == ErrorCode::kBusy);
  value_of(barriers.arrive("b77", 1, 0, 1, patience()));
}

BOOST_AUTO_TEST_SUITE_END()
