// How clocks outlive the process: advances as they came, and in a snapshot a record for each group.
#include "server/clocks.h"

namespace flota {
namespace {

struct SavedMember {
  static constexpr uint32_t kLeft = 1;
  static constexpr uint32_t kRests = 2;

  uint64_t step = 0;
  uint32_t rank = 0;
  uint32_t flags = 0;
};

}  // namespace

Freeze Clocks::freeze() {
  Freeze frozen;
  frozen.locks.emplace_back(mutex_);
  return frozen;
}

Result<void> Clocks::save(Journal& out) const {
  std::vector<SavedMember> members;
  for (const auto& [id, group] : groups_) {
    members.clear();
    for (const auto& [rank, member] : group->ranks) {
      const uint32_t flags = (member.left ? SavedMember::kLeft : 0) | (member.rests ? SavedMember::kRests : 0);
      members.push_back({member.step, rank, flags});
    }
    Writer record;
    record.put(id);
    record.put(group->world);
    record.put(static_cast<uint32_t>(members.size()));
    record.put_array(std::span<const SavedMember>(members));
    FLOTA_TRY(write_record(&out, RecordKind::kClocks, record));
  }
  return {};
}

Result<void> Clocks::replay(RecordKind kind, std::span<const std::byte> payload) {
  std::lock_guard lock(mutex_);
  const auto apply = [&]() -> Result<void> {
    if (kind == RecordKind::kClocks) return replay_group(payload);
    if (kind != RecordKind::kAdvance) return unknown_record(kind);
    FLOTA_ASSIGN(auto message, Advance::decode(payload));
    return note(hash_name(message.group), message, nullptr);
  };
  return replayed(apply(), "clocks");
}

Result<void> Clocks::replay_group(std::span<const std::byte> payload) {
  Reader in(payload);
  const auto id = in.get<uint64_t>();
  auto group = std::make_shared<Group>();
  group->world = in.get<uint32_t>();
  const auto members = in.get_array<SavedMember>(in.get<uint32_t>());
  FLOTA_TRY(in.finish("a group"));
  for (const SavedMember& member : members) {
    FLOTA_TRY(check_rank_or_team(member.rank, group->world));
    if (member.flags > (SavedMember::kLeft | SavedMember::kRests)) return malformed("unknown flags of a worker");
    const Member known{member.step, (member.flags & SavedMember::kLeft) != 0,
                       (member.flags & SavedMember::kRests) != 0};
    if (!group->ranks.emplace(member.rank, known).second) return malformed("a worker stands there twice");
  }
  if (members.empty()) return malformed("a group without workers");
  if (groups_.size() >= kMaxGroups) return malformed("too many groups");
  if (!groups_.emplace(id, std::move(group)).second) return malformed("a group stands there twice");
  return {};
}

}  // namespace flota
