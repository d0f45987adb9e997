#include "common/read_write_lock.h"

#include <atomic>
#include <mutex>
#include <shared_mutex>

#include "testing.h"

using namespace flota;
using namespace flota::testing;

BOOST_AUTO_TEST_SUITE(read_write_lock, *boost::unit_test::timeout(60))

BOOST_AUTO_TEST_CASE(a_writer_is_alone_and_readers_see_whole_changes) {
  constexpr size_t kWriters = 3, kRounds = 5'000;
  ReadWriteLock lock;
  uint64_t one = 0;
  uint64_t two = 0;
  std::atomic<size_t> writing{kWriters};
  std::atomic<size_t> torn{0};
  in_threads(kWriters + 2, [&](size_t thread) {
    if (thread < kWriters) {
      for (size_t i = 0; i < kRounds; ++i) {
        std::unique_lock guard(lock);
        ++one;
        ++two;
      }
      writing.fetch_sub(1);
      return;
    }
    while (writing.load() > 0) {
      std::shared_lock guard(lock);
      torn += one != two;
    }
  });
  BOOST_TEST(torn.load() == 0u);
  BOOST_TEST(one == kWriters * kRounds);
}

BOOST_AUTO_TEST_CASE(readers_share) {
  ReadWriteLock lock;
  lock.lock_shared();
  std::thread other([&] {
    lock.lock_shared();
    lock.unlock_shared();
  });
  other.join();
  lock.unlock_shared();
}

BOOST_AUTO_TEST_CASE(who_may_go_elsewhere_does_not_wait_for_a_writer) {
  ReadWriteLock lock;
  {
    std::unique_lock writing(lock);
    BOOST_TEST(!lock.try_lock_shared());
  }
  BOOST_TEST(lock.try_lock_shared());
  BOOST_TEST(lock.try_lock_shared());
  lock.unlock_shared();
  lock.unlock_shared();
  std::unique_lock nobody_is_left(lock);
}

BOOST_AUTO_TEST_CASE(readers_who_never_pause_do_not_keep_a_writer_out) {
  ReadWriteLock lock;
  std::atomic<bool> written{false};
  in_threads(4, [&](size_t thread) {
    if (thread == 0) {
      for (int i = 0; i < 100; ++i) std::unique_lock guard(lock);
      written.store(true);
    }
    while (!written.load()) std::shared_lock guard(lock);
  });
  BOOST_TEST(written.load());
}

BOOST_AUTO_TEST_SUITE_END()
