#include "server/leases.h"

#include <algorithm>

#include "common/interrupt.h"
#include "server/wording.h"

namespace flota {
namespace {

constexpr size_t kRememberedGrants = 64;
constexpr size_t kRememberedClasses = 4096;

std::string name_of(const LeaseRequest& message) {
  return "pass '" + message.pass + "', epoch " + std::to_string(message.epoch);
}

bool in_class(uint64_t shard, const std::pair<uint64_t, uint64_t>& of) { return shard % of.second == of.first; }

// Shards that are told as trained but were not the caller's any more when the epoch ended.
std::vector<uint64_t> unfinished(const LeaseRequest& message) {
  std::vector<uint64_t> lost;
  for (const ShardProgress& one : message.progress) {
    if ((one.flags & ShardProgress::kDone) == 0) lost.push_back(one.shard);
  }
  return lost;
}

std::vector<ShardRun> runs_of(const std::vector<bool>& done) {
  std::vector<ShardRun> runs;
  for (uint32_t shard = 0; shard < done.size(); ++shard) {
    if (!done[shard]) continue;
    if (runs.empty() || runs.back().end != shard) runs.push_back({shard, shard});
    runs.back().end = shard + 1;
  }
  return runs;
}

}  // namespace

Leases::Cursor& Leases::Epoch::cursor(const Class& of) {
  // They only save time. A job has as many classes as workers, so this many means that they changed.
  if (cursors.size() >= kRememberedClasses && !cursors.contains(of)) cursors.clear();
  return cursors.try_emplace(of, Cursor{of.first, of.first}).first->second;
}

uint64_t Leases::Epoch::lowest_free(const Class& of) {
  uint64_t& shard = cursor(of).free;
  while (shard < done.size() && (done[shard] || leases.contains(shard))) shard += of.second;
  return std::min<uint64_t>(shard, done.size());
}

bool Leases::Epoch::class_over(const Class& of) {
  uint64_t& shard = cursor(of).undone;
  while (shard < done.size() && done[shard]) shard += of.second;
  return shard >= done.size();
}

bool Leases::Epoch::others_hold(const Class& of, uint32_t rank) const {
  return std::any_of(leases.begin(), leases.end(),
                     [&](const auto& entry) { return entry.second.rank != rank && in_class(entry.first, of); });
}

uint64_t Leases::Epoch::samples_of(uint64_t shard) const {
  const auto found = samples.find(shard);
  return found == samples.end() ? 0 : found->second;
}

void Leases::Epoch::hold(uint64_t shard, const LeaseRequest& message) {
  const Time expires = Deadline::Clock::now() + std::chrono::milliseconds(message.ttl_ms);
  // A renewed lease keeps the call that it was taken by.
  leases.try_emplace(shard, Lease{message.rank, message.call, expires}).first->second.expires = expires;
  next_expiry = std::min(next_expiry, expires);
}

void Leases::Epoch::set_free(uint64_t shard) {
  leases.erase(shard);
  for (auto& [of, cursor] : cursors) {
    if (in_class(shard, of)) cursor.free = std::min(cursor.free, shard);
  }
  changed.notify_all();
}

void Leases::Epoch::set_done(uint64_t shard) {
  leases.erase(shard);
  samples.erase(shard);
  done[shard] = true;
  --left;
  changed.notify_all();
}

uint64_t Leases::Epoch::expire() {
  const Time now = Deadline::Clock::now();
  if (now < next_expiry) return 0;
  std::vector<uint64_t> ended;
  next_expiry = Time::max();
  for (const auto& [shard, lease] : leases) {
    if (lease.expires <= now) {
      ended.push_back(shard);
    } else {
      next_expiry = std::min(next_expiry, lease.expires);
    }
  }
  for (uint64_t shard : ended) set_free(shard);
  return ended.size();
}

void Leases::Epoch::free_all(uint32_t rank) {
  std::vector<uint64_t> held;
  for (const auto& [shard, lease] : leases) {
    if (lease.rank == rank) held.push_back(shard);
  }
  for (uint64_t shard : held) set_free(shard);
  changed.notify_all();  // what the worker waited for by an earlier incarnation is not its any more
}

std::vector<uint64_t> Leases::Epoch::note(const LeaseRequest& message) {
  std::vector<uint64_t> lost;
  for (const ShardProgress& one : message.progress) {
    const bool finished = (one.flags & ShardProgress::kDone) != 0;
    if (done[one.shard]) {
      if (!finished) lost.push_back(one.shard);
      continue;
    }
    const auto found = leases.find(one.shard);
    const bool held = found != leases.end();
    const bool by_another = held && found->second.rank != message.rank;
    if (by_another) lost.push_back(one.shard);
    if (finished) {
      set_done(one.shard);
      continue;
    }
    if (one.samples > samples_of(one.shard)) samples[one.shard] = one.samples;
    if (by_another) continue;
    if ((one.flags & ShardProgress::kReleased) == 0) {
      hold(one.shard, message);
    } else if (held && found->second.call <= message.call) {
      // Otherwise it is an old request that comes again, and the worker has taken the shard back since.
      set_free(one.shard);
    }
  }
  return lost;
}

Result<void> Leases::meet(const LeaseRequest& message) {
  auto [found, added] = workers_.try_emplace(message.rank, Worker{message.incarnation, {}});
  Worker& known = found->second;
  if (message.incarnation < known.incarnation) {
    return Error{ErrorCode::kStaleEpoch, worker(message.rank) + " was started again: incarnation " +
                                             std::to_string(known.incarnation) + " has taken the place of " +
                                             std::to_string(message.incarnation)};
  }
  if (message.incarnation == known.incarnation) return {};
  known = {message.incarnation, {}};
  for (auto& [name, pass] : passes_) {
    for (auto& [number, epoch] : pass.open) epoch->free_all(message.rank);
  }
  return {};
}

bool Leases::forget_one() {
  auto oldest = passes_.end();
  for (auto each = passes_.begin(); each != passes_.end(); ++each) {
    if (!each->second.open.empty()) continue;
    if (oldest == passes_.end() || each->second.asked < oldest->second.asked) oldest = each;
  }
  if (oldest == passes_.end()) return false;
  passes_.erase(oldest);
  return true;
}

Result<std::shared_ptr<Leases::Epoch>> Leases::find(const LeaseRequest& message) {
  if (passes_.size() >= kMaxPasses && !passes_.contains(message.pass) && !forget_one()) {
    return Error{ErrorCode::kTooLarge, "more than 1,024 passes over data that are not over"};
  }
  Pass& pass = passes_[message.pass];
  pass.asked = ++questions_;
  const auto found = pass.open.find(message.epoch);
  if (found != pass.open.end()) {
    const uint64_t shards = found->second->done.size();
    if (shards == message.shards) return found->second;
    return invalid(name_of(message) + ": " + worker(message.rank) + " says there are " +
                   std::to_string(message.shards) + " shards, others say " + std::to_string(shards));
  }
  const std::shared_ptr<Epoch> over;
  if (message.epoch < pass.over_below) return over;
  if (pass.open.size() == kMaxOpenEpochs) {
    const uint64_t oldest = pass.open.begin()->first;
    if (message.epoch < oldest) return over;
    close(pass, oldest);
  }
  return pass.open[message.epoch] = std::make_shared<Epoch>(message.shards);
}

void Leases::close(Pass& pass, uint64_t number) {
  const auto found = pass.open.find(number);
  found->second->over = true;
  found->second->changed.notify_all();
  pass.open.erase(found);
  pass.over_below = std::max(pass.over_below, number + 1);
}

const Leases::Grant* Leases::given(const LeaseRequest& message) const {
  for (const Grant& grant : workers_.at(message.rank).grants) {
    if (grant.call == message.call && grant.epoch == message.epoch && grant.pass == message.pass) return &grant;
  }
  return nullptr;
}

bool Leases::grant(Epoch& epoch, const LeaseRequest& message, LeaseReply& reply) {
  auto give = [&](uint64_t shard) {
    epoch.hold(shard, message);
    reply.outcome = LeaseOutcome::kGranted;
    reply.shard = shard;
    reply.samples = epoch.samples_of(shard);
    return true;
  };
  if (const Grant* before = given(message)) {
    const auto held = epoch.leases.find(before->shard);
    const bool by_another = held != epoch.leases.end() && held->second.rank != message.rank;
    if (!epoch.done[before->shard] && !by_another) return give(before->shard);
  }
  const uint64_t shard = epoch.lowest_free({message.first, message.stride});
  if (shard == epoch.done.size()) return false;
  std::deque<Grant>& grants = workers_.at(message.rank).grants;
  grants.push_front({message.pass, message.epoch, message.call, shard});
  if (grants.size() > kRememberedGrants) grants.pop_back();
  ++counts_.granted;
  return give(shard);
}

Result<void> Leases::wait(std::unique_lock<std::mutex>& lock, Epoch& epoch, Deadline deadline) {
  const Time until = std::min(deadline.when(), epoch.next_expiry);
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Deadline::Clock::now());
  epoch.changed.wait_for(lock, Interrupt::slice(std::min<std::chrono::milliseconds>(left, std::chrono::hours(1))));
  lock.unlock();
  Result<void> wanted = Interrupt::check();
  lock.lock();
  return wanted;
}

Result<LeaseReply> Leases::ask(const LeaseRequest& message, Deadline deadline) {
  std::unique_lock lock(mutex_);
  const Error stopping{ErrorCode::kShuttingDown, "the server is stopping"};
  if (stopped_) return stopping;
  FLOTA_TRY(meet(message));
  FLOTA_ASSIGN(auto epoch, find(message));
  LeaseReply reply;
  reply.outcome = message.take ? LeaseOutcome::kOver : LeaseOutcome::kNoted;
  if (!epoch) {
    reply.lost = unfinished(message);
    return reply;
  }
  const Class of{message.first, message.stride};
  counts_.expired += epoch->expire();
  reply.lost = epoch->note(message);
  if (epoch->left == 0) close(passes_[message.pass], message.epoch);
  while (message.take && !epoch->over && !epoch->class_over(of)) {
    if (!epoch->replaced && grant(*epoch, message, reply)) break;
    if (!epoch->replaced && !epoch->others_hold(of, message.rank)) {
      reply.outcome = LeaseOutcome::kOwn;
      break;
    }
    if (epoch->replaced || deadline.passed()) {
      reply.outcome = LeaseOutcome::kNone;
      break;
    }
    FLOTA_TRY(wait(lock, *epoch, deadline));
    if (stopped_) return stopping;
    FLOTA_TRY(meet(message));
    counts_.expired += epoch->expire();
  }
  reply.left = epoch->over ? 0 : epoch->left;
  return reply;
}

LeaseStates Leases::state() const {
  std::lock_guard lock(mutex_);
  LeaseStates states;
  for (const auto& [name, pass] : passes_) {
    if (pass.open.empty()) states.epochs.push_back({name, 0, 0, pass.over_below, {}, {}});
    for (const auto& [number, epoch] : pass.open) {
      LeaseState state{name, number, epoch->done.size(), pass.over_below, runs_of(epoch->done), {}};
      for (const auto& [shard, samples] : epoch->samples) state.partial.push_back({shard, samples});
      std::sort(state.partial.begin(), state.partial.end(), [](auto& a, auto& b) { return a.shard < b.shard; });
      states.epochs.push_back(std::move(state));
    }
  }
  return states;
}

Result<void> Leases::restore(const LeaseStates& states) {
  FLOTA_TRY(states.check());
  std::map<std::string, Pass> passes;
  for (const LeaseState& state : states.epochs) {
    Pass& pass = passes[state.pass];
    pass.over_below = state.over_below;
    if (state.shards == 0) continue;
    auto epoch = std::make_shared<Epoch>(state.shards);
    for (const ShardRun& run : state.done) {
      for (uint64_t shard = run.begin; shard < run.end; ++shard) epoch->set_done(shard);
    }
    for (const ShardSamples& partial : state.partial) epoch->samples[partial.shard] = partial.samples;
    pass.open[state.epoch] = std::move(epoch);
  }
  std::lock_guard lock(mutex_);
  for (auto& [name, pass] : passes_) {
    for (auto& [number, epoch] : pass.open) {
      epoch->replaced = true;
      epoch->changed.notify_all();
    }
  }
  passes_ = std::move(passes);
  for (auto& [rank, worker] : workers_) worker.grants.clear();
  return {};
}

void Leases::stop() {
  std::lock_guard lock(mutex_);
  stopped_ = true;
  for (auto& [name, pass] : passes_) {
    for (auto& [number, epoch] : pass.open) epoch->changed.notify_all();
  }
}

Leases::Counts Leases::counts() const {
  std::lock_guard lock(mutex_);
  return counts_;
}

}  // namespace flota
