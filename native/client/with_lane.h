#pragma once

#include <string>

#include "client/client.h"
#include "common/interrupt.h"

// What the parts of a client share: the way from a call to the wire.
namespace flota {

// Runs body(lane, deadline) on a lane of its own; an error tells what was being done and for how long it may take.
template <class Body>
Result<void> Client::with_lane(const std::string& what, Time time, Body body) {
  FLOTA_ASSIGN(auto lane, borrow());
  Result<void> status = body(*lane, Deadline::after(time));
  give_back(std::move(lane));
  if (status) return {};
  Error error = status.error().with(what);
  if (error.code == ErrorCode::kDeadline || error.code == ErrorCode::kUnavailable) {
    auto tenths = time.count() / 100;
    error.message += " (deadline " + std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " s)";
  }
  return error;
}

template <class Body>
Result<void> Client::ordered_push(Body body) {
  if (pushes_.idle()) return body();
  // The body uses the caller's arrays, so there is no going away from it; it has a deadline of its own.
  const Interrupt none(nullptr);
  return pushes_.run(body)->wait(Deadline::none());
}

// A push that got no answer may have been applied all the same: whoever handles the error must know.
inline Result<void> tell_doubt(Result<void> pushed) {
  if (pushed) return {};
  Error error = pushed.error();
  if (error.code == ErrorCode::kDeadline || error.code == ErrorCode::kUnavailable) {
    error.message += "; servers that did not answer may have applied it or not";
  }
  return error;
}

// Takes the answer to a push. That it had been applied before is what a repeated one may hear; to one that was sent
// once it means that somebody else pushes under this worker's name, and that this push was not applied.
inline void Client::expect_push_reply(Call& call, const PushHead& head, uint32_t server) {
  call.receive = [this, head, server, repeated = call.repeated](FrameReader& frame, Deadline deadline) -> Result<void> {
    std::vector<std::byte> buffer;
    FLOTA_ASSIGN(auto bytes, frame.rest(buffer, deadline));
    FLOTA_ASSIGN(PushReply reply, PushReply::decode(bytes));
    if (reply.applied || *repeated) {
      tally_.answered(head, server);
      return {};
    }
    return Error{ErrorCode::kStaleEpoch,
                 "the push was not applied: another client pushes as the same worker and epoch; "
                 "give each worker its own number, and a restarted one a higher epoch"};
  };
}

}  // namespace flota
