#include "wire/team_messages.h"

#include "wire/fields.h"

namespace flota {

const char* to_string(TeamMode mode) {
  constexpr const char* kNames[] = {"", "sync", "async", "geo"};
  return kNames[static_cast<size_t>(mode)];
}

void TeamRequest::encode(Writer& out) const {
  out.put(static_cast<uint8_t>(part));
  out.put(static_cast<uint8_t>(mode));
  out.put(uint16_t{0});
  out.put(rank);
  out.put(workers);
  out.put(uint32_t{0});
  out.put(wait_ms);
  out.put_string(why);
}

Result<TeamRequest> TeamRequest::decode(std::span<const std::byte> payload) {
  Reader in(payload);
  TeamRequest message;
  FLOTA_ASSIGN(message.part, get_enum(in, TeamPart::kPin, "part of a message about the team"));
  FLOTA_ASSIGN(message.mode, get_enum(in, TeamMode::kGeo, "mode of training"));
  in.get<uint16_t>();
  message.rank = in.get<uint32_t>();
  message.workers = in.get<uint32_t>();
  in.get<uint32_t>();
  message.wait_ms = in.get<uint64_t>();
  message.why = in.get_string(kMaxWhy);
  FLOTA_TRY(in.finish("a message about the team"));
  if (message.rank >= kMaxWorkers || message.workers > kMaxWorkers) {
    return invalid("a job has at most 1,048,576 workers");
  }
  const bool counts = message.part == TeamPart::kJoin || message.part == TeamPart::kScale;
  if (counts && message.workers == 0) return invalid("a job has at least one worker");
  if (message.part == TeamPart::kJoin) FLOTA_TRY(check_rank(message.rank, message.workers));
  return message;
}

void TeamReply::encode(Writer& out) const {
  out.put(static_cast<uint8_t>(mode));
  out.put(static_cast<uint8_t>(late));
  out.put(uint16_t{0});
  out.put(workers);
  out.put(wanted);
  out.put(uint32_t{0});
  out.put(version);
}

Result<TeamReply> TeamReply::decode(std::span<const std::byte> payload) {
  Reader in(payload);
  TeamReply message;
  FLOTA_ASSIGN(message.mode, get_enum(in, TeamMode::kGeo, "mode of training"));
  FLOTA_ASSIGN(message.late, get_bool(in, "late"));
  in.get<uint16_t>();
  message.workers = in.get<uint32_t>();
  message.wanted = in.get<uint32_t>();
  in.get<uint32_t>();
  message.version = in.get<uint64_t>();
  FLOTA_TRY(in.finish("the answer about the team"));
  return message;
}

}  // namespace flota
