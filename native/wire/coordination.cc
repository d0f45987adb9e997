// The messages by which workers wait for each other.
#include <cmath>

#include "common/hash.h"
#include "wire/fields.h"
#include "wire/messages.h"

namespace flota {

void Barrier::encode(Writer& out) const {
  out.put(call);
  out.put(rank);
  out.put(world);
  out.put(wait_ms);
  out.put(count);
  out.put_string(name);
  out.put(static_cast<uint64_t>(brings.size()));
  out.put_array(brings);
}

Result<Barrier> Barrier::decode(std::span<const std::byte> payload) {
  Reader in(payload);
  Barrier message;
  message.call = in.get<uint64_t>();
  message.rank = in.get<uint32_t>();
  message.world = in.get<uint32_t>();
  message.wait_ms = in.get<uint64_t>();
  message.count = in.get<uint64_t>();
  message.name = in.get_string(kMaxNameBytes);
  message.brings = in.get_array<std::byte>(in.get<uint64_t>());
  FLOTA_TRY(in.finish("a barrier"));
  if (message.brings.size() > kMaxBytes) return Error{ErrorCode::kTooLarge, "more than 16 MiB for a barrier"};
  const uint32_t most = message.world == 0 ? 1u << 20 : message.world;
  if (message.world > 1u << 20 || message.rank >= most) {
    return invalid("a barrier's rank must be below its world, and the world between 1 and 1,048,576");
  }
  return message;
}

void BarrierReply::encode(Writer& out) const {
  out.put(static_cast<uint64_t>(brought.size()));
  for (auto bytes : brought) {
    out.put(static_cast<uint64_t>(bytes.size()));
    out.put_array(bytes);
  }
}

Result<BarrierReply> BarrierReply::decode(std::span<const std::byte> payload) {
  Reader in(payload);
  BarrierReply message;
  auto count = in.get<uint64_t>();
  for (uint64_t i = 0; i < count && in.ok(); ++i) {
    message.brought.push_back(in.get_array<std::byte>(in.get<uint64_t>()));
  }
  FLOTA_TRY(in.finish("the answer to a barrier"));
  return message;
}

void FinishStep::encode(Writer& out) const {
  out.put(step);
  out.put(count);
  out.put(rank);
  out.put(world);
  out.put(samples);
  out.put(wait_ms);
  out.put(static_cast<uint8_t>(leave));
  out.put(static_cast<uint8_t>(want_keys));
  out.put(uint16_t{0});
  out.put(incarnation);
  out.put_string(group);
  out.put(static_cast<uint64_t>(position.size()));
  out.put_array(position);
  out.put(ordinal);
  out.put(server);
  out.put(static_cast<uint64_t>(pushes.size()));
  out.put_array(pushes);
}

Result<FinishStep> FinishStep::decode(std::span<const std::byte> payload) {
  Reader in(payload);
  FinishStep message;
  message.step = in.get<uint64_t>();
  message.count = in.get<uint64_t>();
  message.rank = in.get<uint32_t>();
  message.world = in.get<uint32_t>();
  message.samples = in.get<double>();
  message.wait_ms = in.get<uint64_t>();
  FLOTA_ASSIGN(message.leave, get_bool(in, "leave"));
  FLOTA_ASSIGN(message.want_keys, get_bool(in, "want_keys"));
  in.get<uint16_t>();
  message.incarnation = in.get<uint32_t>();
  message.group = in.get_string(kMaxNameBytes);
  message.position = in.get_array<std::byte>(in.get<uint64_t>());
  message.ordinal = in.get<uint64_t>();
  message.server = in.get<uint64_t>();
  message.pushes = in.get_array<uint64_t>(in.get<uint64_t>());
  FLOTA_TRY(in.finish("the finish of a step"));
  FLOTA_TRY(check_rank(message.rank, message.world));
  if (!std::isfinite(message.samples) || message.samples < 0) {
    return invalid("a step's number of samples must be a finite number from 0 on");
  }
  if (message.count > kMaxStep) return invalid("steps are counted up to 2^62");
  if (message.position.size() > kMaxPosition) {
    return Error{ErrorCode::kTooLarge, "more than 64 KiB to say where a worker's data stands"};
  }
  if (message.pushes.size() > kShards) return invalid("there are at most 1,024 servers");
  if (!message.pushes.empty() && message.server >= message.pushes.size()) {
    return invalid("the finish of a step for a server that is not there");
  }
  return message;
}

void FinishStepReply::encode(Writer& out) const {
  out.put(static_cast<uint64_t>(tables.size()));
  for (const ChangedKeys& changed : tables) {
    out.put(changed.table);
    out.put(static_cast<uint64_t>(changed.keys.size()));
    out.put_array(changed.keys);
  }
}

Result<FinishStepReply> FinishStepReply::decode(std::span<const std::byte> payload) {
  Reader in(payload);
  FinishStepReply message;
  auto count = in.get<uint64_t>();
  for (uint64_t i = 0; i < count && in.ok(); ++i) {
    ChangedKeys changed;
    changed.table = in.get<uint64_t>();
    changed.keys = in.get_array<Key>(in.get<uint64_t>());
    message.tables.push_back(changed);
  }
  FLOTA_TRY(in.finish("the answer to the finish of a step"));
  return message;
}

void Advance::encode(Writer& out) const {
  out.put(step);
  out.put(behind);
  out.put(rank);
  out.put(world);
  out.put(wait_ms);
  out.put(static_cast<uint8_t>(leave));
  out.put(static_cast<uint8_t>(rest));
  out.put(uint16_t{0});
  out.put(incarnation);
  out.put_string(group);
}

Result<Advance> Advance::decode(std::span<const std::byte> payload) {
  Reader in(payload);
  Advance message;
  message.step = in.get<uint64_t>();
  message.behind = in.get<uint64_t>();
  message.rank = in.get<uint32_t>();
  message.world = in.get<uint32_t>();
  message.wait_ms = in.get<uint64_t>();
  FLOTA_ASSIGN(message.leave, get_bool(in, "leave"));
  FLOTA_ASSIGN(message.rest, get_bool(in, "rest"));
  in.get<uint16_t>();
  message.incarnation = in.get<uint32_t>();
  message.group = in.get_string(kMaxNameBytes);
  FLOTA_TRY(in.finish("an advance"));
  FLOTA_TRY(check_rank_or_team(message.rank, message.world));
  return message;
}

void AdvanceReply::encode(Writer& out) const { out.put(slowest); }

Result<AdvanceReply> AdvanceReply::decode(std::span<const std::byte> payload) {
  Reader in(payload);
  AdvanceReply message{in.get<uint64_t>()};
  FLOTA_TRY(in.finish("the answer to an advance"));
  return message;
}

}  // namespace flota
