#pragma once

#include <sched.h>
#include <time.h>

#include <atomic>
#include <cstdint>

namespace flota {

// Many readers or one writer, for microseconds at a time. A waiting writer keeps new readers out, so pushes are not
// starved by pulls. Who waits looks again, then gives the core away, then sleeps a little: holders are quick, and being
// put to sleep for each of them would cost more than the wait. Works with std::unique_lock and std::shared_lock.
class ReadWriteLock {
 public:
  void lock_shared() {
    for (uint32_t tries = 0; !entered_shared(); ++tries) wait(tries);
  }
  // Looks a few times, for about as long as a writer that is at work needs.
  bool try_lock_shared() {
    for (uint32_t tries = 0; tries < kLooks; ++tries) {
      if (entered_shared()) return true;
      wait(tries);
    }
    return false;
  }
  void unlock_shared() { state_.fetch_sub(kReader, std::memory_order_release); }

  void lock() {
    for (uint32_t tries = 0;; ++tries) {
      uint32_t state = state_.load(std::memory_order_relaxed);
      if ((state & ~kWriterWaits) == 0) {
        if (state_.compare_exchange_weak(state, kWriting, std::memory_order_acquire, std::memory_order_relaxed)) return;
      } else if ((state & kWriterWaits) == 0) {
        state_.fetch_or(kWriterWaits, std::memory_order_relaxed);
      }
      wait(tries);
    }
  }
  void unlock() { state_.fetch_and(~kWriting, std::memory_order_release); }

 private:
  static constexpr uint32_t kWriting = 1;
  static constexpr uint32_t kWriterWaits = 2;
  static constexpr uint32_t kReader = 4;

  static constexpr uint32_t kLooks = 64;

  bool entered_shared() {
    uint32_t state = state_.load(std::memory_order_relaxed);
    return (state & (kWriting | kWriterWaits)) == 0 &&
           state_.compare_exchange_weak(state, state + kReader, std::memory_order_acquire, std::memory_order_relaxed);
  }

  static void wait(uint32_t tries) {
    if (tries < kLooks) {
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    } else if (tries < 2 * kLooks) {
      sched_yield();
    } else {
      timespec nap{0, 50'000};
      nanosleep(&nap, nullptr);
    }
  }

  std::atomic<uint32_t> state_{0};
};

}  // namespace flota
