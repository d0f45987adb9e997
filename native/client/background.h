#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "common/deadline.h"
#include "common/result.h"

namespace flota {

// The outcome of a call that goes on in the background. Thread safety: any thread.
class Pending {
 public:
  // Waits for the outcome; kDeadline or kCancelled when it takes longer or is interrupted, and then the call goes on
  // all the same.
  Result<void> wait(Deadline deadline);
  bool done() const;

 private:
  friend class Background;
  void finish(Result<void> outcome);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  Result<void> outcome_;
};

// Runs calls on threads of its own, begun in the order they were handed in: one after another, or, with `most` above 1,
// several at once while they take long. Then it is the way to the peer that takes the time, and calls that wait for it
// do not have to wait for each other; calls that are short would only be in each other's way.
class Background {
 public:
  explicit Background(size_t most = 1) : most_(most) {}
  ~Background() { stop(); }

  std::shared_ptr<Pending> run(std::function<Result<void>()> call);
  // Whether nothing is running or waiting.
  bool idle() const;
  // Waits for what was handed in, then ends the threads; later calls fail with kCancelled.
  void stop();

 private:
  // A call that takes so long is one that waits. (A round trip on one host or between two neighbours takes less than a
  // tenth of it, and what a server computes for a large batch a few milliseconds.)
  static constexpr std::chrono::milliseconds kLong{8};

  struct Task {
    std::function<Result<void>()> call;
    std::shared_ptr<Pending> pending;
  };
  void loop();
  // As many as are of use now. Requires: the lock.
  void add_threads();

  const size_t most_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  size_t busy_ = 0;
  bool long_ = false;  // the call that ended last took long
  bool stopping_ = false;
  std::vector<std::thread> threads_;  // the first is started by the first call
};

}  // namespace flota
