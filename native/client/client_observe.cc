// A client's calls for people who look on.
#include "client/client.h"
#include "client/small_call.h"
#include "client/with_lane.h"

namespace flota {

Result<PostReply> Client::post(const Post& message, Time time) {
  PostReply reply;
  FLOTA_TRY(with_lane(std::string("post a ") + to_string(message.topic), time, [&](Lane& lane, Deadline deadline) {
    Writer payload;
    message.encode(payload);
    return lane.exchange({{0, small_call(MessageKind::kPost, payload,
                                         [&](auto bytes) -> Result<void> {
                                           FLOTA_ASSIGN(reply, PostReply::decode(bytes));
                                           return {};
                                         })}},
                         deadline);
  }));
  return reply;
}

Result<ObserveReply> Client::observe(uint32_t server, const Observe& message, Time time) {
  if (server >= servers()) {
    return invalid("there is no server " + std::to_string(server) + "; there are " + std::to_string(servers()));
  }
  ObserveReply reply;
  FLOTA_TRY(with_lane("ask a server how it does", time, [&](Lane& lane, Deadline deadline) {
    Writer payload;
    message.encode(payload);
    return lane.exchange({{server, small_call(MessageKind::kObserve, payload,
                                              [&](auto bytes) -> Result<void> {
                                                FLOTA_ASSIGN(reply, ObserveReply::decode(bytes));
                                                return {};
                                              })}},
                         deadline);
  }));
  return reply;
}

}  // namespace flota
