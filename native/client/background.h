#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

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

// Runs calls one after another, in the order they were handed in, on a thread of its own.
class Background {
 public:
  ~Background() { stop(); }

  std::shared_ptr<Pending> run(std::function<Result<void>()> call);
  // Whether nothing is running or waiting.
  bool idle() const;
  // Waits for what was handed in, then ends the thread; later calls fail with kCancelled.
  void stop();

 private:
  struct Task {
    std::function<Result<void>()> call;
    std::shared_ptr<Pending> pending;
  };
  void loop();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  bool busy_ = false;
  bool stopping_ = false;
  std::thread thread_;  // started by the first call
};

}  // namespace flota
