#pragma once

#include <string>

#include "client/client.h"

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

inline Result<void> take_push_reply(FrameReader& frame, Deadline deadline) {
  std::vector<std::byte> buffer;
  FLOTA_ASSIGN(auto reply, frame.rest(buffer, deadline));
  FLOTA_TRY(PushReply::decode(reply));
  return {};
}

}  // namespace flota
