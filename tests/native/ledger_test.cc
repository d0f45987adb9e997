#include "server/ledger.h"

#include <atomic>
#include <chrono>
#include <random>
#include <vector>

#include "testing.h"

using namespace flota;
using namespace flota::testing;

namespace {

using Verdict = Ledger::Verdict;

PushId push_id(uint64_t sequence, uint64_t oldest = 0, uint32_t epoch = 0, uint64_t worker = 7) {
  return {worker, epoch, sequence, oldest};
}

// Whether the ledger says to apply it; if so, it is applied.
bool applied(Ledger& ledger, const PushId& id) {
  if (value_of(ledger.begin(id, patience())) == Verdict::kDuplicate) return false;
  ledger.finish(id, true);
  return true;
}

double seconds_since(Deadline::Clock::time_point start) {
  return std::chrono::duration<double>(Deadline::Clock::now() - start).count();
}

}  // namespace

BOOST_AUTO_TEST_SUITE(ledger, *boost::unit_test::timeout(60))

BOOST_AUTO_TEST_CASE(a_push_that_comes_again_is_a_duplicate) {
  Ledger ledger;
  BOOST_TEST(applied(ledger, push_id(1)));
  for (int i = 0; i < 3; ++i) BOOST_TEST(!applied(ledger, push_id(1)));
  BOOST_TEST(ledger.duplicates() == 3u);
}

BOOST_AUTO_TEST_CASE(pushes_may_arrive_in_any_order) {
  Ledger ledger;
  for (uint64_t sequence : {5, 1, 9, 2, 8, 0}) BOOST_TEST(applied(ledger, push_id(sequence)));
  for (uint64_t sequence : {0, 1, 2, 5, 8, 9}) BOOST_TEST(!applied(ledger, push_id(sequence)));
  for (uint64_t sequence : {3, 4, 6, 7, 10}) BOOST_TEST(applied(ledger, push_id(sequence)));
}

BOOST_AUTO_TEST_CASE(every_worker_counts_for_itself) {
  Ledger ledger;
  BOOST_TEST(applied(ledger, push_id(1, 0, 0, 1)));
  BOOST_TEST(applied(ledger, push_id(1, 0, 0, 2)));
  BOOST_TEST(!applied(ledger, push_id(1, 0, 0, 1)));
  BOOST_TEST(ledger.workers() == 2u);
}

BOOST_AUTO_TEST_CASE(what_is_older_than_the_oldest_open_push_counts_as_applied) {
  Ledger ledger;
  BOOST_TEST(applied(ledger, push_id(10, 8)));
  for (uint64_t sequence = 0; sequence < 8; ++sequence) BOOST_TEST(!applied(ledger, push_id(sequence)));
  BOOST_TEST(applied(ledger, push_id(8)));
  BOOST_TEST(applied(ledger, push_id(9)));
  BOOST_TEST(!applied(ledger, push_id(10)));
  // A push that was sent before the floor rose, and says so, does not lower it.
  BOOST_TEST(!applied(ledger, push_id(3, 1)));
}

BOOST_AUTO_TEST_CASE(a_new_incarnation_begins_anew_and_ends_the_old_one) {
  Ledger ledger;
  BOOST_TEST(applied(ledger, push_id(1, 0, 4)));
  BOOST_TEST(applied(ledger, push_id(2, 0, 4)));
  BOOST_TEST(applied(ledger, push_id(1, 0, 5)));
  BOOST_TEST(!applied(ledger, push_id(1, 0, 5)));
  auto stale = ledger.begin(push_id(3, 0, 4), patience());
  BOOST_TEST(code_of(stale) == ErrorCode::kStaleEpoch);
  BOOST_TEST(contains(message_of(stale), "epoch 5"));
  BOOST_TEST(contains(message_of(stale), "epoch 4"));
}

BOOST_AUTO_TEST_CASE(a_worker_may_begin_with_any_epoch) {
  Ledger ledger;
  BOOST_TEST(applied(ledger, push_id(1, 0, UINT32_MAX)));
  BOOST_TEST(code_of(ledger.begin(push_id(1, 0, 0), patience())) == ErrorCode::kStaleEpoch);
}

BOOST_AUTO_TEST_CASE(a_push_that_failed_may_come_again) {
  Ledger ledger;
  BOOST_TEST((value_of(ledger.begin(push_id(1), patience())) == Verdict::kApply));
  ledger.finish(push_id(1), false);
  BOOST_TEST(applied(ledger, push_id(1)));
  BOOST_TEST(!applied(ledger, push_id(1)));
}

BOOST_AUTO_TEST_CASE(a_duplicate_waits_for_the_first_to_be_applied) {
  for (bool succeeds : {true, false}) {
    Ledger ledger;
    BOOST_TEST((value_of(ledger.begin(push_id(1), patience())) == Verdict::kApply));
    std::atomic<bool> finished{false};
    std::atomic<bool> early{false};
    Result<Verdict> second = Verdict::kApply;
    std::thread thread([&] {
      second = ledger.begin(push_id(1), patience());
      early.store(!finished.load());
    });
    // It cannot come back before finish(); to see that it does not, give it some time to be wrong.
    std::this_thread::sleep_for(milliseconds(20));
    finished.store(true);
    ledger.finish(push_id(1), succeeds);
    thread.join();
    BOOST_TEST(!early.load());
    BOOST_TEST((value_of(second) == (succeeds ? Verdict::kDuplicate : Verdict::kApply)));
  }
}

BOOST_AUTO_TEST_CASE(waiting_for_the_first_ends_at_the_deadline) {
  Ledger ledger;
  value_of(ledger.begin(push_id(1), patience()));
  auto late = ledger.begin(push_id(1), Deadline::after(milliseconds(40)));
  BOOST_TEST(code_of(late) == ErrorCode::kDeadline);
  ledger.finish(push_id(1), true);
  BOOST_TEST(!applied(ledger, push_id(1)));
}

BOOST_AUTO_TEST_CASE(a_waiting_duplicate_of_an_old_incarnation_is_told_at_once) {
  Ledger ledger;
  value_of(ledger.begin(push_id(1, 0, 1), patience()));
  Result<Verdict> waiting = Verdict::kApply;
  const auto start = Deadline::Clock::now();
  std::thread thread([&] { waiting = ledger.begin(push_id(1, 0, 1), Deadline::after(std::chrono::seconds(8))); });
  // Right in any order; the one where it waits already is the one to see.
  std::this_thread::sleep_for(milliseconds(20));
  {
    const auto frozen = ledger.freeze();
    value_of(ledger.rejoin(7, 2));
  }
  ledger.finish(push_id(1, 0, 1), true);
  thread.join();
  BOOST_TEST(code_of(waiting) == ErrorCode::kStaleEpoch);
  BOOST_TEST(applied(ledger, push_id(1, 0, 2)));
  BOOST_TEST(seconds_since(start) < 4);
  // What the old one finished does not count for the new one.
  BOOST_TEST(applied(ledger, push_id(2, 0, 2)));
}

BOOST_AUTO_TEST_CASE(what_an_earlier_incarnation_has_under_way_comes_first) {
  Ledger ledger;
  value_of(ledger.begin(push_id(1, 0, 1), patience()));
  BOOST_TEST(code_of(ledger.begin(push_id(1, 0, 2), Deadline::after(milliseconds(10)))) == ErrorCode::kDeadline);
  std::atomic<bool> finished{false};
  std::thread thread([&] {
    BOOST_TEST(applied(ledger, push_id(1, 0, 2)));
    BOOST_TEST(finished);
  });
  // Right in any order; the one where it waits already is the one to see.
  std::this_thread::sleep_for(milliseconds(20));
  finished = true;
  ledger.finish(push_id(1, 0, 1), true);
  thread.join();
  BOOST_TEST(code_of(ledger.begin(push_id(2, 0, 1), patience())) == ErrorCode::kStaleEpoch);
}

BOOST_AUTO_TEST_CASE(a_duplicate_that_waits_below_a_rising_floor_is_answered) {
  Ledger ledger;
  value_of(ledger.begin(push_id(1), patience()));
  Result<Verdict> waiting = Verdict::kApply;
  std::thread thread([&] { waiting = ledger.begin(push_id(1), patience()); });
  // The worker gave push 1 up and says so; its last request is still being applied.
  BOOST_TEST(applied(ledger, push_id(5, 5)));
  ledger.finish(push_id(1), true);
  thread.join();
  BOOST_TEST((value_of(waiting) == Verdict::kDuplicate));
  BOOST_TEST(!applied(ledger, push_id(1)));
}

BOOST_AUTO_TEST_CASE(a_worker_with_too_many_open_pushes_is_refused_and_may_go_on_when_some_are_answered) {
  Ledger ledger;
  uint64_t sequence = 0;
  ErrorCode code = kNoError;
  while (code == kNoError && sequence < 100'000) {
    auto verdict = ledger.begin(push_id(sequence), patience());
    code = code_of(verdict);
    if (verdict) ledger.finish(push_id(sequence++), true);
  }
  BOOST_TEST(code == ErrorCode::kBusy);
  BOOST_TEST(sequence == 65536u);
  BOOST_TEST(applied(ledger, push_id(sequence, sequence)));
  BOOST_TEST(applied(ledger, push_id(sequence + 1, sequence)));
}

BOOST_AUTO_TEST_CASE(a_long_run_of_answered_pushes_is_not_limited) {
  Ledger ledger;
  size_t wrong = 0;
  for (uint64_t sequence = 1; sequence < 300'000; ++sequence) {
    const PushId id = push_id(sequence, sequence < 4 ? 1 : sequence - 3);
    wrong += !ledger.begin(id, patience()).has_value();
    ledger.finish(id, true);
  }
  BOOST_TEST(wrong == 0u);
}

BOOST_AUTO_TEST_CASE(each_push_is_applied_once_whoever_brings_it) {
  constexpr size_t kThreads = 4;
  constexpr uint64_t kPushes = 3'000;
  Ledger ledger;
  std::vector<std::atomic<int>> times(kPushes);
  std::atomic<size_t> errors{0};
  in_threads(kThreads, [&](size_t thread) {
    std::mt19937_64 random(thread);
    for (uint64_t sequence = 0; sequence < kPushes; ++sequence) {
      const PushId id = push_id(sequence, sequence < 100 ? 0 : sequence - 100);
      for (;;) {
        auto verdict = ledger.begin(id, patience());
        if (!verdict) {
          ++errors;
          break;
        }
        if (*verdict == Verdict::kDuplicate) break;
        const bool fails = random() % 4 == 0;
        if (!fails) ++times[sequence];
        ledger.finish(id, !fails);
        if (!fails) break;
      }
    }
  });
  BOOST_TEST(errors.load() == 0u);
  size_t wrong = 0;
  for (const auto& count : times) wrong += count.load() > 1;
  BOOST_TEST(wrong == 0u);
}

BOOST_AUTO_TEST_SUITE_END()
