// A worker that was started again: what it is told, and what each part of the server does about it.
#include "server/service.h"

namespace flota {

Result<void> Ledger::rejoin(uint64_t id, uint32_t epoch) {
  FLOTA_ASSIGN(std::shared_ptr<Worker> worker, find_or_make(id, epoch));
  if (epoch <= worker->epoch) return {};
  worker->begin(epoch);
  worker->changed.notify_all();
  return {};
}

void Clocks::rejoin(uint32_t rank, uint32_t incarnation) {
  incarnations_[rank] = incarnation;
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
  const auto known = workers_.find(rank);
  // Not written down: the record of the rejoin tells it.
  if (known == workers_.end() || known->second.incarnation < incarnation) meet_now(message);
  return {};
}

Result<void> Service::apply_rejoin(const Rejoin& message) {
  FLOTA_TRY(ledger_.rejoin(message.worker, message.incarnation));
  steps_.rejoin(message.rank, message.incarnation, message.part == RejoinPart::kDrop);
  if (message.part == RejoinPart::kDrop) return {};
  clocks_.rejoin(message.rank, message.incarnation);
  return leases_.rejoin(message.rank, message.incarnation);
}

Result<void> Service::replay_rejoin(RecordKind kind, Payload payload) {
  FLOTA_TRY(rejoins_.replay(kind, payload));
  FLOTA_ASSIGN(auto message, Rejoin::decode(payload));
  if (kind == RecordKind::kRejoins) {
    // A snapshot has what the other parts did about it, but for this. It comes before their groups.
    steps_.rejoin(message.rank, message.incarnation, false);
    clocks_.rejoin(message.rank, message.incarnation);
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
    case RejoinPart::kDrop: {
      {
        // All parts know it when its record is written: nothing of an earlier incarnation comes after it in the log.
        const Frozen frozen = freeze();
        FLOTA_TRY(rejoins_.claim(message));
        FLOTA_TRY(apply_rejoin(message));
      }
      reply.passed = barriers_.passed();
      break;
    }
    case RejoinPart::kNote:
      FLOTA_TRY(rejoins_.note(message));
      break;
    case RejoinPart::kComing:
      rejoins_.coming(message.rank);
      break;
  }
  const Rejoins::Worker known = rejoins_.of(message.rank);
  const Steps::Standing standing = steps_.standing(message.rank);
  const Finishes::Finish& last = standing.last;
  reply.incarnation = known.incarnation;
  reply.starts = known.starts;
  reply.steps = known.steps;
  reply.position = known.position;
  reply.last = {standing.applied, last.leave,    last.step,    last.count, last.samples,
                last.group,       last.position, last.ordinal, last.pushes};
  Writer out;
  reply.encode(out);
  return out;
}

}  // namespace flota
