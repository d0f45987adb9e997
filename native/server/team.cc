#include "server/team.h"

#include <algorithm>

#include "server/wording.h"

namespace flota {
namespace {

std::string count_of(uint32_t workers) { return std::to_string(workers) + (workers == 1 ? " worker" : " workers"); }

}  // namespace

std::shared_ptr<const Team::Roll> Team::roll() const {
  std::lock_guard lock(mutex_);
  return roll_;
}

TeamReply Team::told() const { return {mode_, false, roll_->workers(), wanted_, version_}; }

Result<TeamReply> Team::answer(const TeamRequest& message, Deadline deadline) {
  std::unique_lock lock(mutex_);
  if (message.part == TeamPart::kJoin) return join(lock, message, deadline);
  if (message.part == TeamPart::kScale) {
    FLOTA_TRY(check_scale(message));
    if (message.workers != wanted_) FLOTA_TRY(change(message));
  }
  if (message.part == TeamPart::kPin) FLOTA_TRY(pin(lock, message, deadline));
  return told();
}

Result<void> Team::pin(std::unique_lock<std::mutex>& lock, const TeamRequest& message, Deadline deadline) {
  if (!roll_->has(message.rank)) return invalid(worker(message.rank) + " is none of this job's");
  // One that is to leave itself has no part in what comes.
  while (roll_->workers() > wanted_ && message.rank < wanted_) {
    if (stopped_) return Error{ErrorCode::kShuttingDown, "the server is stopping"};
    if (deadline.passed()) {
      return Error{ErrorCode::kDeadline,
                   worker(message.rank) + " waited " + seconds(message.wait_ms) + " for " +
                       missing_workers(roll_->workers(), [&](uint32_t r) { return r < wanted_ || !roll_->has(r); }) +
                       " to leave, before " + message.why};
    }
    changed_.wait_until(lock, deadline.when());
  }
  // Each worker says it, again and again.
  return pinned_.empty() ? change(message) : Result<void>();
}

Result<bool> Team::can_join(const TeamRequest& message) const {
  const std::string who = worker(message.rank);
  if (!known()) return true;
  if (message.mode != mode_) {
    return invalid(who + " trains in " + to_string(message.mode) + " mode, others in " + to_string(mode_) + " mode");
  }
  const bool member = roll_->has(message.rank);
  if (!member && message.rank >= wanted_) {
    const std::string how = mode_ == TeamMode::kAsync
                                ? ": `flota scale --workers " + std::to_string(message.rank + 1) + "` lets it join"
                                : "";
    return invalid(who + " is none of this job's " + count_of(wanted_) + how);
  }
  // Later on, who starts a worker again may not have heard of another number.
  if (version_ == 0 && message.workers != first_) {
    return invalid(who + " says there are " + std::to_string(message.workers) + " workers, others say " +
                   std::to_string(first_));
  }
  if (member) return true;
  if (!pinned_.empty()) return invalid(who + " comes too late: " + fixed());
  for (uint32_t lower = 0; lower < message.rank; ++lower) {
    if (!roll_->has(lower)) return false;
  }
  return true;
}

Result<TeamReply> Team::join(std::unique_lock<std::mutex>& lock, const TeamRequest& message, Deadline deadline) {
  for (;;) {
    if (stopped_) return Error{ErrorCode::kShuttingDown, "the server is stopping"};
    FLOTA_ASSIGN(const bool now, can_join(message));
    if (now) break;
    if (deadline.passed()) {
      return Error{ErrorCode::kDeadline, worker(message.rank) + " waited " + seconds(message.wait_ms) + " to join: " +
                                             missing_workers(message.rank, [&](uint32_t r) { return roll_->has(r); }) +
                                             " has to join before it"};
    }
    changed_.wait_until(lock, deadline.when());
  }
  if (!roll_->has(message.rank)) FLOTA_TRY(change(message));
  TeamReply reply = told();
  reply.late = roll_->late.at(message.rank);
  return reply;
}

Result<void> Team::check_scale(const TeamRequest& message) const {
  if (!known()) return Error{ErrorCode::kBusy, "no worker has joined the job yet: try again in a moment"};
  if (mode_ != TeamMode::kAsync) {
    const std::string why = mode_ == TeamMode::kSync
                                ? "its workers make every step together, and a step's average is over all of them"
                                : "each worker's moves are divided by the number of workers";
    return invalid(std::string("this job trains in ") + to_string(mode_) +
                   " mode, where the number of workers is fixed: " + why + "; only an async job can be scaled");
  }
  if (!pinned_.empty() && message.workers != wanted_) return invalid(fixed());
  return {};
}

std::string Team::fixed() const {
  return "the number of workers is fixed, as the job has come to " + pinned_ +
         ": each worker's part of the data goes by that number";
}

Result<TeamReply> Team::leave(const TeamRequest& message) {
  // Servers beside the first know no members, and write it down for their other parts.
  FLOTA_TRY(write_message(journal_, RecordKind::kTeam, message));
  if (roll_->has(message.rank)) apply(message);
  changed_.notify_all();
  return told();
}

Result<void> Team::change(const TeamRequest& message) {
  FLOTA_TRY(write_message(journal_, RecordKind::kTeam, message));
  apply(message);
  changed_.notify_all();
  return {};
}

void Team::apply(const TeamRequest& message) {
  auto roll = std::make_shared<Roll>(*roll_);
  switch (message.part) {
    case TeamPart::kJoin:
      if (known()) {
        roll->late.emplace(message.rank, true);
        ++version_;
        break;
      }
      mode_ = message.mode;
      first_ = wanted_ = message.workers;
      for (uint32_t rank = 0; rank < first_; ++rank) roll->late.emplace_hint(roll->late.end(), rank, false);
      break;
    case TeamPart::kLeave:
      roll->late.erase(message.rank);
      ++version_;
      break;
    case TeamPart::kScale:
      wanted_ = message.workers;
      ++version_;
      break;
    case TeamPart::kPin:
      pinned_ = message.why;
      wanted_ = std::min(wanted_, std::max(roll->workers(), 1u));  // who has not come by now comes no more
      break;
    case TeamPart::kAsk:
      break;
  }
  roll_ = std::move(roll);
}

void Team::stop() {
  {
    std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
}

}  // namespace flota
