#include "server/barriers.h"

namespace flota {
namespace {

std::string missing(const std::map<uint32_t, uint32_t>& waiting, uint32_t world) {
  constexpr int kNamed = 8;
  std::string text;
  uint32_t count = 0;
  for (uint32_t rank = 0; rank < world; ++rank) {
    if (waiting.contains(rank)) continue;
    if (++count <= kNamed) text += (count > 1 ? ", " : "") + std::to_string(rank);
  }
  if (count > kNamed) text += " and " + std::to_string(count - kNamed) + " more";
  return (count == 1 ? "worker " : "workers ") + text;
}

}  // namespace

Result<void> Barriers::arrive(const std::string& name, uint64_t round, uint32_t rank, uint32_t world,
                              Deadline deadline) {
  std::unique_lock lock(mutex_);
  const std::string what = "barrier '" + name + "' round " + std::to_string(round);
  if (places_.size() >= kMaxBarriers && !places_.contains(name)) {
    return Error{ErrorCode::kBusy, "too many barrier names; use one name and its rounds"};
  }
  Place& place = places_[name];
  // A server that was restarted learns the round from whoever comes first.
  if (place.waiting.empty() && round > place.round) place.round = round;
  if (place.waiting.empty()) place.world = world;
  if (round < place.round) return {};  // everybody came to that round; the answer got lost
  if (round > place.round) {
    return invalid(what + ": worker " + std::to_string(rank) + " is ahead of the others, who wait in round " +
                   std::to_string(place.round));
  }
  if (world != place.world) {
    return invalid(what + ": worker " + std::to_string(rank) + " says there are " + std::to_string(world) +
                   " workers, others say " + std::to_string(place.world));
  }
  ++place.waiting[rank];
  if (place.waiting.size() == world) {
    place.waiting.clear();
    ++place.round;
    lock.unlock();
    changed_.notify_all();
    return {};
  }
  while (!stopped_ && place.round == round && !deadline.passed()) changed_.wait_until(lock, deadline.when());
  if (place.round > round) return {};
  if (stopped_) return Error{ErrorCode::kShuttingDown, what + ": the server is stopping"};
  Error late{ErrorCode::kDeadline, what + ": worker " + std::to_string(rank) + " waited in vain for " +
                                       missing(place.waiting, world) + " of " + std::to_string(world)};
  if (--place.waiting[rank] == 0) place.waiting.erase(rank);
  return late;
}

void Barriers::stop() {
  {
    std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
}

}  // namespace flota
