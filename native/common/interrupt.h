#pragma once

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/result.h"

namespace flota {

// Ctrl-C for calls that wait. Who calls for a person says, for the thread it calls from, how to learn that the person
// wants it back; every wait for a peer asks now and then, and ends with kCancelled. Threads that set nothing are never
// interrupted.
class Interrupt {
 public:
  using Wanted = bool (*)();

  // Until it goes away, waits of this thread ask `wanted`; null: they do not.
  explicit Interrupt(Wanted wanted) : before_(std::exchange(wanted_, wanted)) {}
  ~Interrupt() { wanted_ = before_; }
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  // An error when the person wants the thread back.
  static Result<void> check() {
    if (wanted_ == nullptr || !wanted_()) return {};
    return Error{ErrorCode::kCancelled, "interrupted"};
  }

  // How long to wait at a time when so much is left.
  static std::chrono::milliseconds slice(std::chrono::milliseconds left) {
    return wanted_ == nullptr ? left : std::min(left, std::chrono::milliseconds(100));
  }

 private:
  static inline thread_local Wanted wanted_ = nullptr;
  Wanted before_;
};

}  // namespace flota
