// Workers that come and go: what each part of the server does about it.
#include "server/service.h"

namespace flota {

void Leases::leave(uint32_t rank) {
  for (auto& [name, pass] : passes_) {
    for (auto& [number, epoch] : pass.open) epoch->free_all(rank);
  }
}

void Service::apply_leave(uint32_t rank) {
  rejoins_.leave(rank);
  clocks_.leave(rank);
  leases_.leave(rank);
  board_.leave(rank);
}

Result<void> Service::replay_team(RecordKind kind, Payload payload) {
  FLOTA_TRY(team_.replay(kind, payload));
  if (kind == RecordKind::kTeams) return {};
  FLOTA_ASSIGN(auto message, TeamRequest::decode(payload));
  if (message.part == TeamPart::kLeave) apply_leave(message.rank);
  return {};
}

Result<Writer> Service::team(Payload payload) {
  FLOTA_ASSIGN(auto message, TeamRequest::decode(payload));
  TeamReply reply;
  if (message.part == TeamPart::kLeave) {
    {
      // All parts know it when its record is written.
      const Frozen frozen = freeze();
      FLOTA_ASSIGN(reply, team_.leave(message));
      apply_leave(message.rank);
    }
    barriers_.leave(message.rank);
  } else {
    FLOTA_ASSIGN(reply, team_.answer(message, wait_deadline(message.wait_ms)));
    // The others wait for it beyond their deadlines until it says how far it has come.
    if (message.part == TeamPart::kJoin && reply.late) rejoins_.coming(message.rank);
  }
  Writer out;
  reply.encode(out);
  return out;
}

}  // namespace flota
