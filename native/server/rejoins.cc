#include "server/rejoins.h"

#include <algorithm>

#include "server/wording.h"

namespace flota {

Rejoins::Worker Rejoins::of(uint32_t rank) const {
  std::lock_guard lock(mutex_);
  const auto found = workers_.find(rank);
  return found == workers_.end() ? Worker() : found->second;
}

Result<void> Rejoins::check(const Rejoin& message) const {
  const auto found = workers_.find(message.rank);
  if (found == workers_.end() || message.incarnation >= found->second.incarnation) return {};
  return replaced(message.rank, found->second.incarnation, message.incarnation);
}

void Rejoins::take(const Rejoin& message) {
  Worker& worker = workers_[message.rank];
  worker.worker = message.worker;
  worker.world = message.world;
  worker.incarnation = message.incarnation;
  worker.starts = message.starts;
  if (message.part != RejoinPart::kNote) return;
  worker.steps = message.steps;
  worker.position.assign(message.position.begin(), message.position.end());
}

Result<void> Rejoins::claim(const Rejoin& message) {
  FLOTA_TRY(check(message));
  FLOTA_TRY(write_message(journal_, RecordKind::kRejoin, message));
  take(message);
  // A worker that has just begun again is on its way, until it says how far.
  if (message.starts > 1) ways_[message.rank] = {0, 0, Clock::now()};
  return {};
}

Result<void> Rejoins::note(const Rejoin& message) {
  std::lock_guard lock(mutex_);
  FLOTA_TRY(check(message));
  const auto known = workers_.find(message.rank);
  const bool news = known == workers_.end() || known->second.steps != message.steps ||
                    known->second.incarnation != message.incarnation ||
                    !std::ranges::equal(known->second.position, message.position);
  if (news) {
    FLOTA_TRY(write_message(journal_, RecordKind::kRejoin, message));
    take(message);
  }
  if (message.target == 0) {
    ways_.erase(message.rank);
  } else {
    ways_[message.rank] = {message.reached, message.target, Clock::now()};
  }
  return {};
}

void Rejoins::leave(uint32_t rank) {
  ways_.erase(rank);
  const auto found = workers_.find(rank);
  if (found == workers_.end()) return;
  // Its incarnation stays: bytes of it may still lie in a socket.
  found->second.starts = 0;
  found->second.steps = 0;
  found->second.position.clear();
}

void Rejoins::coming(uint32_t rank) {
  std::lock_guard lock(mutex_);
  ways_[rank].heard = Clock::now();
}

std::vector<OnItsWay> Rejoins::on_their_way(std::chrono::milliseconds within) const {
  std::lock_guard lock(mutex_);
  std::vector<OnItsWay> all;
  for (const auto& [rank, way] : ways_) {
    if (Clock::now() - way.heard <= within) all.push_back({rank, way.reached, way.target});
  }
  return all;
}

Freeze Rejoins::freeze() {
  Freeze frozen;
  frozen.locks.emplace_back(mutex_);
  return frozen;
}

Result<void> Rejoins::save(Journal& out) const {
  for (const auto& [rank, known] : workers_) {
    const Rejoin message{RejoinPart::kNote, known.worker, rank, known.world, known.incarnation,
                         known.starts,      known.steps,  0,    0,           0,
                         known.position};
    FLOTA_TRY(write_message(&out, RecordKind::kRejoins, message));
  }
  return {};
}

Result<void> Rejoins::replay(RecordKind kind, std::span<const std::byte> payload) {
  const auto apply = [&]() -> Result<void> {
    if (kind != RecordKind::kRejoin && kind != RecordKind::kRejoins) return unknown_record(kind);
    FLOTA_ASSIGN(auto message, Rejoin::decode(payload));
    if (message.part == RejoinPart::kAsk || message.part == RejoinPart::kComing) {
      return malformed("it changes nothing that outlives a server");
    }
    std::lock_guard lock(mutex_);
    FLOTA_TRY(check(message));
    take(message);
    return {};
  };
  return replayed(apply(), "rejoining");
}

}  // namespace flota
