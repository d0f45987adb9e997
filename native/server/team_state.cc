// How the team outlives the process: changes as they came, and in a snapshot one record.
#include <array>

#include "server/team.h"
#include "wire/fields.h"

namespace flota {
namespace {

struct SavedMember {
  uint32_t rank = 0;
  uint32_t late = 0;
};

}  // namespace

Freeze Team::freeze() {
  Freeze frozen;
  frozen.locks.emplace_back(mutex_);
  return frozen;
}

Result<void> Team::save(Journal& out) const {
  if (!known()) return {};
  std::vector<SavedMember> members;
  for (const auto& [rank, late] : roll_->late) members.push_back({rank, late});
  Writer record;
  const std::array<uint64_t, 4> head{static_cast<uint64_t>(mode_), first_, wanted_, version_};
  record.put_string(pinned_);
  record.put_array(std::span<const uint64_t>(head));
  record.put(static_cast<uint64_t>(members.size()));
  record.put_array(std::span<const SavedMember>(members));
  return write_record(&out, RecordKind::kTeams, record);
}

Result<void> Team::replay(RecordKind kind, std::span<const std::byte> payload) {
  std::lock_guard lock(mutex_);
  const auto make = [&]() -> Result<void> {
    if (kind == RecordKind::kTeams) return replay_state(payload);
    if (kind != RecordKind::kTeam) return unknown_record(kind);
    FLOTA_ASSIGN(auto message, TeamRequest::decode(payload));
    const bool member = roll_->has(message.rank);
    const bool possible = message.part == TeamPart::kJoin    ? !member
                          : message.part == TeamPart::kLeave ? true  // servers beside the first know no members
                                                             : known() && message.part != TeamPart::kAsk;
    if (!possible) return malformed("it cannot come after what was before");
    if (message.part == TeamPart::kLeave && !member) return {};
    apply(message);
    return {};
  };
  return replayed(make(), "the team");
}

Result<void> Team::replay_state(std::span<const std::byte> payload) {
  Reader in(payload);
  pinned_ = in.get_string(TeamRequest::kMaxWhy);
  std::array<uint64_t, 4> head{};
  for (uint64_t& value : head) value = in.get<uint64_t>();
  const auto [mode, first, wanted, version] = head;
  const auto members = in.get_array<SavedMember>(in.get<uint64_t>());
  FLOTA_TRY(in.finish("a team"));
  constexpr uint32_t kMost = TeamRequest::kMaxWorkers;
  if (mode < 1 || mode > static_cast<uint64_t>(TeamMode::kGeo)) return malformed("an unknown mode");
  if (first == 0 || first > kMost || wanted == 0 || wanted > kMost) return malformed("workers that cannot be");
  mode_ = static_cast<TeamMode>(mode);
  first_ = static_cast<uint32_t>(first);
  wanted_ = static_cast<uint32_t>(wanted);
  version_ = version;
  auto roll = std::make_shared<Roll>();
  for (const SavedMember& member : members) {
    if (member.rank >= kMost || member.late > 1) return malformed("a worker that cannot be");
    if (!roll->late.emplace(member.rank, member.late == 1).second) return malformed("a worker stands there twice");
  }
  roll_ = std::move(roll);
  return {};
}

}  // namespace flota
