#pragma once

#include <sched.h>

#include <chrono>
#include <cstdint>

namespace flota {

// Looking for an answer a little before sleeping: an answer is often only microseconds away, and then being put to
// sleep and woken costs more than the wait. The core is given away between looks, and looking stops for a while where
// it has not helped, so that with more threads than cores it costs little.
class Spin {
 public:
  // Calls ready() for a short time; true as soon as it is.
  template <class Ready>
  bool until(Ready ready) {
    if (ready()) return true;
    if (misses_ >= kPatience && ++skipped_ < kSkips) return false;
    skipped_ = 0;
    const auto end = Clock::now() + kTime;
    do {
      for (int i = 0; i < 16; ++i) {
        if (ready()) {
          misses_ = 0;
          return true;
        }
        pause();
      }
      sched_yield();
    } while (Clock::now() < end);
    if (misses_ < kPatience) ++misses_;
    return false;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr auto kTime = std::chrono::microseconds(50);
  static constexpr uint32_t kPatience = 4;
  static constexpr uint32_t kSkips = 16;

  static void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }

  uint32_t misses_ = 0;
  uint32_t skipped_ = 0;
};

}  // namespace flota
