// What becomes of a worker's steps when it is started again.
#include "common/hash.h"
#include "server/steps.h"
#include "server/wording.h"

namespace flota {

Result<void> Steps::check_incarnation(const Group& group, uint32_t rank, uint32_t incarnation) {
  const auto found = group.incarnations.find(rank);
  if (found == group.incarnations.end() || incarnation >= found->second) return {};
  return Error{ErrorCode::kStaleEpoch, worker(rank) + " was started again: incarnation " +
                                           std::to_string(found->second) + " has taken the place of " +
                                           std::to_string(incarnation) + ", which must stop"};
}

void Steps::rejoin(uint32_t rank, uint32_t incarnation, bool drop) {
  std::lock_guard lock(mutex_);
  incarnations_[rank] = incarnation;
  for (auto& [id, group] : groups_) {
    std::lock_guard inside(group->mutex);
    group->incarnations[rank] = incarnation;
    const auto found = group->ranks.find(rank);
    // What it has finished counts; all servers hold the pushes of such a step.
    if (drop && found != group->ranks.end() && !found->second.finished) found->second.pushes.clear();
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
