#pragma once

#include <algorithm>
#include <chrono>
#include <span>
#include <vector>

#include "client/link.h"
#include "wire/codec.h"

// Calls whose requests and replies are small messages.
namespace flota {

template <class Receive>
Call small_call(MessageKind kind, const Writer& payload, Receive receive) {
  Call call;
  call.kind = kind;
  call.payload_bytes = payload.bytes().size();
  call.send = [bytes = std::vector<std::byte>(payload.bytes().begin(), payload.bytes().end())](
                  FrameWriter& frame, Deadline deadline) { return frame.write(bytes, deadline); };
  call.receive = [receive](FrameReader& frame, Deadline deadline) -> Result<void> {
    std::vector<std::byte> buffer;
    FLOTA_ASSIGN(auto reply, frame.rest(buffer, deadline));
    return receive(reply);
  };
  return call;
}

inline Result<void> expect_nothing(std::span<const std::byte> reply) {
  if (reply.empty()) return {};
  return Error{ErrorCode::kMalformed, "an answer with a payload where none belongs"};
}

// For how long a server shall wait for other workers: a little less than this client waits for it, so that its answer,
// which names the missing, arrives in time.
inline uint64_t wait_at_server(std::chrono::milliseconds time) {
  return static_cast<uint64_t>(std::max<int64_t>(time.count() - std::min<int64_t>(time.count() / 10, 1000), 1));
}

}  // namespace flota
