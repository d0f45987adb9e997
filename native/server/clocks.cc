#include "server/clocks.h"

#include <algorithm>

#include "common/hash.h"
#include "server/wording.h"

namespace flota {

bool Clocks::Group::over() const {
  return world != 0 && ranks.size() == world &&
         std::all_of(ranks.begin(), ranks.end(), [](const auto& entry) { return entry.second.left; });
}

uint64_t Clocks::Group::slowest_beside(uint32_t rank) const {
  if (ranks.size() < world) return 0;
  uint64_t least = ~uint64_t{0};
  for (const auto& [other, member] : ranks) {
    if (other != rank && !member.left && !member.rests) least = std::min(least, member.step);
  }
  return least;
}

std::string Clocks::Group::behind(uint64_t step, uint32_t rank) const {
  constexpr int kNamed = 4;
  std::string text;
  int count = 0;
  for (uint32_t other = 0; other < world; ++other) {
    const auto found = ranks.find(other);
    const bool known = found != ranks.end();
    if (other == rank || (known && (found->second.left || found->second.rests || found->second.step >= step))) continue;
    if (++count > kNamed) continue;
    text += (count > 1 ? ", " : "") + worker(other);
    text += known ? " is at step " + std::to_string(found->second.step) : " has finished no step yet";
  }
  if (count > kNamed) text += " and " + std::to_string(count - kNamed) + " more";
  return text;
}

// A training begins a new group after every barrier. Those that all have left are kept for answers that got lost, but
// not for ever.
bool Clocks::full() const {
  if (groups_.size() < kMaxGroups) return false;
  return std::none_of(groups_.begin(), groups_.end(), [](const auto& entry) { return entry.second->over(); });
}

Result<bool> Clocks::check(const Group* group, const Advance& message) const {
  const auto at_work = incarnations_.find(message.rank);
  if (at_work != incarnations_.end() && message.incarnation < at_work->second) {
    return replaced(message.rank, at_work->second, message.incarnation);
  }
  // Where everybody has left, the next group of this name begins anew.
  if (group == nullptr || (group->over() && !message.leave && !message.rest)) return true;
  if (group->world != message.world) {
    return invalid(worker(message.rank) + " says there are " + std::to_string(message.world) + " workers, others say " +
                   std::to_string(group->world));
  }
  const auto found = group->ranks.find(message.rank);
  if (found == group->ranks.end()) return true;
  const Member& member = found->second;
  if (message.leave) return !member.left;
  if (member.left) return invalid(worker(message.rank) + " has left its group and takes no part in later steps");
  if (message.step < member.step) {
    return invalid(worker(message.rank) + " says it is at step " + std::to_string(message.step) +
                   ", but had finished " + std::to_string(member.step) +
                   "; a worker that was restarted must begin where it was");
  }
  return message.step != member.step || message.rest != member.rests;
}

Result<void> Clocks::note(uint64_t id, const Advance& message, Journal* journal) {
  const auto found = groups_.find(id);
  const bool known = found != groups_.end();
  FLOTA_ASSIGN(bool news, check(known ? found->second.get() : nullptr, message));
  if (!news) return {};
  if (!known && full()) return Error{ErrorCode::kBusy, "too many groups of workers"};
  FLOTA_TRY(write_message(journal, RecordKind::kAdvance, message));
  if (!known && groups_.size() >= kMaxGroups) {
    boost::unordered::erase_if(groups_, [](const auto& entry) { return entry.second->over(); });
  }
  std::shared_ptr<Group>& group = groups_[id];
  if (!group) group = std::make_shared<Group>();
  if (group->over() && !message.leave && !message.rest) group->ranks.clear();
  group->world = message.world;
  Member& member = group->ranks[message.rank];
  if (message.leave) {
    member.left = true;
  } else {
    member.step = message.step;
    member.rests = message.rest;
  }
  return {};
}

Result<uint64_t> Clocks::advance(const Advance& message, Deadline deadline) {
  std::unique_lock lock(mutex_);
  if (stopped_) return Error{ErrorCode::kShuttingDown, "the server is stopping"};
  const uint64_t id = hash_name(message.group);
  FLOTA_TRY(note(id, message, journal_));
  const std::shared_ptr<Group> group = groups_.at(id);
  group->changed.notify_all();
  if (message.leave) return message.step;
  if (message.rest) {
    const uint64_t others = group->slowest_beside(message.rank);
    return others == ~uint64_t{0} ? message.step : others;
  }
  const uint64_t wanted = message.step - std::min(message.step, message.behind);
  auto slowest = [&] { return group->slowest_beside(message.rank); };
  while (slowest() < wanted && !stopped_ && !deadline.passed()) group->changed.wait_until(lock, deadline.when());
  if (slowest() >= wanted) return std::min(slowest(), message.step);
  if (stopped_) return Error{ErrorCode::kShuttingDown, "the server is stopping"};
  return Error{ErrorCode::kDeadline, worker(message.rank) + " waited " + seconds(message.wait_ms) + " for step " +
                                         std::to_string(wanted) + ": " + group->behind(wanted, message.rank)};
}

void Clocks::stop() {
  std::lock_guard lock(mutex_);
  stopped_ = true;
  for (auto& [id, group] : groups_) group->changed.notify_all();
}

}  // namespace flota
