#include "server/finishes.h"

namespace flota {

void Finishes::note(const FinishStep& message) {
  std::lock_guard lock(mutex_);
  ranks_[message.rank] = {message.group,
                          message.step,
                          message.count,
                          message.world,
                          message.samples,
                          message.leave,
                          {message.position.begin(), message.position.end()},
                          message.ordinal,
                          {message.pushes.begin(), message.pushes.end()}};
}

Finishes::Finish Finishes::of(uint32_t rank) const {
  std::lock_guard lock(mutex_);
  const auto found = ranks_.find(rank);
  return found == ranks_.end() ? Finish() : found->second;
}

uint64_t Finishes::ordinal_of(uint32_t rank) const {
  std::lock_guard lock(mutex_);
  const auto found = ranks_.find(rank);
  return found == ranks_.end() ? 0 : found->second.ordinal;
}

Freeze Finishes::freeze() {
  Freeze frozen;
  frozen.locks.emplace_back(mutex_);
  return frozen;
}

Result<void> Finishes::save(Journal& out) const {
  for (const auto& [rank, last] : ranks_) {
    const FinishStep message{last.group, last.step,  last.count, rank, last.world,    last.samples,
                             0,          last.leave, false,      0,    last.position, last.ordinal,
                             0,          last.pushes};
    FLOTA_TRY(write_message(&out, RecordKind::kFinishes, message));
  }
  return {};
}

Result<void> Finishes::replay(RecordKind kind, std::span<const std::byte> payload) {
  const auto apply = [&]() -> Result<void> {
    if (kind != RecordKind::kFinishes) return unknown_record(kind);
    FLOTA_ASSIGN(auto message, FinishStep::decode(payload));
    note(message);
    return {};
  };
  return replayed(apply(), "finished steps");
}

}  // namespace flota
