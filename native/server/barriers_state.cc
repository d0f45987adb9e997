// How barriers outlive the process: each gathering as it was. Who waits comes again by itself.
#include <algorithm>

#include "server/gathering.h"

namespace flota {

void Barriers::Gathering::encode(Writer& out) const {
  out.put(number);
  out.put(static_cast<uint64_t>(counted));
  out.put_string(name);
  out.put(static_cast<uint64_t>(calls.size()));
  for (size_t rank = 0; rank < calls.size(); ++rank) {
    out.put(calls[rank]);
    out.put(static_cast<uint64_t>(brought[rank].size()));
    out.put_array(std::span<const std::byte>(brought[rank]));
  }
}

Result<Barriers::Gathering> Barriers::Gathering::decode(std::span<const std::byte> payload) {
  Reader in(payload);
  Gathering gathering;
  gathering.number = in.get<uint64_t>();
  const auto counted = in.get<uint64_t>();
  gathering.counted = counted == 1;
  gathering.name = in.get_string(kMaxNameBytes);
  const auto world = in.get<uint64_t>();
  for (uint64_t rank = 0; rank < world && in.ok(); ++rank) {
    gathering.calls.push_back(in.get<uint64_t>());
    const auto bytes = in.get_array<std::byte>(in.get<uint64_t>());
    gathering.brought.emplace_back(bytes.begin(), bytes.end());
  }
  FLOTA_TRY(in.finish("a gathering"));
  if (counted > 1 || world == 0 || gathering.number > kMaxStep) return malformed("a gathering that cannot be");
  return gathering;
}

Freeze Barriers::freeze() {
  Freeze frozen;
  frozen.locks.emplace_back(mutex_);
  return frozen;
}

Result<void> Barriers::save(Journal& out) const {
  for (const Kept& kept : kept_) {
    const Place& place = places_.find(kept.name)->second;
    Gathering gathering{kept.name, kept.number, true, {}, *place.kept.at(kept.number)};
    gathering.calls.resize(gathering.brought.size());
    FLOTA_TRY(write_message(&out, RecordKind::kBarriers, gathering));
  }
  // The last one at each place with the calls that it has answered.
  for (const auto& [name, place] : places_) {
    if (!place.brought) continue;
    Gathering last{
        name, place.gatherings - 1, place.counted, {place.released.begin(), place.released.end()}, *place.brought};
    last.calls.resize(last.brought.size());
    FLOTA_TRY(write_message(&out, RecordKind::kBarriers, last));
  }
  return {};
}

Result<void> Barriers::replay(RecordKind kind, std::span<const std::byte> payload) {
  std::lock_guard lock(mutex_);
  const auto apply = [&]() -> Result<void> {
    if (kind != RecordKind::kGathering && kind != RecordKind::kBarriers) return unknown_record(kind);
    FLOTA_ASSIGN(Gathering gathering, Gathering::decode(payload));
    if (places_.size() >= kMaxBarriers && !places_.contains(gathering.name)) return malformed("too many barriers");
    release(gathering);
    return {};
  };
  return replayed(apply(), "barriers");
}

}  // namespace flota
