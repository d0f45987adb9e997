#include "server/clocks.h"

#include <algorithm>

#include "common/hash.h"
#include "server/wording.h"

namespace flota {

std::shared_ptr<const Team::Roll> Clocks::roll() const {
  static const auto kNobody = std::make_shared<const Team::Roll>();
  return team_ == nullptr ? kNobody : team_->roll();
}

bool Clocks::Group::misses(uint32_t rank, const Team::Roll& roll) const {
  if (ranks.contains(rank)) return false;
  if (world != 0) return rank < world;
  const auto member = roll.late.find(rank);
  return member != roll.late.end() && !member->second;
}

bool Clocks::Group::misses_any_beside(uint32_t rank, const Team::Roll& roll) const {
  if (world != 0) return ranks.size() < world;
  return std::ranges::any_of(roll.late,
                             [&](const auto& member) { return member.first != rank && misses(member.first, roll); });
}

bool Clocks::Group::over(const Team::Roll& roll) const {
  constexpr uint32_t kNobody = ~uint32_t{0};
  return !ranks.empty() && !misses_any_beside(kNobody, roll) &&
         std::ranges::all_of(ranks, [](const auto& entry) { return entry.second.left; });
}

uint64_t Clocks::Group::slowest_beside(uint32_t rank, const Team::Roll& roll) const {
  if (misses_any_beside(rank, roll)) return 0;
  uint64_t least = ~uint64_t{0};
  for (const auto& [other, member] : ranks) {
    if (other != rank && !member.left && !member.rests) least = std::min(least, member.step);
  }
  return least;
}

std::string Clocks::Group::behind(uint64_t step, uint32_t rank, const Team::Roll& roll) const {
  constexpr int kNamed = 4;
  std::string text;
  int count = 0;
  const uint32_t all = world == 0 ? roll.workers() : world;
  for (uint32_t other = 0; other < all; ++other) {
    const auto found = ranks.find(other);
    const bool known = found != ranks.end();
    if (other == rank || (!known && !misses(other, roll))) continue;
    if (known && (found->second.left || found->second.rests || found->second.step >= step)) continue;
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
  const auto now = roll();
  return std::ranges::none_of(groups_, [&](const auto& entry) { return entry.second->over(*now); });
}

Result<bool> Clocks::check(const Group* group, const Advance& message) const {
  const auto at_work = incarnations_.find(message.rank);
  if (at_work != incarnations_.end() && message.incarnation < at_work->second) {
    return replaced(message.rank, at_work->second, message.incarnation);
  }
  if (message.world == 0 && (team_ == nullptr || !team_->roll()->has(message.rank))) {
    return invalid(worker(message.rank) + " is none of this job's: it has not joined it, or has left");
  }
  // Where everybody has left, the next group of this name begins anew.
  if (group == nullptr || (group->over(*roll()) && !message.leave && !message.rest)) return true;
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
    boost::unordered::erase_if(groups_, [&](const auto& entry) { return entry.second->over(*roll()); });
  }
  std::shared_ptr<Group>& group = groups_[id];
  if (!group) group = std::make_shared<Group>();
  if (group->over(*roll()) && !message.leave && !message.rest) group->ranks.clear();
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
    const uint64_t others = group->slowest_beside(message.rank, *roll());
    return others == ~uint64_t{0} ? message.step : others;
  }
  const uint64_t wanted = message.step - std::min(message.step, message.behind);
  // Asked anew each time: workers come and go.
  auto slowest = [&] { return group->slowest_beside(message.rank, *roll()); };
  while (slowest() < wanted && !stopped_ && !deadline.passed()) group->changed.wait_until(lock, deadline.when());
  if (slowest() >= wanted) return std::min(slowest(), message.step);
  if (stopped_) return Error{ErrorCode::kShuttingDown, "the server is stopping"};
  return Error{ErrorCode::kDeadline, worker(message.rank) + " waited " + seconds(message.wait_ms) + " for step " +
                                         std::to_string(wanted) + ": " + group->behind(wanted, message.rank, *roll())};
}

void Clocks::leave(uint32_t rank) {
  for (auto& [id, group] : groups_) {
    if (group->world != 0) continue;
    group->ranks.erase(rank);
    group->changed.notify_all();
  }
  boost::unordered::erase_if(groups_, [](const auto& entry) { return entry.second->ranks.empty(); });
}

void Clocks::stop() {
  std::lock_guard lock(mutex_);
  stopped_ = true;
  for (auto& [id, group] : groups_) group->changed.notify_all();
}

}  // namespace flota
