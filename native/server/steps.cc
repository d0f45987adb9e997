#include "server/steps.h"

#include <algorithm>

#include "common/hash.h"
#include "server/wording.h"

namespace flota {
namespace {

Error failed_before() {
  return {ErrorCode::kSystem, "an earlier step could not be applied whole; the job must be restored from a save"};
}

}  // namespace

Result<std::shared_ptr<Steps::Group>> Steps::group(uint64_t id) {
  std::lock_guard lock(mutex_);
  if (stopped_) return Error{ErrorCode::kShuttingDown, "the server is stopping"};
  const auto found = groups_.find(id);
  if (found != groups_.end()) return found->second;
  // A training begins a new group after every barrier. Those that all have left are kept for answers that got lost,
  // but not for ever.
  if (groups_.size() >= kMaxGroups) {
    boost::unordered::erase_if(groups_, [](const auto& entry) {
      std::lock_guard inside(entry.second->mutex);
      return over(*entry.second);
    });
  }
  if (groups_.size() >= kMaxGroups) return Error{ErrorCode::kBusy, "too many groups of workers"};
  return groups_[id] = std::make_shared<Group>();
}

bool Steps::over(const Group& group) {
  return group.world != 0 &&
         std::all_of(group.ranks.begin(), group.ranks.end(), [](const auto& entry) { return entry.second.left; });
}

Result<void> Steps::check_step(Group& group, uint32_t rank, uint64_t step) {
  if (group.failed) return failed_before();
  // Where everybody has left, the next group of this name begins anew.
  if (over(group)) {
    group.begun = false;
    group.world = 0;
    group.ranks.clear();
  }
  if (!group.begun) {
    group.begun = true;
    group.step = step;
  }
  if (group.ranks[rank].left) return invalid(worker(rank) + " has left its group and takes no part in later steps");
  if (step == group.step) return {};
  return invalid(worker(rank) + " is at step " + std::to_string(step) + ", the others are at step " +
                 std::to_string(group.step) + "; a worker that was restarted must begin where they are");
}

Result<void> Steps::hold(uint64_t id, uint32_t rank, uint64_t step, HeldPush push) {
  FLOTA_ASSIGN(auto group, this->group(id));
  std::lock_guard lock(group->mutex);
  FLOTA_TRY(check_step(*group, rank, step));
  Member& member = group->ranks[rank];
  if (member.finished) return invalid(worker(rank) + " pushes to step " + std::to_string(step) + ", which it finished");
  member.pushes.push_back(std::move(push));
  return {};
}

bool Steps::complete(const Group& group) {
  const auto here = std::count_if(group.ranks.begin(), group.ranks.end(),
                                  [](const auto& entry) { return entry.second.finished || entry.second.left; });
  return static_cast<uint32_t>(here) == group.world;
}

std::string Steps::missing(const Group& group) {
  constexpr int kNamed = 4;
  std::string text;
  int count = 0;
  for (uint32_t rank = 0; rank < group.world; ++rank) {
    auto found = group.ranks.find(rank);
    const bool known = found != group.ranks.end();
    if (known && (found->second.finished || found->second.left)) continue;
    if (++count > kNamed) continue;
    text += (count > 1 ? ", " : "") + worker(rank);
    text += known && found->second.ever ? " finished nothing since step " + std::to_string(found->second.last)
                                        : " has finished no step yet";
  }
  if (count > kNamed) text += " and " + std::to_string(count - kNamed) + " more";
  return text;
}

void Steps::apply(Group& group) {
  double samples = 0;
  uint64_t count = 0;
  for (const auto& [rank, member] : group.ranks) {
    samples += member.finished ? member.samples : 0;
    count = std::max(count, member.finished ? member.count : 0);
  }
  std::vector<Share> shares;
  for (const auto& [rank, member] : group.ranks) {
    if (member.finished) shares.push_back({samples > 0 ? member.samples / samples : 0, member.pushes});
  }
  group.failed = true;  // unless the next line returns
  group.rows = std::make_shared<const std::vector<ChangedRows>>(apply_average(shares, count));
  group.failed = false;
  ++group.step;
  for (auto& [rank, member] : group.ranks) {
    member.left |= member.leaves;
    member.finished = false;
    member.pushes.clear();
  }
}

Result<Steps::Changed> Steps::finish(const FinishStep& message, Deadline deadline) {
  FLOTA_ASSIGN(auto group, this->group(hash_name(message.group)));
  std::unique_lock lock(group->mutex);
  if (const auto found = group->ranks.find(message.rank); found != group->ranks.end()) {
    const Member& known = found->second;
    const bool again = known.ever && known.last == message.step && group->step > message.step;
    if (again && (known.left || group->step == message.step + 1)) return group->rows;
  }
  FLOTA_TRY(check_step(*group, message.rank, message.step));
  if (group->world == 0) group->world = message.world;
  if (group->world != message.world || group->ranks.rbegin()->first >= group->world) {
    return invalid(worker(message.rank) + " says there are " + std::to_string(message.world) +
                   " workers, others say otherwise");
  }
  Member& member = group->ranks[message.rank];
  member.finished = member.ever = true;
  member.leaves = message.leave;
  member.last = message.step;
  member.count = message.count;
  member.samples = message.samples;
  if (complete(*group)) {
    try {
      apply(*group);
    } catch (...) {
      group->changed.notify_all();
      throw;
    }
    group->changed.notify_all();
    return group->rows;
  }
  while (group->step == message.step && !group->stopped && !group->failed && !deadline.passed()) {
    group->changed.wait_until(lock, deadline.when());
  }
  if (group->step > message.step) return group->rows;
  if (group->failed) return failed_before();
  if (group->stopped) return Error{ErrorCode::kShuttingDown, "the server is stopping"};
  return Error{ErrorCode::kDeadline, worker(message.rank) + " waited in vain for step " + std::to_string(message.step) +
                                         ": " + missing(*group)};
}

void Steps::stop() {
  std::lock_guard lock(mutex_);
  stopped_ = true;
  for (auto& [id, group] : groups_) {
    std::lock_guard inside(group->mutex);
    group->stopped = true;
    group->changed.notify_all();
  }
}

}  // namespace flota
