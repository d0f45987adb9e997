#include "client/background.h"

#include <algorithm>
#include <utility>

#include "common/interrupt.h"

namespace flota {

Result<void> Pending::wait(Deadline deadline) {
  std::unique_lock lock(mutex_);
  while (!done_ && !deadline.passed()) {
    changed_.wait_for(lock, Interrupt::slice(deadline.left()));
    if (!done_) FLOTA_TRY(Interrupt::check());
  }
  if (!done_) return Error{ErrorCode::kDeadline, "the call is still going on"};
  return outcome_;
}

bool Pending::done() const {
  std::lock_guard lock(mutex_);
  return done_;
}

void Pending::finish(Result<void> outcome) {
  {
    std::lock_guard lock(mutex_);
    outcome_ = std::move(outcome);
    done_ = true;
  }
  changed_.notify_all();
}

std::shared_ptr<Pending> Background::run(std::function<Result<void>()> call) {
  auto pending = std::make_shared<Pending>();
  {
    std::lock_guard lock(mutex_);
    if (stopping_) {
      pending->finish(Error{ErrorCode::kCancelled, "the client is closed"});
      return pending;
    }
    tasks_.push_back({std::move(call), pending});
    add_threads();
  }
  changed_.notify_all();
  return pending;
}

bool Background::idle() const {
  std::lock_guard lock(mutex_);
  return tasks_.empty() && busy_ == 0;
}

void Background::stop() {
  std::vector<std::thread> threads;
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    threads.swap(threads_);
  }
  changed_.notify_all();
  for (std::thread& thread : threads) thread.join();
}

void Background::add_threads() {
  const size_t useful = std::min(long_ ? most_ : 1, busy_ + tasks_.size());
  while (!stopping_ && threads_.size() < useful) threads_.emplace_back([this] { loop(); });
}

void Background::loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    // Where calls have become short again, one thread takes them all.
    const auto has_work = [this] { return !tasks_.empty() && (busy_ == 0 || long_); };
    while (!has_work() && !(stopping_ && tasks_.empty())) changed_.wait(lock);
    if (tasks_.empty()) return;
    Task task = std::move(tasks_.front());
    tasks_.pop_front();
    ++busy_;
    lock.unlock();
    const auto began = Deadline::Clock::now();
    Result<void> outcome = task.call();
    const bool took_long = most_ > 1 && Deadline::Clock::now() - began >= kLong;
    lock.lock();
    // Before anybody hears of the outcome, and hands in the next call.
    long_ = took_long;
    --busy_;
    add_threads();
    if (!tasks_.empty() || stopping_) changed_.notify_all();
    lock.unlock();
    task.pending->finish(std::move(outcome));
    // The call holds the caller's arrays: let go of them before the next wait.
    task = {};
    lock.lock();
  }
}

}  // namespace flota
