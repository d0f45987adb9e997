// What a server does for data sets: who trains which shard, and letters from worker to worker.
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

Result<Writer> Service::send(Payload payload) {
  FLOTA_ASSIGN(auto message, Send::decode(payload));
  FLOTA_TRY(mailboxes_.send(message, wait_deadline(message.wait_ms)));
  return Writer();
}

Result<void> Service::receive(uint64_t request, Payload payload, Stream& stream, Result<void>& sent) {
  FLOTA_ASSIGN(auto message, Receive::decode(payload));
  FLOTA_ASSIGN(Letter letter, mailboxes_.receive(message, wait_deadline(message.wait_ms)));
  if (journal_ != nullptr) FLOTA_TRY(journal_->settle());
  const auto bytes = letter.over ? Payload() : Payload(*letter.bytes);
  Writer head;
  LetterHead{letter.over, letter.last, letter.from, bytes.size()}.encode(head);
  sent = half_said();
  sent = [&]() -> Result<void> {
    FrameWriter frame(stream);
    const std::byte zeros[8] = {};
    FLOTA_TRY(frame.begin(MessageKind::kReply, request, LetterHead::kBytes + padded(bytes.size()), io_deadline()));
    FLOTA_TRY(frame.write(head.bytes(), io_deadline()));
    FLOTA_TRY(frame.write(bytes, io_deadline()));
    FLOTA_TRY(frame.write(std::span(zeros).first(padded(bytes.size()) - bytes.size()), io_deadline()));
    return frame.end(io_deadline());
  }();
  return {};
}

}  // namespace flota
