#include "client/step_tally.h"

#include "common/hash.h"

namespace flota {

void StepTally::answered(const PushHead& push, uint32_t server) {
  if (push.group == 0 || push.kind != PushKind::kGradient) return;
  std::lock_guard lock(mutex_);
  Worker& worker = workers_[push.rank];
  if (worker.pushes.empty() || worker.group != push.group || worker.step != push.step) {
    worker.group = push.group;
    worker.step = push.step;
    worker.pushes.assign(servers_, 0);
  }
  ++worker.pushes[server];
}

StepTally::Finish StepTally::finish(const std::string& group, uint32_t rank, uint64_t step, bool leave) {
  std::lock_guard lock(mutex_);
  Worker& worker = workers_[rank];
  const Finish& last = worker.last;
  if (last.ordinal > 0 && last.group == group && last.step == step && last.leave == leave) return last;
  const bool has_pushed = !worker.pushes.empty() && worker.group == hash_name(group) && worker.step == step;
  return {group, step, leave, last.ordinal + 1, has_pushed ? worker.pushes : std::vector<uint64_t>(servers_, 0)};
}

uint64_t StepTally::finished(uint32_t rank) {
  std::lock_guard lock(mutex_);
  return workers_[rank].last.ordinal;
}

void StepTally::finished(uint32_t rank, Finish finish) {
  std::lock_guard lock(mutex_);
  workers_[rank] = {std::move(finish), 0, 0, {}};
}

}  // namespace flota
