#include "server/barriers.h"

#include "server/wording.h"

namespace flota {

Result<Barriers::Brought> Barriers::arrive(const std::string& name, uint64_t call, uint32_t rank, uint32_t world,
                                           Deadline deadline, std::span<const std::byte> brings) {
  std::unique_lock lock(mutex_);
  const std::string who = "barrier '" + name + "': worker " + std::to_string(rank);
  if (places_.size() >= kMaxBarriers && !places_.contains(name)) {
    return Error{ErrorCode::kBusy, "too many barrier names; use one name again and again"};
  }
  Place& place = places_[name];
  if (place.released.contains(call)) return place.brought;  // everybody was here; the answer got lost
  if (place.waiting.empty()) place.world = world;
  if (world != place.world) {
    return invalid(who + " says there are " + std::to_string(world) + " workers, others say " +
                   std::to_string(place.world));
  }
  Waiting& mine = place.waiting[rank];
  if (mine.call != call) mine = {call, 0, {brings.begin(), brings.end()}};
  ++mine.requests;
  if (place.waiting.size() == world) {
    place.released.clear();
    std::vector<std::vector<std::byte>> brought;
    for (auto& [other, waiting] : place.waiting) {
      place.released.insert(waiting.call);
      brought.push_back(std::move(waiting.brings));
    }
    place.brought = std::make_shared<const std::vector<std::vector<std::byte>>>(std::move(brought));
    place.waiting.clear();
    ++place.gatherings;
    Brought all = place.brought;
    lock.unlock();
    changed_.notify_all();
    return all;
  }
  changed_.notify_all();  // a call whose place was taken is waiting, too
  const uint64_t before = place.gatherings;
  auto still_mine = [&] {
    auto found = place.waiting.find(rank);
    return found != place.waiting.end() && found->second.call == call;
  };
  while (!stopped_ && place.gatherings == before && still_mine() && !deadline.passed()) {
    changed_.wait_until(lock, deadline.when());
  }
  if (place.released.contains(call)) return place.brought;
  if (stopped_) return Error{ErrorCode::kShuttingDown, who + " waited, but the server is stopping"};
  if (!still_mine()) return invalid(who + " came again by another call, which took this one's place");
  Error late{ErrorCode::kDeadline,
             who + " waited in vain for " +
                 missing_workers(world, [&](uint32_t other) { return place.waiting.contains(other); }) + " of " +
                 std::to_string(world)};
  if (--place.waiting[rank].requests == 0) place.waiting.erase(rank);
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
