#include "wire/lease_messages.h"

#include <map>
#include <set>

#include "common/spec.h"
#include "wire/fields.h"

namespace flota {
namespace {

Result<void> check_pass(const std::string& pass) {
  if (!pass.empty() && pass.size() <= kMaxNameBytes) return {};
  return invalid("a pass over data needs a name of 1 to 255 bytes");
}

Result<void> check_epoch(uint64_t epoch) {
  if (epoch < kMaxEpochs) return {};
  return invalid("there is no epoch " + std::to_string(epoch));
}

std::string name_of(const LeaseState& state) {
  return "pass '" + state.pass + "', epoch " + std::to_string(state.epoch);
}

Result<void> check_state(const LeaseState& state) {
  FLOTA_TRY(check_pass(state.pass));
  FLOTA_TRY(check_epoch(state.epoch));
  if (state.over_below > kMaxEpochs) return invalid(name_of(state) + " is of a pass with more epochs than there are");
  if (state.shards > kMaxDataShards) return invalid(name_of(state) + " has more than 1,048,576 shards");
  uint64_t done = 0;
  uint64_t end = 0;
  for (const ShardRun& run : state.done) {
    if (run.begin < end || run.begin >= run.end || run.end > state.shards) {
      return invalid(name_of(state) + ": its done shards are no ascending runs of its " + std::to_string(state.shards));
    }
    done += run.end - run.begin;
    end = run.end;
  }
  if (state.shards > 0 && done == state.shards) return invalid(name_of(state) + " is over: nothing of it is left");
  auto run = state.done.begin();
  uint64_t next = 0;
  for (const ShardSamples& partial : state.partial) {
    while (run != state.done.end() && run->end <= partial.shard) ++run;
    const bool is_done = run != state.done.end() && run->begin <= partial.shard;
    if (partial.shard < next || partial.shard >= state.shards || is_done || partial.samples == 0) {
      return invalid(name_of(state) + ": the shards that were begun are not ascending, or done, or not begun");
    }
    next = partial.shard + 1;
  }
  return {};
}

}  // namespace

Result<void> LeaseRequest::check() const {
  FLOTA_TRY(check_pass(pass));
  FLOTA_TRY(check_epoch(epoch));
  FLOTA_TRY(check_rank(rank, world));
  if (shards == 0 || shards > kMaxDataShards) return invalid("data must have between 1 and 1,048,576 shards");
  if (ttl_ms < kLeastTtl || ttl_ms > kMostTtl) return invalid("a lease must last between 100 ms and a day");
  if (stride == 0 || stride > kMaxDataShards || first >= stride) {
    return invalid("a lease's stride must be between 1 and 1,048,576, and its first shard below that");
  }
  for (const ShardProgress& one : progress) {
    if (one.flags > (ShardProgress::kDone | ShardProgress::kReleased)) return invalid("unknown flags of a shard");
    if (one.shard >= shards) {
      return invalid("there is no shard " + std::to_string(one.shard) + " of " + std::to_string(shards));
    }
  }
  return {};
}

void LeaseRequest::encode(Writer& out) const {
  out.put(epoch);
  out.put(shards);
  out.put(rank);
  out.put(world);
  out.put(incarnation);
  out.put(call);
  out.put(ttl_ms);
  out.put(first);
  out.put(stride);
  out.put(wait_ms);
  out.put(static_cast<uint8_t>(take));
  out.pad();
  out.put_string(pass);
  out.put(static_cast<uint64_t>(progress.size()));
  out.put_array(std::span<const ShardProgress>(progress));
}

Result<LeaseRequest> LeaseRequest::decode(std::span<const std::byte> payload) {
  Reader in(payload);
  LeaseRequest message;
  message.epoch = in.get<uint64_t>();
  message.shards = in.get<uint64_t>();
  message.rank = in.get<uint32_t>();
  message.world = in.get<uint32_t>();
  message.incarnation = in.get<uint64_t>();
  message.call = in.get<uint64_t>();
  message.ttl_ms = in.get<uint64_t>();
  message.first = in.get<uint64_t>();
  message.stride = in.get<uint64_t>();
  message.wait_ms = in.get<uint64_t>();
  FLOTA_ASSIGN(message.take, get_bool(in, "take"));
  in.get_array<uint8_t>(7);
  message.pass = in.get_string(kMaxNameBytes);
  auto progress = in.get_array<ShardProgress>(in.get<uint64_t>());
  FLOTA_TRY(in.finish("a question for a lease"));
  message.progress.assign(progress.begin(), progress.end());
  FLOTA_TRY(message.check());
  return message;
}

void LeaseReply::encode(Writer& out) const {
  out.put(static_cast<uint8_t>(outcome));
  out.pad();
  out.put(shard);
  out.put(samples);
  out.put(left);
  out.put(static_cast<uint64_t>(lost.size()));
  out.put_array(std::span<const uint64_t>(lost));
}

Result<LeaseReply> LeaseReply::decode(std::span<const std::byte> payload) {
  Reader in(payload);
  LeaseReply message;
  auto outcome = in.get<uint8_t>();
  in.get_array<uint8_t>(7);
  message.shard = in.get<uint64_t>();
  message.samples = in.get<uint64_t>();
  message.left = in.get<uint64_t>();
  auto lost = in.get_array<uint64_t>(in.get<uint64_t>());
  FLOTA_TRY(in.finish("the answer to a question for a lease"));
  if (outcome > static_cast<uint8_t>(LeaseOutcome::kOwn)) return malformed("unknown outcome of a lease");
  message.outcome = static_cast<LeaseOutcome>(outcome);
  message.lost.assign(lost.begin(), lost.end());
  return message;
}

Result<void> LeaseStates::check() const {
  struct Pass {
    uint64_t over_below = 0;
    std::set<uint64_t> open;
    bool empty = false;
  };
  std::map<std::string, Pass> passes;
  for (const LeaseState& state : epochs) {
    FLOTA_TRY(check_state(state));
    auto [found, added] = passes.try_emplace(state.pass);
    Pass& pass = found->second;
    if (added) pass.over_below = state.over_below;
    if (pass.over_below != state.over_below) {
      return invalid(name_of(state) + " says that epochs below " + std::to_string(state.over_below) +
                     " are over, another of its epochs says " + std::to_string(pass.over_below));
    }
    const bool twice = state.shards == 0 ? !added : pass.empty || !pass.open.insert(state.epoch).second;
    if (twice) return invalid(name_of(state) + " comes twice");
    if (state.shards == 0) pass.empty = true;
    if (pass.open.size() > kMaxOpenEpochs) return invalid("pass '" + state.pass + "' has more than 8 open epochs");
  }
  if (passes.size() > kMaxPasses) return Error{ErrorCode::kTooLarge, "more than 1,024 passes over data"};
  return {};
}

void LeaseStates::encode(Writer& out) const {
  out.put(static_cast<uint64_t>(epochs.size()));
  for (const LeaseState& state : epochs) {
    out.put_string(state.pass);
    out.put(state.epoch);
    out.put(state.shards);
    out.put(state.over_below);
    out.put(static_cast<uint64_t>(state.done.size()));
    out.put_array(std::span<const ShardRun>(state.done));
    out.put(static_cast<uint64_t>(state.partial.size()));
    out.put_array(std::span<const ShardSamples>(state.partial));
  }
}

Result<LeaseStates> LeaseStates::decode(std::span<const std::byte> payload) {
  Reader in(payload);
  LeaseStates message;
  auto count = in.get<uint64_t>();
  for (uint64_t i = 0; i < count && in.ok(); ++i) {
    LeaseState state;
    state.pass = in.get_string(kMaxNameBytes);
    state.epoch = in.get<uint64_t>();
    state.shards = in.get<uint64_t>();
    state.over_below = in.get<uint64_t>();
    auto done = in.get_array<ShardRun>(in.get<uint64_t>());
    state.done.assign(done.begin(), done.end());
    auto partial = in.get_array<ShardSamples>(in.get<uint64_t>());
    state.partial.assign(partial.begin(), partial.end());
    message.epochs.push_back(std::move(state));
  }
  FLOTA_TRY(in.finish("the state of leases"));
  FLOTA_TRY(message.check());
  return message;
}

}  // namespace flota
