#include "server/barriers.h"

#include <algorithm>

#include "server/gathering.h"
#include "server/wording.h"

namespace flota {

Result<Barriers::Brought> Barriers::past(Place& place, const std::string& who, uint64_t count) {
  if (count == Barrier::kUncounted) return Brought();
  place.counted = true;
  if (count > place.gatherings && place.waiting.empty()) {
    place.gatherings = count;  // this server was started anew and knows nothing of those before
  }
  if (count == place.gatherings) return Brought();
  if (count > place.gatherings) {
    return invalid(who + " has been here " + std::to_string(count) + " times, others " +
                   std::to_string(place.gatherings) + " times: all workers must come to the same barriers");
  }
  const auto found = place.kept.find(count);
  if (found != place.kept.end()) return found->second;
  return invalid(who + " was started again, or has joined late, and comes here for time " + std::to_string(count + 1) +
                 ", but what workers brought then is not kept any more (the newest " + std::to_string(kMaxKept) +
                 " gatherings of a job are, up to " + std::to_string(kMaxKeptBytes >> 20) +
                 " MiB); the job must be restored from a save");
}

Result<void> Barriers::check_place(const Place& place, const std::string& who, uint32_t rank, uint32_t world) const {
  if (world != place.world) {
    const auto text = [](uint32_t count) { return count == 0 ? "those of the job" : std::to_string(count); };
    return invalid(who + " says there are " + text(world) + " workers, others say " + text(place.world));
  }
  if (world == 0 && (team_ == nullptr || !team_->roll()->has(rank))) {
    return invalid(who + " is none of this job's: it has not joined it, or has left");
  }
  return {};
}

Result<void> Barriers::check_room(const Place& place, const std::string& who, uint32_t rank, size_t brings) const {
  // Each of them is sent all of it.
  size_t all = brings;
  for (const auto& [other, waiting] : place.waiting) all += other == rank ? 0 : waiting.brings.size();
  if (all <= kMostBrought) return {};
  return Error{ErrorCode::kTooLarge, who + " and others bring more than 128 MiB together"};
}

bool Barriers::everybody_is_here(const Place& place) const {
  if (place.world != 0) return place.waiting.size() == place.world;
  const auto roll = team_->roll();
  return !roll->late.empty() &&
         std::ranges::all_of(roll->late, [&](const auto& member) { return place.waiting.contains(member.first); });
}

Result<void> Barriers::gather(const std::string& name, Place& place) {
  Gathering gathering{name, place.gatherings, place.counted, {}, {}};
  const uint32_t ranks = place.world == 0 ? team_->roll()->workers() : place.world;
  // Ranks that nobody has stand there with a call of somebody else's, and nothing that was brought.
  gathering.calls.resize(ranks, place.waiting.begin()->second.call);
  gathering.brought.resize(ranks);
  for (auto& [rank, waiting] : place.waiting) {
    if (rank >= ranks) continue;
    gathering.calls[rank] = waiting.call;
    gathering.brought[rank] = waiting.brings;
  }
  FLOTA_TRY(write_message(journal_, RecordKind::kGathering, gathering));
  place.waiting.clear();
  release(gathering);
  changed_.notify_all();
  return {};
}

std::string Barriers::missing(const Place& place) const {
  const auto roll = place.world == 0 ? team_->roll() : std::make_shared<const Team::Roll>();
  const uint32_t world = place.world == 0 ? roll->workers() : place.world;
  return missing_workers(
             world,
             [&](uint32_t rank) { return place.waiting.contains(rank) || (place.world == 0 && !roll->has(rank)); }) +
         " of " + std::to_string(place.world == 0 ? roll->late.size() : world);
}

Result<Barriers::Brought> Barriers::arrive(const std::string& name, uint64_t call, uint32_t rank, uint32_t world,
                                           Deadline deadline, std::span<const std::byte> brings, uint64_t count) {
  std::unique_lock lock(mutex_);
  const std::string who = "barrier '" + name + "': worker " + std::to_string(rank);
  if (places_.size() >= kMaxBarriers && !places_.contains(name)) {
    return Error{ErrorCode::kBusy, "too many barrier names; use one name again and again"};
  }
  Place& place = places_[name];
  if (place.released.contains(call)) return place.brought;  // everybody was here; the answer got lost
  FLOTA_ASSIGN(Brought before_now, past(place, who, count));
  if (before_now) return before_now;
  if (place.waiting.empty()) place.world = world;
  FLOTA_TRY(check_place(place, who, rank, world));
  FLOTA_TRY(check_room(place, who, rank, brings.size()));
  Waiting& mine = place.waiting[rank];
  if (mine.call != call) mine = {call, 0, {brings.begin(), brings.end()}};
  if (everybody_is_here(place)) {
    if (auto written = gather(name, place); !written) {
      if (mine.requests == 0) place.waiting.erase(rank);
      return written.error();
    }
    return place.brought;
  }
  ++mine.requests;
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
  if (!still_mine()) return invalid(who + " came again by another call, which took this one's place, or has left");
  Error late{ErrorCode::kDeadline, who + " waited in vain for " + missing(place)};
  if (--place.waiting[rank].requests == 0) place.waiting.erase(rank);
  return late;
}

void Barriers::leave(uint32_t rank) {
  std::lock_guard lock(mutex_);
  for (auto& [name, place] : places_) {
    if (place.world != 0 || place.waiting.empty()) continue;
    place.waiting.erase(rank);
    // What cannot be written now is when somebody comes again: those who wait do so at their deadline.
    if (!place.waiting.empty() && everybody_is_here(place)) (void)gather(name, place);
  }
  changed_.notify_all();
}

void Barriers::release(const Gathering& gathering) {
  Place& place = places_[gathering.name];
  place.released.clear();
  place.released.insert(gathering.calls.begin(), gathering.calls.end());
  place.brought = std::make_shared<const std::vector<std::vector<std::byte>>>(gathering.brought);
  place.gatherings = gathering.number + 1;
  place.counted |= gathering.counted;
  if (place.counted) keep(gathering.name, place, gathering.number);
}

void Barriers::keep(const std::string& name, Place& place, uint64_t number) {
  if (!place.kept.emplace(number, place.brought).second) return;
  size_t bytes = name.size();
  for (const auto& part : *place.brought) bytes += part.size();
  kept_.push_back({name, number, bytes});
  kept_bytes_ += bytes;
  while (kept_.size() > kMaxKept || kept_bytes_ > kMaxKeptBytes) {
    places_[kept_.front().name].kept.erase(kept_.front().number);
    kept_bytes_ -= kept_.front().bytes;
    kept_.pop_front();
  }
}

std::vector<Passed> Barriers::passed() const {
  std::lock_guard lock(mutex_);
  std::vector<Passed> all;
  for (const auto& [name, place] : places_) {
    if (place.counted && place.gatherings > 0) all.push_back({name, place.gatherings});
  }
  return all;
}

void Barriers::stop() {
  {
    std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
}

}  // namespace flota
