// A client's calls for data sets.
#include <algorithm>

#include "client/client.h"
#include "client/small_call.h"
#include "client/with_lane.h"

namespace flota {

Result<LeaseReply> Client::lease(LeaseRequest message, Time time) {
  message.incarnation = options_.epoch;
  FLOTA_TRY(message.check());
  LeaseReply reply;
  const uint64_t wanted = message.wait_ms;
  const std::string what = "lease of pass '" + message.pass + "', epoch " + std::to_string(message.epoch);
  FLOTA_TRY(with_lane(what, time, [&](Lane& lane, Deadline deadline) {
    auto encoded = [&message] {
      Writer payload;
      message.encode(payload);
      return payload;
    };
    Call call = small_call(MessageKind::kLease, encoded(), [&](auto bytes) -> Result<void> {
      FLOTA_ASSIGN(reply, LeaseReply::decode(bytes));
      return {};
    });
    // The server must give up waiting before this side does, also when this is not the first try.
    call.send = [&](FrameWriter& frame, Deadline until) {
      message.wait_ms = std::min(wanted, wait_at_server(until.left(std::chrono::hours(24))));
      return frame.write(encoded().bytes(), until);
    };
    return lane.exchange({{0, call}}, deadline);
  }));
  return reply;
}

Result<LeaseStates> Client::lease_states(Time time) {
  LeaseStates states;
  FLOTA_TRY(with_lane("ask for the state of leases", time, [&](Lane& lane, Deadline deadline) {
    Call call = small_call(MessageKind::kLeaseStates, Writer(), [&](auto bytes) -> Result<void> {
      FLOTA_ASSIGN(states, LeaseStates::decode(bytes));
      return {};
    });
    return lane.exchange({{0, call}}, deadline);
  }));
  return states;
}

Result<void> Client::restore_leases(const LeaseStates& states, Time time) {
  FLOTA_TRY(states.check());
  return with_lane("restore leases", time, [&](Lane& lane, Deadline deadline) {
    Writer payload;
    states.encode(payload);
    return lane.exchange({{0, small_call(MessageKind::kRestoreLeases, payload, expect_nothing)}}, deadline);
  });
}

}  // namespace flota
