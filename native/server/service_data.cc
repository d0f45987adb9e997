// What a server does for data sets: who trains which shard.
#include "server/service.h"

namespace flota {

Result<Writer> Service::lease(Payload payload) {
  FLOTA_ASSIGN(auto message, LeaseRequest::decode(payload));
  FLOTA_ASSIGN(LeaseReply reply, leases_.ask(message, wait_deadline(message.wait_ms)));
  Writer out;
  reply.encode(out);
  return out;
}

Result<Writer> Service::lease_states(Payload payload) {
  if (!payload.empty()) return Error{ErrorCode::kMalformed, "a question for the state of leases has no payload"};
  Writer out;
  leases_.state().encode(out);
  if (out.bytes().size() <= max_payload_) return out;
  return Error{ErrorCode::kTooLarge, "the state of leases has " + std::to_string(out.bytes().size()) +
                                         " bytes, which do not fit a message of this server; start it with a larger "
                                         "--max-payload-mb"};
}

Result<Writer> Service::restore_leases(Payload payload) {
  FLOTA_ASSIGN(auto message, LeaseStates::decode(payload));
  FLOTA_TRY(leases_.restore(message));
  return Writer();
}

}  // namespace flota
