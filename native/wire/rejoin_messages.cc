#include "wire/rejoin_messages.h"

#include <cmath>

#include "common/spec.h"
#include "wire/fields.h"
#include "wire/messages.h"

namespace flota {

void Rejoin::encode(Writer& out) const {
  out.put(static_cast<uint8_t>(part));
  out.pad();
  out.put(worker);
  out.put(rank);
  out.put(world);
  out.put(incarnation);
  out.put(starts);
  out.put(steps);
  out.put(reached);
  out.put(target);
  out.put(within_ms);
  out.put(static_cast<uint64_t>(position.size()));
  out.put_array(position);
}

Result<Rejoin> Rejoin::decode(std::span<const std::byte> payload) {
  Reader in(payload);
  Rejoin message;
  FLOTA_ASSIGN(message.part, get_enum(in, RejoinPart::kComing, "part of rejoining"));
  in.get_array<uint8_t>(7);
  message.worker = in.get<uint64_t>();
  message.rank = in.get<uint32_t>();
  message.world = in.get<uint32_t>();
  message.incarnation = in.get<uint32_t>();
  message.starts = in.get<uint32_t>();
  message.steps = in.get<uint64_t>();
  message.reached = in.get<uint64_t>();
  message.target = in.get<uint64_t>();
  message.within_ms = in.get<uint64_t>();
  message.position = in.get_array<std::byte>(in.get<uint64_t>());
  FLOTA_TRY(in.finish("a rejoin"));
  if (message.position.size() > FinishStep::kMaxPosition) {
    return Error{ErrorCode::kTooLarge, "more than 64 KiB to say where a worker stands"};
  }
  FLOTA_TRY(check_rank(message.rank, message.world));
  const bool of_itself = message.part != RejoinPart::kAsk && message.part != RejoinPart::kComing;
  // A note without a start is of a worker that has left, in a snapshot.
  if (of_itself && (message.incarnation == 0 || (message.starts == 0 && message.part != RejoinPart::kNote))) {
    return invalid("a worker that rejoins has an incarnation and was started at least once");
  }
  return message;
}

void RejoinReply::encode(Writer& out) const {
  out.put(incarnation);
  out.put(starts);
  out.put(steps);
  out.put(static_cast<uint64_t>(position.size()));
  out.put_array(position);
  out.put(last.step);
  out.put(last.count);
  out.put(last.samples);
  out.put(static_cast<uint8_t>(last.applied));
  out.put(static_cast<uint8_t>(last.leave));
  out.pad();
  out.put_string(last.group);
  out.put(static_cast<uint64_t>(last.position.size()));
  out.put_array(last.position);
  out.put(last.ordinal);
  out.put(static_cast<uint64_t>(last.pushes.size()));
  out.put_array(last.pushes);
  out.put(static_cast<uint64_t>(passed.size()));
  for (const Passed& one : passed) {
    out.put_string(one.name);
    out.put(one.times);
  }
  out.put(static_cast<uint64_t>(on_their_way.size()));
  for (const OnItsWay& one : on_their_way) {
    out.put(static_cast<uint64_t>(one.rank));
    out.put(one.reached);
    out.put(one.target);
  }
}

Result<RejoinReply> RejoinReply::decode(std::span<const std::byte> payload) {
  Reader in(payload);
  RejoinReply message;
  message.incarnation = in.get<uint32_t>();
  message.starts = in.get<uint32_t>();
  message.steps = in.get<uint64_t>();
  message.position = in.get_array<std::byte>(in.get<uint64_t>());
  message.last.step = in.get<uint64_t>();
  message.last.count = in.get<uint64_t>();
  message.last.samples = in.get<double>();
  FLOTA_ASSIGN(message.last.applied, get_bool(in, "applied"));
  FLOTA_ASSIGN(message.last.leave, get_bool(in, "leave"));
  in.get_array<uint8_t>(6);
  message.last.group = in.get_string(kMaxNameBytes);
  message.last.position = in.get_array<std::byte>(in.get<uint64_t>());
  message.last.ordinal = in.get<uint64_t>();
  message.last.pushes = in.get_array<uint64_t>(in.get<uint64_t>());
  const auto barriers = in.get<uint64_t>();
  for (uint64_t i = 0; i < barriers && in.ok(); ++i) {
    Passed one;
    one.name = in.get_string(kMaxNameBytes);
    one.times = in.get<uint64_t>();
    message.passed.push_back(std::move(one));
  }
  const auto workers = in.get<uint64_t>();
  for (uint64_t i = 0; i < workers && in.ok(); ++i) {
    OnItsWay one;
    one.rank = static_cast<uint32_t>(in.get<uint64_t>());
    one.reached = in.get<uint64_t>();
    one.target = in.get<uint64_t>();
    message.on_their_way.push_back(one);
  }
  FLOTA_TRY(in.finish("the answer to a rejoin"));
  if (!std::isfinite(message.last.samples)) return malformed("a step's number of samples is not finite");
  return message;
}

}  // namespace flota
