#include "server/steps.h"

#include <algorithm>

#include "common/hash.h"
#include "common/lost.h"
#include "server/wording.h"

namespace flota {
namespace {

Error failed_before() {
  return {ErrorCode::kSystem, "an earlier step could not be applied whole; the job must be restored from a save"};
}

}  // namespace

Result<std::shared_ptr<Steps::Group>> Steps::find_or_make(uint64_t id) {
  std::lock_guard lock(mutex_);
  if (stopped_) return Error{ErrorCode::kShuttingDown, "the server is stopping"};
  const auto found = groups_.find(id);
  if (found != groups_.end()) return found->second;
  // A training begins a new group after every barrier. Those that all have left are kept for answers that got lost,
  // but not for ever.
  if (groups_.size() >= kMaxGroups) {
    boost::unordered::erase_if(groups_, [](const auto& entry) {
      std::lock_guard inside(entry.second->mutex);
      return entry.second->forgotten = over(*entry.second);
    });
  }
  if (groups_.size() >= kMaxGroups) return Error{ErrorCode::kBusy, "too many groups of workers"};
  auto fresh = std::make_shared<Group>();
  fresh->incarnations = incarnations_;
  return groups_[id] = std::move(fresh);
}

Result<Steps::Entered> Steps::enter(uint64_t id) {
  for (;;) {
    FLOTA_ASSIGN(auto group, find_or_make(id));
    std::unique_lock lock(group->mutex);
    if (!group->forgotten) return Entered{std::move(group), std::move(lock)};
  }
}

bool Steps::over(const Group& group) {
  return group.world != 0 &&
         std::all_of(group.ranks.begin(), group.ranks.end(), [](const auto& entry) { return entry.second.left; });
}

Result<void> Steps::check_step(const Group& group, uint32_t rank, uint64_t step) {
  if (group.failed) return failed_before();
  if (fresh(group)) return {};
  const auto found = group.ranks.find(rank);
  if (found != group.ranks.end() && found->second.left) {
    return invalid(worker(rank) + " has left its group and takes no part in later steps");
  }
  if (step == group.step) return {};
  const std::string where = worker(rank) + " is at step " + std::to_string(step) + ", ";
  if (step > group.step) {
    return lost(where + "this server and the others are at step " + std::to_string(group.step) +
                ", and none may be left out");
  }
  return invalid(where + "the others are at step " + std::to_string(group.step) +
                 "; a worker that was restarted must begin where they are");
}

void Steps::begin(Group& group, uint64_t step) {
  if (!fresh(group)) return;
  group.begun = true;
  group.step = step;
  group.world = 0;
  group.ranks.clear();
}

Result<void> Steps::hold(uint64_t id, uint32_t rank, uint64_t step, HeldPush push, const Write& write) {
  FLOTA_ASSIGN(auto entered, enter(id));
  Group& group = *entered.group;
  FLOTA_TRY(check_incarnation(group, rank, push.incarnation));
  FLOTA_TRY(check_step(group, rank, step));
  const auto found = group.ranks.find(rank);
  if (!fresh(group) && found != group.ranks.end() && found->second.finished) {
    return invalid(worker(rank) + " pushes to step " + std::to_string(step) + ", which it finished");
  }
  if (write) FLOTA_TRY(write());
  begin(group, step);
  group.ranks[rank].pushes.push_back(std::move(push));
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
  group.rows = std::make_shared<std::vector<ChangedRows>>(apply_average(shares, count));
  group.failed = false;
  ++group.step;
  for (auto& [rank, member] : group.ranks) {
    member.left |= member.leaves;
    member.finished = false;
    member.pushes.clear();
  }
}

bool Steps::applied(const Group& group, const FinishStep& message) {
  const auto found = group.ranks.find(message.rank);
  if (found == group.ranks.end()) return false;
  const Member& known = found->second;
  if (!known.ever || known.last != message.step || group.step <= message.step) return false;
  return known.left || group.step == message.step + 1;
}

bool Steps::noted(const Group& group, const FinishStep& message) {
  const auto found = group.ranks.find(message.rank);
  if (found == group.ranks.end() || !found->second.finished) return false;
  const Member& known = found->second;
  return known.last == message.step && known.leaves == message.leave && known.count == message.count &&
         known.samples == message.samples;
}

Result<void> Steps::check_finish(const Group& group, const FinishStep& message) {
  FLOTA_TRY(check_step(group, message.rank, message.step));
  if (fresh(group)) return {};
  const bool fits = group.world == 0 || group.world == message.world;
  if (fits && (group.ranks.empty() || group.ranks.rbegin()->first < message.world)) return {};
  return invalid(worker(message.rank) + " says there are " + std::to_string(message.world) +
                 " workers, others say otherwise");
}

Result<void> Steps::check_whole(const Group& group, const FinishStep& message) const {
  const uint64_t known = finishes_.ordinal_of(message.rank);
  if (message.ordinal > known + 1) {
    return lost(worker(message.rank) + " has finished " + std::to_string(message.ordinal - 1) +
                " steps, and this server knows of " + std::to_string(known));
  }
  const auto found = group.ranks.find(message.rank);
  static const std::vector<HeldPush> kNone;
  const std::vector<HeldPush>& pushes = fresh(group) || found == group.ranks.end() ? kNone : found->second.pushes;
  const size_t held = pushes.size();
  const uint64_t answered = message.pushes.empty() ? 0 : message.pushes[message.server];
  // More may be held: of a push whose answer got lost. But not of another incarnation, which was to be forgotten.
  const bool strange = std::any_of(pushes.begin(), pushes.end(),
                                   [&](const HeldPush& push) { return push.incarnation != message.incarnation; });
  if (message.pushes.empty() || held == answered || (held > answered && !strange)) return {};
  return lost(worker(message.rank) + " was answered for " + std::to_string(answered) + " pushes of step " +
              std::to_string(message.step) + ", and this server holds " + std::to_string(held));
}

void Steps::note(Group& group, const FinishStep& message) {
  begin(group, message.step);
  group.world = message.world;
  Member& member = group.ranks[message.rank];
  member.finished = member.ever = true;
  member.leaves = message.leave;
  member.last = message.step;
  member.count = message.count;
  member.samples = message.samples;
  finishes_.note(message);
  if (complete(group)) apply(group);
}

Result<Steps::Changed> Steps::finish(const FinishStep& message, Deadline deadline) {
  FLOTA_ASSIGN(auto entered, enter(hash_name(message.group)));
  const std::shared_ptr<Group>& group = entered.group;
  FLOTA_TRY(check_incarnation(*group, message.rank, message.incarnation));
  if (applied(*group, message)) return Changed(group->rows);
  FLOTA_TRY(check_finish(*group, message));
  if (!noted(*group, message)) {
    FLOTA_TRY(check_whole(*group, message));
    FLOTA_TRY(write_message(journal_, RecordKind::kFinish, message));
    try {
      note(*group, message);
    } catch (...) {
      group->changed.notify_all();
      throw;
    }
    if (group->step > message.step) group->changed.notify_all();
  }
  while (group->step == message.step && !group->stopped && !group->failed && !deadline.passed()) {
    group->changed.wait_until(entered.lock, deadline.when());
  }
  if (group->step > message.step) return Changed(group->rows);
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
