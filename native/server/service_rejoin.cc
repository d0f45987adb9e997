// A worker that was started again: what it is told, and what each part of the server does about it.
#include "server/service.h"

namespace flota {

Result<void> Ledger::rejoin(uint64_t id, uint32_t epoch) {
  FLOTA_ASSIGN(std::shared_ptr<Worker> worker, this->worker(id, epoch));
  {
    std::lock_guard lock(worker->mutex);
    if (epoch <= worker->epoch) return {};
    worker->epoch = epoch;
    worker->floor = 0;
    worker->above.clear();
  }
  worker->changed.notify_all();
  return {};
}

void Clocks::rejoin(uint32_t rank) {
  std::lock_guard lock(mutex_);
  for (auto& [id, group] : groups_) {
    const auto found = group->ranks.find(rank);
    if (found == group->ranks.end() || found->second.left) continue;
    // Nobody waits for it until its next step, which is wherever the others are then.
    found->second.rests = true;
    found->second.step = 0;
    group->changed.notify_all();
  }
}

Result<void> Leases::rejoin(uint32_t rank, uint64_t incarnation) {
  LeaseRequest message;
  message.rank = rank;
  message.incarnation = incarnation;
  std::lock_guard lock(mutex_);
  const auto known = workers_.find(rank);
  // Not written down: the record of the rejoin tells it.
  if (known == workers_.end() || known->second.incarnation < incarnation) meet_now(message);
  return {};
}

Result<void> Service::apply_rejoin(const Rejoin& message) {
  FLOTA_TRY(ledger_.rejoin(message.worker, message.incarnation));
  steps_.rejoin(message.rank, message.incarnation, message.part == RejoinPart::kDrop);
  if (message.part == RejoinPart::kDrop) return {};
  clocks_.rejoin(message.rank);
  return leases_.rejoin(message.rank, message.incarnation);
}

Result<void> Service::replay_rejoin(RecordKind kind, Payload payload) {
  FLOTA_TRY(rejoins_.replay(kind, payload));
  FLOTA_ASSIGN(auto message, Rejoin::decode(payload));
  if (kind == RecordKind::kRejoins) {
    // A snapshot has what the other parts did about it, but for this.
    steps_.rejoin(message.rank, message.incarnation, false);
    return {};
  }
  return message.part == RejoinPart::kNote ? Result<void>() : apply_rejoin(message);
}

Result<Writer> Service::rejoin(Payload payload) {
  FLOTA_ASSIGN(auto message, Rejoin::decode(payload));
  RejoinReply reply;
  switch (message.part) {
    case RejoinPart::kAsk:
      reply.on_their_way = rejoins_.on_their_way(std::chrono::milliseconds(std::min(message.within_ms, kLongestWait)));
      break;
    case RejoinPart::kClaim:
    case RejoinPart::kDrop:
      FLOTA_TRY(rejoins_.claim(message, [&] { return apply_rejoin(message); }));
      reply.passed = barriers_.passed();
      break;
    case RejoinPart::kNote:
      FLOTA_TRY(rejoins_.note(message));
      break;
  }
  const Rejoins::Worker known = rejoins_.of(message.rank);
  const Steps::Standing standing = steps_.standing(message.rank);
  const Finishes::Finish& last = standing.last;
  reply.incarnation = known.incarnation;
  reply.starts = known.starts;
  reply.steps = known.steps;
  reply.last = {standing.applied, last.leave, last.step, last.count, last.samples, last.group, last.position};
  Writer out;
  reply.encode(out);
  return out;
}

}  // namespace flota
