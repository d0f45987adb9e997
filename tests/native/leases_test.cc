#include "server/leases.h"

#include <atomic>
#include <random>
#include <thread>

#include "common/interrupt.h"
#include "lease_worker.h"

using namespace flota;
using namespace flota::testing;

namespace {

void outlive(uint64_t ttl_ms) { std::this_thread::sleep_for(milliseconds(ttl_ms + 20)); }

}  // namespace

BOOST_AUTO_TEST_SUITE(leases, *boost::unit_test::timeout(120))

BOOST_AUTO_TEST_CASE(the_lowest_free_shard_is_handed_out) {
  Leases leases;
  Worker a{leases, 0};
  Worker b{leases, 1};
  BOOST_TEST(a.shard() == 0u);
  BOOST_TEST(b.shard() == 1u);
  BOOST_TEST(a.shard() == 2u);
  const LeaseReply reply = b.take({{1, 10, kDone}});
  BOOST_TEST(reply.shard == 3u);
  BOOST_TEST(reply.samples == 0u);
  BOOST_TEST(reply.left == 3u);
  BOOST_TEST(reply.lost.empty());
}

BOOST_AUTO_TEST_CASE(each_shard_is_trained_once_by_many_workers) {
  constexpr size_t kShards = 1000;
  Leases leases;
  std::vector<std::atomic<int>> trained(kShards);
  std::atomic<int> errors{0};
  in_threads(8, [&](size_t rank) {
    Worker worker{leases, static_cast<uint32_t>(rank), kShards};
    Progress progress;
    for (;;) {
      auto reply = worker.try_take(progress, patience());
      errors += !reply.has_value();
      if (!reply || reply->outcome != LeaseOutcome::kGranted) break;
      ++trained[reply->shard];
      progress = {{reply->shard, 1, kDone}};
    }
  });
  BOOST_TEST(errors == 0);
  for (const auto& count : trained) BOOST_TEST(count == 1);
  BOOST_TEST(leases.counts().granted == kShards);
  BOOST_TEST(leases.counts().expired == 0u);
}

BOOST_AUTO_TEST_CASE(a_class_of_shards_is_handed_out_and_over_by_itself) {
  Leases leases;
  Worker even{leases, 0, 5};
  even.stride = 2;
  Worker odd{leases, 1, 5};
  odd.stride = 2;
  odd.first = 1;
  BOOST_TEST(even.shard() == 0u);
  BOOST_TEST(odd.shard() == 1u);
  BOOST_TEST(odd.shard({{1, 1, kDone}}) == 3u);
  const LeaseReply over = odd.wait({{3, 1, kDone}});
  BOOST_TEST(over.outcome == LeaseOutcome::kOver);
  BOOST_TEST(over.left == 3u);
  BOOST_TEST(even.shard({{0, 1, kDone}}) == 2u);
  BOOST_TEST(even.shard({{2, 1, kDone}}) == 4u);
  BOOST_TEST((even.wait({{4, 1, kDone}}).outcome == LeaseOutcome::kOver));
  // A class beyond the last shard has nothing in it.
  Worker beyond{leases, 2, 5};
  beyond.epoch = 1;
  beyond.stride = 9;
  beyond.first = 7;
  BOOST_TEST(beyond.wait().outcome == LeaseOutcome::kOver);
  BOOST_TEST(beyond.wait().left == 5u);
}

BOOST_AUTO_TEST_CASE(progress_only_grows) {
  Leases leases;
  Worker a{leases, 0};
  a.shard();
  a.tell({{0, 70, 0}});
  a.tell({{0, 30, 0}});
  a.tell({{0, 0, kReleased}});
  const LeaseReply reply = Worker{leases, 1}.take();
  BOOST_TEST(reply.shard == 0u);
  BOOST_TEST(reply.samples == 70u);
}

BOOST_AUTO_TEST_CASE(a_lease_that_is_not_renewed_ends_and_the_next_goes_on_after_it) {
  Leases leases;
  Worker dead{leases, 0};
  dead.ttl = kShort;
  BOOST_TEST(dead.shard() == 0u);
  dead.tell({{0, 33, 0}});
  outlive(kShort);
  const LeaseReply reply = Worker{leases, 1}.take();
  BOOST_TEST(reply.shard == 0u);
  BOOST_TEST(reply.samples == 33u);
  BOOST_TEST(leases.counts().expired == 1u);
}

BOOST_AUTO_TEST_CASE(a_lease_that_is_renewed_stays) {
  Leases leases;
  Worker a{leases, 0, 1};
  a.ttl = kShort;
  a.shard();
  a.ttl = kLong;
  BOOST_TEST(a.tell({{0, 1, 0}}).lost.empty());
  outlive(kShort);
  Worker b{leases, 1, 1};
  BOOST_TEST(b.take().outcome == LeaseOutcome::kNone);
  BOOST_TEST(leases.counts().expired == 0u);
}

BOOST_AUTO_TEST_CASE(who_comes_late_keeps_a_shard_that_nobody_has_taken) {
  Leases leases;
  Worker a{leases, 0, 1};
  a.ttl = kShort;
  a.shard();
  outlive(kShort);
  a.ttl = kLong;
  BOOST_TEST(a.tell({{0, 5, 0}}).lost.empty());
  Worker b{leases, 1, 1};
  BOOST_TEST(b.take().outcome == LeaseOutcome::kNone);
}

BOOST_AUTO_TEST_CASE(who_comes_too_late_is_told_and_its_progress_is_noted) {
  Leases leases;
  Worker late{leases, 0};
  late.ttl = kShort;
  late.shard();
  outlive(kShort);
  Worker next{leases, 1};
  BOOST_TEST(next.shard() == 0u);
  late.ttl = kLong;
  const LeaseReply told = late.take({{0, 50, 0}});
  BOOST_TEST((told.lost == std::vector<uint64_t>{0}));
  BOOST_TEST(told.shard == 1u);
  BOOST_TEST(next.tell({{0, 20, kReleased}}).lost.empty());
  const LeaseReply third = Worker{leases, 2}.take();
  BOOST_TEST(third.shard == 0u);
  BOOST_TEST(third.samples == 50u);
  // To give back what is another's changes nothing.
  BOOST_TEST((late.tell({{0, 50, kReleased}}).lost == std::vector<uint64_t>{0}));
  BOOST_TEST(late.shard() == 2u);
}

BOOST_AUTO_TEST_CASE(what_anybody_has_done_is_done) {
  Leases leases;
  Worker holder{leases, 0};
  holder.shard();
  Worker other{leases, 1};
  BOOST_TEST((other.tell({{0, 9, kDone}}).lost == std::vector<uint64_t>{0}));
  // Said once more after a broken connection: it is nobody's now.
  BOOST_TEST(other.tell({{0, 9, kDone}}).lost.empty());
  const LeaseReply told = holder.tell({{0, 5, 0}, {2, 1, 0}});
  BOOST_TEST((told.lost == std::vector<uint64_t>{0}));
  BOOST_TEST(told.left == 3u);
  BOOST_TEST(told.outcome == LeaseOutcome::kNoted);
  BOOST_TEST(holder.shard() == 1u);
  BOOST_TEST(holder.shard() == 3u);  // by its progress it holds 2
}

BOOST_AUTO_TEST_CASE(a_shard_of_any_class_can_be_progressed) {
  Leases leases;
  Worker a{leases, 0, 4};
  a.stride = 2;
  BOOST_TEST(a.tell({{1, 1, kDone}, {3, 1, kDone}}).left == 2u);
}

BOOST_AUTO_TEST_CASE(who_holds_all_that_is_left_does_not_wait_for_itself) {
  Leases leases;
  Worker a{leases, 0, 2};
  a.shard();
  a.shard();
  BOOST_TEST((a.wait().outcome == LeaseOutcome::kOwn));
  // Others do.
  Worker b{leases, 1, 2};
  LeaseReply waited;
  std::thread waiting([&] { waited = b.wait(); });
  a.tell({{1, 7, kReleased}});
  waiting.join();
  BOOST_TEST(waited.outcome == LeaseOutcome::kGranted);
  BOOST_TEST(waited.shard == 1u);
  BOOST_TEST(waited.samples == 7u);
}

BOOST_AUTO_TEST_CASE(that_none_came_free_in_time_is_told_at_the_deadline) {
  Leases leases;
  Worker a{leases, 0, 1};
  a.shard();
  Worker b{leases, 1, 1};
  const LeaseReply reply = value_of(b.try_take({}, Deadline::after(milliseconds(30))));
  BOOST_TEST(reply.outcome == LeaseOutcome::kNone);
  BOOST_TEST(reply.left == 1u);
}

BOOST_AUTO_TEST_CASE(who_waits_is_given_what_expires) {
  Leases leases;
  Worker dead{leases, 0, 1};
  dead.ttl = kShort;
  dead.shard();
  BOOST_TEST((Worker{leases, 1, 1}.wait().outcome == LeaseOutcome::kGranted));
}

BOOST_AUTO_TEST_CASE(who_waits_is_given_what_a_restarted_worker_had) {
  Leases leases;
  Worker a{leases, 0, 1};
  a.shard();
  LeaseReply waited;
  std::thread waiting([&] { waited = Worker{leases, 1, 1}.wait(); });
  Worker again{leases, 0, 1};
  again.incarnation = 1;
  again.pass = "another";  // what it had is freed whatever it asks for
  again.shard();
  waiting.join();
  BOOST_TEST(waited.outcome == LeaseOutcome::kGranted);
}

BOOST_AUTO_TEST_CASE(who_waits_hears_that_everything_is_done) {
  Leases leases;
  Worker a{leases, 0, 2};
  a.shard();
  a.shard();
  std::vector<LeaseReply> waited(3);
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] { waited[i] = Worker{leases, 1 + i, 2}.wait(); });
  }
  a.tell({{0, 1, kDone}});
  a.tell({{1, 1, kDone}});
  for (auto& thread : threads) thread.join();
  for (const LeaseReply& reply : waited) {
    BOOST_TEST(reply.outcome == LeaseOutcome::kOver);
    BOOST_TEST(reply.left == 0u);
  }
}

BOOST_AUTO_TEST_CASE(a_call_that_comes_again_is_given_the_same_shard) {
  Leases leases;
  Worker a{leases, 0};
  const LeaseRequest call = a.request(true);
  for (int times = 0; times < 3; ++times) BOOST_TEST(value_of(leases.ask(call, patience())).shard == 0u);
  BOOST_TEST(leases.counts().granted == 1u);
  // Also after later calls, and as far as it was trained since.
  BOOST_TEST(a.shard({{0, 4, 0}}) == 1u);
  const LeaseReply again = value_of(leases.ask(call, patience()));
  BOOST_TEST(again.shard == 0u);
  BOOST_TEST(again.samples == 4u);
  // Calls of other workers, passes and epochs are others.
  Worker b{leases, 1};
  BOOST_TEST(b.shard() == 2u);
  Worker eval{leases, 0};
  eval.pass = "eval";
  eval.calls = call.call - 1;
  eval.shard();
  Worker next{leases, 0};
  next.epoch = 1;
  next.calls = call.call - 1;
  next.shard();
  BOOST_TEST(leases.counts().granted == 5u);
}

BOOST_AUTO_TEST_CASE(a_call_that_comes_again_too_late_is_given_another_shard) {
  Leases leases;
  Worker a{leases, 0};
  a.ttl = kShort;
  LeaseRequest call = a.request(true);
  value_of(leases.ask(call, patience()));
  outlive(kShort);
  Worker b{leases, 1};
  BOOST_TEST(b.shard() == 0u);
  call.ttl_ms = kLong;
  for (int times = 0; times < 3; ++times) BOOST_TEST(value_of(leases.ask(call, patience())).shard == 1u);
  a.tell({{1, 1, kDone}});
  for (int times = 0; times < 3; ++times) BOOST_TEST(value_of(leases.ask(call, patience())).shard == 2u);
}

// Its connection broke while it waited, and the server still knows the first request.
BOOST_AUTO_TEST_CASE(a_call_that_waits_twice_is_given_one_shard) {
  Leases leases;
  Worker a{leases, 0, 2};
  a.shard();
  a.shard();
  const LeaseRequest call = Worker{leases, 1, 2}.request(true);
  std::vector<LeaseReply> replies(3);
  std::vector<std::thread> threads;
  for (LeaseReply& reply : replies) threads.emplace_back([&] { reply = value_of(leases.ask(call, patience())); });
  a.tell({{0, 0, kReleased}, {1, 0, kReleased}});
  for (auto& thread : threads) thread.join();
  for (const LeaseReply& reply : replies) {
    BOOST_TEST(reply.outcome == LeaseOutcome::kGranted);
    BOOST_TEST(reply.shard == replies[0].shard);
  }
  BOOST_TEST(leases.counts().granted == 3u);
}

BOOST_AUTO_TEST_CASE(a_shard_that_was_taken_back_is_not_given_back_by_an_old_request) {
  Leases leases;
  Worker a{leases, 0, 1};
  a.shard();
  const LeaseRequest release = a.request(false, {{0, 3, kReleased}});
  value_of(leases.ask(release, patience()));
  BOOST_TEST(a.shard() == 0u);
  value_of(leases.ask(release, patience()));  // once more: the answer got lost
  Worker b{leases, 1, 1};
  BOOST_TEST(b.take().outcome == LeaseOutcome::kNone);
  // A renewal by a later call does not make the release of an earlier one old.
  const LeaseRequest next = a.request(false, {{0, 3, kReleased}});
  a.tell({{0, 3, 0}});
  value_of(leases.ask(next, patience()));
  BOOST_TEST(b.take().outcome == LeaseOutcome::kGranted);
}

BOOST_AUTO_TEST_CASE(an_old_incarnation_is_refused_and_loses_what_it_had) {
  Leases leases;
  Worker old{leases, 3};
  old.incarnation = 1;
  old.shard();
  old.tell({{0, 12, 0}});
  Worker again{leases, 3};
  again.incarnation = 2;
  const LeaseReply reply = again.take();
  BOOST_TEST(reply.shard == 0u);
  BOOST_TEST(reply.samples == 12u);
  auto stale = old.try_take({{0, 99, kDone}});
  BOOST_TEST(code_of(stale) == ErrorCode::kStaleEpoch);
  BOOST_TEST(message_of(stale) ==
             "worker 3 was started again: incarnation 2 has taken the place of 1, which must stop");
  BOOST_TEST(again.tell({}).left == 4u);
}

BOOST_AUTO_TEST_CASE(an_old_incarnation_that_waits_is_told_at_once) {
  Leases leases;
  Worker holder{leases, 0, 1};
  holder.shard();
  Result<LeaseReply> outcome = LeaseReply();
  std::thread waiting([&] { outcome = Worker{leases, 1, 1}.try_take({}, patience()); });
  Worker again{leases, 1, 1};
  again.incarnation = 1;
  BOOST_TEST(again.take().outcome == LeaseOutcome::kNone);
  waiting.join();
  BOOST_TEST(code_of(outcome) == ErrorCode::kStaleEpoch);
}

BOOST_AUTO_TEST_CASE(a_server_that_stops_keeps_nobody) {
  Leases leases;
  Worker a{leases, 0, 1};
  a.shard();
  Result<LeaseReply> outcome = LeaseReply();
  std::thread waiting([&] { outcome = Worker{leases, 1, 1}.try_take({}, patience()); });
  leases.stop();
  waiting.join();
  BOOST_TEST(code_of(outcome) == ErrorCode::kShuttingDown);
}

BOOST_AUTO_TEST_CASE(a_person_can_end_the_wait) {
  Leases leases;
  Worker a{leases, 0, 1};
  a.shard();
  const Interrupt interrupt([] { return true; });
  BOOST_TEST(code_of(Worker{leases, 1, 1}.try_take({}, patience())) == ErrorCode::kCancelled);
}

// Workers that crash, sleep, give back and repeat themselves: in the end every sample was trained, and nobody was
// sent back behind what was noted.
BOOST_AUTO_TEST_CASE(whatever_workers_do_every_shard_gets_done) {
  constexpr uint64_t kShards = 60;
  constexpr uint64_t kSamples = 10;
  Leases leases;
  std::vector<std::atomic<uint64_t>> noted(kShards);
  std::atomic<int> errors{0};
  std::atomic<int> back{0};
  in_threads(6, [&](size_t rank) {
    std::mt19937_64 random(rank);
    Worker worker{leases, static_cast<uint32_t>(rank), kShards};
    worker.ttl = kShort;
    for (;;) {
      const LeaseRequest call = worker.request(true);
      auto reply = leases.ask(call, patience());
      if (random() % 4 == 0) reply = leases.ask(call, patience());
      errors += !reply.has_value();
      if (!reply || reply->outcome == LeaseOutcome::kOver) return;
      if (reply->outcome != LeaseOutcome::kGranted) continue;
      back += reply->samples < noted[reply->shard];
      uint64_t samples = reply->samples;
      const uint64_t fate = random() % 8;
      while (samples < kSamples && (fate > 2 || samples < reply->samples + 2)) {
        ++samples;
        auto told = leases.ask(worker.request(false, {{reply->shard, samples, 0}}), patience());
        errors += !told.has_value();
        if (!told || !told->lost.empty()) break;
        uint64_t before = noted[reply->shard];
        while (before < samples && !noted[reply->shard].compare_exchange_weak(before, samples)) continue;
      }
      if (fate == 0) continue;  // forgotten, until it expires
      if (fate == 1) {
        ++worker.incarnation;
        continue;
      }
      const uint64_t flag = samples == kSamples ? kDone : kReleased;
      errors += !leases.ask(worker.request(false, {{reply->shard, samples, flag}}), patience()).has_value();
    }
  });
  BOOST_TEST(errors == 0);
  BOOST_TEST(back == 0);
  for (const auto& samples : noted) BOOST_TEST(samples >= kSamples);
}

BOOST_AUTO_TEST_SUITE_END()
