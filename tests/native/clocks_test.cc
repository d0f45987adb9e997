#include "server/clocks.h"

#include <atomic>
#include <thread>

#include "cluster.h"

using namespace flota;
using namespace flota::testing;

namespace {

constexpr const char* kGroup = "train";

Advance at(uint32_t rank, uint64_t step, uint64_t behind, uint32_t world = 2) {
  return {kGroup, step, behind, rank, world, 100, false};
}
Advance leaving(uint32_t rank, uint64_t step, uint32_t world = 2) { return {kGroup, step, 0, rank, world, 100, true}; }
Deadline soon() { return Deadline::after(milliseconds(20)); }

}  // namespace

BOOST_AUTO_TEST_SUITE(clocks)

BOOST_AUTO_TEST_CASE(nobody_is_further_ahead_than_allowed) {
  constexpr uint32_t kWorld = 4;
  constexpr uint64_t kSteps = 500;
  for (uint64_t behind : {0u, 1u, 3u}) {
    Clocks all;
    std::atomic<uint64_t> finished[kWorld] = {};
    std::atomic<int> errors{0};
    std::atomic<int> ahead{0};
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < kWorld; ++rank) {
      threads.emplace_back([&, rank] {
        for (uint64_t step = 1; step <= kSteps; ++step) {
          finished[rank] = step;
          auto slowest = all.advance(at(rank, step, behind, kWorld), patience());
          errors += !slowest.has_value() || *slowest + behind < step || *slowest > step;
          for (const auto& other : finished) ahead += other.load() + behind < step;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    BOOST_TEST(errors == 0);
    BOOST_TEST(ahead == 0);
  }
}

BOOST_AUTO_TEST_CASE(a_worker_that_was_never_heard_of_is_waited_for) {
  Clocks all;
  BOOST_TEST(value_of(all.advance(at(0, 3, 3), soon())) == 0u);
  auto late = all.advance(at(0, 4, 3), soon());
  BOOST_TEST(code_of(late) == ErrorCode::kDeadline);
  BOOST_TEST(message_of(late) == "worker 0 waited 0.1 s for step 1: worker 1 has finished no step yet");
}

BOOST_AUTO_TEST_CASE(those_behind_are_named_with_their_steps) {
  Clocks all;
  for (uint32_t rank = 1; rank < 8; ++rank) value_of(all.advance(at(rank, 400 + rank, 1000, 8), soon()));
  Advance message = at(0, 412, 4, 8);
  message.wait_ms = 30'000;
  BOOST_TEST(message_of(all.advance(message, soon())) ==
             "worker 0 waited 30 s for step 408: worker 1 is at step 401, worker 2 is at step 402, worker 3 is at step "
             "403, worker 4 is at step 404 and 3 more");
}

BOOST_AUTO_TEST_CASE(who_leaves_holds_nobody_up) {
  Clocks all;
  value_of(all.advance(at(1, 1, 9), soon()));
  Result<uint64_t> passed = uint64_t{0};
  std::thread waiting([&] { passed = all.advance(at(0, 50, 0), patience()); });
  value_of(all.advance(leaving(1, 1), soon()));
  waiting.join();
  BOOST_TEST(value_of(passed) == 50u);
  BOOST_TEST(code_of(all.advance(at(1, 2, 0), soon())) == ErrorCode::kInvalidArgument);
  // When all have left, the next group of this name begins anew.
  value_of(all.advance(leaving(0, 50), soon()));
  value_of(all.advance(at(1, 1, 1), soon()));
  BOOST_TEST(message_of(all.advance(at(1, 2, 1), soon())).find("worker 0 has finished no step yet") !=
             std::string::npos);
}

BOOST_AUTO_TEST_CASE(who_rests_holds_nobody_up_until_its_next_step) {
  auto resting = [](uint32_t rank, uint64_t step) {
    Advance message = at(rank, step, 0);
    message.rest = true;
    return message;
  };
  Clocks all;
  // Also one that never made a step.
  BOOST_TEST(value_of(all.advance(resting(1, 0), soon())) == 0u);
  BOOST_TEST(value_of(all.advance(at(0, 50, 0), soon())) == 50u);
  // It is told where the others are, and goes on from there.
  BOOST_TEST(value_of(all.advance(resting(1, 0), soon())) == 50u);
  BOOST_TEST(value_of(all.advance(at(1, 51, 1), soon())) == 50u);
  BOOST_TEST(message_of(all.advance(at(0, 53, 1), soon())).find("worker 1 is at step 51") != std::string::npos);
  // A group in which all rest is not over.
  value_of(all.advance(resting(0, 53), soon()));
  BOOST_TEST(value_of(all.advance(resting(1, 51), soon())) == 51u);
  BOOST_TEST(value_of(all.advance(at(0, 54, 0), soon())) == 54u);
}

BOOST_AUTO_TEST_CASE(what_comes_again_is_answered_again_and_nobody_goes_back) {
  Clocks all;
  for (int times = 0; times < 3; ++times) BOOST_TEST(value_of(all.advance(at(0, 7, 7), soon())) == 0u);
  auto back = all.advance(at(0, 6, 7), soon());
  BOOST_TEST(message_of(back) ==
             "worker 0 says it is at step 6, but had finished 7; a worker that was restarted must begin where it was");
  BOOST_TEST(code_of(all.advance(at(0, 8, 8, 3), soon())) == ErrorCode::kInvalidArgument);
  for (int times = 0; times < 3; ++times) value_of(all.advance(leaving(0, 7), soon()));
  for (int times = 0; times < 3; ++times) value_of(all.advance(leaving(1, 7), soon()));
}

// A training begins a group after each of its barriers.
BOOST_AUTO_TEST_CASE(groups_that_are_over_are_forgotten) {
  Clocks all;
  for (int number = 0; number < 10'000; ++number) {
    Advance message = leaving(0, 1, 1);
    message.group = "train/" + std::to_string(number);
    value_of(all.advance(message, soon()));
  }
}

BOOST_AUTO_TEST_CASE(a_server_that_stops_keeps_nobody) {
  Clocks all;
  Result<uint64_t> outcome = uint64_t{0};
  std::thread waiting([&] { outcome = all.advance(at(0, 5, 0), patience()); });
  all.stop();
  waiting.join();
  BOOST_TEST(code_of(outcome) == ErrorCode::kShuttingDown);
}

BOOST_AUTO_TEST_CASE(a_client_asks_the_first_server) {
  Cluster cluster(2);
  auto client = cluster.client();
  auto other = cluster.client();
  BOOST_TEST(value_of(other->advance({kGroup, 2, 100, 1, 2, false}, kTime)) == 0u);
  BOOST_TEST(value_of(client->advance({kGroup, 4, 2, 0, 2, false}, kTime)) == 2u);
  auto late = client->advance({kGroup, 5, 2, 0, 2, false}, milliseconds(200));
  BOOST_TEST(code_of(late) == ErrorCode::kDeadline);
  BOOST_TEST(message_of(late).find("for step 3: worker 1 is at step 2") != std::string::npos);
  value_of(other->advance({kGroup, 3, 0, 1, 2, true}, kTime));
  BOOST_TEST(value_of(client->advance({kGroup, 5, 2, 0, 2, false}, kTime)) == 5u);
}

BOOST_AUTO_TEST_SUITE_END()
