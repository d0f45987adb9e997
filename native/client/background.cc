#include "client/background.h"

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
    if (!thread_.joinable()) thread_ = std::thread([this] { loop(); });
  }
  changed_.notify_all();
  return pending;
}

bool Background::idle() const {
  std::lock_guard lock(mutex_);
  return tasks_.empty() && !busy_;
}

void Background::stop() {
  std::thread thread;
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    thread.swap(thread_);
  }
  changed_.notify_all();
  if (thread.joinable()) thread.join();
}

void Background::loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    while (tasks_.empty() && !stopping_) changed_.wait(lock);
    if (tasks_.empty()) return;
    Task task = std::move(tasks_.front());
    tasks_.pop_front();
    busy_ = true;
    lock.unlock();
    task.pending->finish(task.call());
    // The call holds the caller's arrays: let go of them before the next wait.
    task = {};
    lock.lock();
    busy_ = false;
  }
}

}  // namespace flota
