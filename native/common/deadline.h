#pragma once

#include <algorithm>
#include <chrono>

namespace flota {

// A moment by which a wait must end. Every wait for somebody else takes one.
class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  static Deadline after(std::chrono::milliseconds time) {
    // A time so long that adding it would overflow means the same as none.
    if (time > std::chrono::hours(24 * 365 * 100)) return none();
    return Deadline(Clock::now() + time);
  }
  // For a server that waits for its clients' next request: it owes nobody an answer.
  static Deadline none() { return Deadline(Clock::time_point::max()); }

  bool passed() const { return when_ != Clock::time_point::max() && Clock::now() >= when_; }

  // Time left, at least 0 and at most `most`.
  std::chrono::milliseconds left(std::chrono::milliseconds most = std::chrono::hours(1)) const {
    if (when_ == Clock::time_point::max()) return most;
    auto rest = std::chrono::ceil<std::chrono::milliseconds>(when_ - Clock::now());
    return std::clamp(rest, std::chrono::milliseconds(0), most);
  }

  Clock::time_point when() const { return when_; }
  Deadline earlier(Deadline other) const { return Deadline(std::min(when_, other.when_)); }

 private:
  explicit Deadline(Clock::time_point when) : when_(when) {}
  Clock::time_point when_;
};

}  // namespace flota
