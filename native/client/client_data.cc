// A client's calls for data sets.
#include <algorithm>

#include "client/client.h"
#include "client/small_call.h"
#include "client/with_lane.h"

namespace flota {
namespace {

std::span<const std::byte> padding_of(size_t bytes) {
  static constexpr std::byte kZeros[8] = {};
  return std::span(kZeros).first(padded(bytes) - bytes);
}

Writer encoded(const auto& message) {
  Writer payload;
  message.encode(payload);
  return payload;
}

// For a request that is made anew for each try: the server must give up waiting before this side does.
uint64_t wait_until(Deadline deadline) { return wait_at_server(deadline.left(std::chrono::hours(24))); }

// Reads a letter to where it stays.
Result<void> read_letter(FrameReader& frame, Letter& letter, Deadline deadline) {
  std::byte start[LetterHead::kBytes];
  if (frame.left() < sizeof(start)) return Error{ErrorCode::kMalformed, "a letter without a head"};
  FLOTA_TRY(frame.read(start, deadline));
  Reader in(start);
  FLOTA_ASSIGN(LetterHead head, LetterHead::decode(in));
  if (head.size > frame.left() || padded(head.size) != frame.left()) {
    return Error{ErrorCode::kMalformed, "a letter is not as long as its head says"};
  }
  std::vector<std::byte> bytes(head.size);
  FLOTA_TRY(frame.read(bytes, deadline));
  FLOTA_TRY(frame.read(std::span(start).first(frame.left()), deadline));
  letter = {head.over, head.last, head.from, std::make_shared<const std::vector<std::byte>>(std::move(bytes))};
  return {};
}

}  // namespace

Result<LeaseReply> Client::lease(LeaseRequest message, Time time) {
  message.incarnation = options_.epoch;
  FLOTA_TRY(message.check());
  LeaseReply reply;
  const uint64_t wanted = message.wait_ms;
  const std::string what = "lease of pass '" + message.pass + "', epoch " + std::to_string(message.epoch);
  FLOTA_TRY(with_lane(what, time, [&](Lane& lane, Deadline deadline) {
    Call call = small_call(MessageKind::kLease, encoded(message), [&](auto bytes) -> Result<void> {
      FLOTA_ASSIGN(reply, LeaseReply::decode(bytes));
      return {};
    });
    call.send = [&](FrameWriter& frame, Deadline until) {
      message.wait_ms = std::min(wanted, wait_until(until));
      return frame.write(encoded(message).bytes(), until);
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
    return lane.exchange({{0, small_call(MessageKind::kRestoreLeases, encoded(states), expect_nothing)}}, deadline);
  });
}

Result<void> Client::send(const LetterTo& to, std::span<const std::byte> bytes, Time time) {
  SendHead head{to.channel, to.from, to.to, to.world, options_.epoch, to.sequence, 0, to.last, bytes.size()};
  FLOTA_TRY(head.check());
  return with_lane("send to worker " + std::to_string(to.to), time, [&](Lane& lane, Deadline deadline) {
    Call call = small_call(MessageKind::kSend, encoded(head), expect_nothing);
    call.payload_bytes += padded(bytes.size());
    call.send = [&](FrameWriter& frame, Deadline until) -> Result<void> {
      head.wait_ms = wait_until(until);
      FLOTA_TRY(frame.write(encoded(head).bytes(), until));
      FLOTA_TRY(frame.write(bytes, until));
      return frame.write(padding_of(bytes.size()), until);
    };
    return lane.exchange({{to.to % servers(), call}}, deadline);
  });
}

Result<Letter> Client::receive(const std::string& channel, uint32_t to, uint32_t world, uint64_t taken, Time time) {
  Receive message{channel, to, world, taken, 0};
  FLOTA_TRY(message.check());
  Letter letter;
  FLOTA_TRY(with_lane("receive as worker " + std::to_string(to), time, [&](Lane& lane, Deadline deadline) {
    Call call;
    call.kind = MessageKind::kReceive;
    call.payload_bytes = encoded(message).bytes().size();
    call.send = [&](FrameWriter& frame, Deadline until) {
      message.wait_ms = wait_until(until);
      return frame.write(encoded(message).bytes(), until);
    };
    call.receive = [&](FrameReader& frame, Deadline until) { return read_letter(frame, letter, until); };
    return lane.exchange({{to % servers(), call}}, deadline);
  }));
  return letter;
}

}  // namespace flota
