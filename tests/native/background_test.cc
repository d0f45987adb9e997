// Calls in the background: one after another, or beside each other while they take long.
#include "client/background.h"

#include <atomic>
#include <latch>
#include <vector>

#include "testing.h"

using namespace flota;
using namespace flota::testing;

namespace {

Deadline soon() { return Deadline::after(milliseconds(60000)); }

Result<void> take_long() {
  std::this_thread::sleep_for(milliseconds(20));
  return {};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(background, *boost::unit_test::timeout(120))

BOOST_AUTO_TEST_CASE(calls_run_in_their_order_by_default) {
  Background calls;
  std::vector<int> order;
  std::vector<std::shared_ptr<Pending>> pending{calls.run(take_long)};
  for (int i = 0; i < 100; ++i) {
    pending.push_back(calls.run([&order, i]() -> Result<void> {
      order.push_back(i);
      return {};
    }));
  }
  for (auto& each : pending) BOOST_TEST(each->wait(soon()).has_value());
  for (int i = 0; i < 100; ++i) BOOST_TEST(order[static_cast<size_t>(i)] == i);
}

BOOST_AUTO_TEST_CASE(long_calls_do_not_wait_for_each_other) {
  Background calls(3);
  BOOST_TEST(calls.run(take_long)->wait(soon()).has_value());
  // Each goes on when all three are there.
  std::latch all(3);
  std::vector<std::shared_ptr<Pending>> pending;
  for (int i = 0; i < 3; ++i) {
    pending.push_back(calls.run([&all]() -> Result<void> {
      all.arrive_and_wait();
      return {};
    }));
  }
  for (auto& each : pending) BOOST_TEST(each->wait(soon()).has_value());
  BOOST_TEST(calls.idle());
}

BOOST_AUTO_TEST_CASE(no_more_run_at_once_than_was_said) {
  Background calls(2);
  BOOST_TEST(calls.run(take_long)->wait(soon()).has_value());
  std::atomic<int> now{0};
  std::atomic<int> most{0};
  std::vector<std::shared_ptr<Pending>> pending;
  for (int i = 0; i < 8; ++i) {
    pending.push_back(calls.run([&]() -> Result<void> {
      const int here = now.fetch_add(1) + 1;
      for (int seen = most.load(); here > seen && !most.compare_exchange_weak(seen, here);) {
      }
      auto status = take_long();
      now.fetch_sub(1);
      return status;
    }));
  }
  for (auto& each : pending) BOOST_TEST(each->wait(soon()).has_value());
  BOOST_TEST(most.load() <= 2);
}

BOOST_AUTO_TEST_CASE(the_end_waits_for_what_was_handed_in_and_takes_no_more) {
  std::atomic<int> done{0};
  Background calls(4);
  for (int i = 0; i < 12; ++i) {
    static_cast<void>(calls.run([&]() -> Result<void> {
      auto status = take_long();
      done.fetch_add(1);
      return status;
    }));
  }
  calls.stop();
  BOOST_TEST(done.load() == 12);
  const auto refused = calls.run(take_long)->wait(soon());
  BOOST_REQUIRE(!refused.has_value());
  BOOST_TEST((refused.error().code == ErrorCode::kCancelled));
}

BOOST_AUTO_TEST_SUITE_END()
