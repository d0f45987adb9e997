// What becomes of a worker's steps when it is started again.
#include "common/hash.h"
#include "server/steps.h"
#include "server/wording.h"

namespace flota {

Result<void> Steps::check_incarnation(const Group& group, uint32_t rank, uint32_t incarnation) {
  const auto found = group.incarnations.find(rank);
  if (found == group.incarnations.end() || incarnation >= found->second) return {};
  return replaced(rank, found->second, incarnation);
}

void Steps::rejoin(uint32_t rank, uint32_t incarnation, bool drop) {
  incarnations_[rank] = incarnation;
  for (auto& [id, group] : groups_) {
    group->incarnations[rank] = incarnation;
    const auto found = group->ranks.find(rank);
    // What it has finished counts; all servers hold the pushes of such a step. What this incarnation pushed is not
    // meant: the question may have come once more, late.
    if (drop && found != group->ranks.end() && !found->second.finished) {
      std::erase_if(found->second.pushes, [&](const HeldPush& push) { return push.incarnation < incarnation; });
    }
  }
}

Steps::Standing Steps::standing(uint32_t rank) {
  std::lock_guard lock(mutex_);
  Standing standing{finishes_.of(rank), true};
  const auto found = groups_.find(hash_name(standing.last.group));
  // A group that is not there any more is one that all have left.
  if (found == groups_.end()) return standing;
  std::lock_guard inside(found->second->mutex);
  standing.applied = !found->second->begun || found->second->step > standing.last.step;
  return standing;
}

}  // namespace flota
