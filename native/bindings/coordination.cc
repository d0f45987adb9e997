#include "bindings/coordination.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tuple>

#include "bindings/arrays.h"
#include "bindings/errors.h"
#include "bindings/waiting.h"
#include "server/leases.h"

namespace nb = nanobind;

namespace flota {
namespace {

std::chrono::milliseconds ms(int64_t time) { return std::chrono::milliseconds(time); }

using ProgressTuples = std::vector<std::tuple<uint64_t, uint64_t, uint64_t>>;

#define FLOTA_LEASE_ARGUMENTS                                                                        \
  "pass_: str, epoch: int, shards: int, rank: int, world: int, call: int, ttl_ms: int, first: int, " \
  "stride: int, take: bool, progress: Sequence[tuple[int, int, int]], time_ms: int, wait: bool = True"
#define FLOTA_LEASE_REPLY "tuple[LeaseOutcome, int, int, int, list[int]]"
#define FLOTA_LEASE_STATES "list[tuple[str, int, int, int, list[tuple[int, int]], list[tuple[int, int]]]]"

LeaseRequest request_of(std::string pass, uint64_t epoch, uint64_t shards, uint32_t rank, uint32_t world, uint64_t call,
                        uint64_t ttl_ms, uint64_t first, uint64_t stride, bool take, const ProgressTuples& progress) {
  LeaseRequest message;
  message.pass = std::move(pass);
  message.epoch = epoch;
  message.shards = shards;
  message.rank = rank;
  message.world = world;
  message.call = call;
  message.ttl_ms = ttl_ms;
  message.first = first;
  message.stride = stride;
  message.take = take;
  for (const auto& [shard, samples, flags] : progress) message.progress.push_back({shard, samples, flags});
  return message;
}

nb::tuple to_tuple(const LeaseReply& reply) {
  return nb::make_tuple(reply.outcome, reply.shard, reply.samples, reply.left, reply.lost);
}

LeaseStateTuples to_tuples(const LeaseStates& states) {
  LeaseStateTuples tuples;
  for (const LeaseState& state : states.epochs) {
    auto& [pass, epoch, shards, over_below, done, partial] = tuples.emplace_back();
    pass = state.pass;
    epoch = state.epoch;
    shards = state.shards;
    over_below = state.over_below;
    for (const ShardRun& run : state.done) done.emplace_back(run.begin, run.end);
    for (const ShardSamples& one : state.partial) partial.emplace_back(one.shard, one.samples);
  }
  return tuples;
}

void bind_leases(nb::module_& module) {
  nb::enum_<LeaseOutcome>(module, "LeaseOutcome")
      .value("noted", LeaseOutcome::kNoted)
      .value("granted", LeaseOutcome::kGranted)
      .value("none", LeaseOutcome::kNone)
      .value("over", LeaseOutcome::kOver)
      .value("own", LeaseOutcome::kOwn);
  module.attr("SHARD_DONE") = ShardProgress::kDone;
  module.attr("SHARD_RELEASED") = ShardProgress::kReleased;
  nb::class_<Leases>(module, "Leases")
      .def(nb::init<>())
      .def(
          "lease",
          [](Leases& self, std::string pass, uint64_t epoch, uint64_t shards, uint32_t rank, uint32_t world,
             uint64_t call, uint64_t ttl_ms, uint64_t first, uint64_t stride, bool take, const ProgressTuples& progress,
             int64_t time, bool wait, uint64_t incarnation) {
            LeaseRequest message =
                request_of(std::move(pass), epoch, shards, rank, world, call, ttl_ms, first, stride, take, progress);
            message.incarnation = incarnation;
            check(message.check());
            const LeaseReply reply = [&] {
              Waiting waiting;
              return flota::take(self.ask(message, Deadline::after(ms(wait ? time : 0))));
            }();
            return to_tuple(reply);
          },
          nb::arg("pass_"), nb::arg("epoch"), nb::arg("shards"), nb::arg("rank"), nb::arg("world"), nb::arg("call"),
          nb::arg("ttl_ms"), nb::arg("first"), nb::arg("stride"), nb::arg("take"), nb::arg("progress"),
          nb::arg("time_ms"), nb::arg("wait") = true, nb::arg("incarnation") = 0,
          nb::sig("def lease(self, " FLOTA_LEASE_ARGUMENTS ", incarnation: int = 0) -> " FLOTA_LEASE_REPLY))
      .def(
          "states",
          [](const Leases& self) {
            const LeaseStates states = [&] {
              Waiting waiting;
              return self.state();
            }();
            return to_tuples(states);
          },
          nb::sig("def states(self) -> " FLOTA_LEASE_STATES))
      .def(
          "restore",
          [](Leases& self, const LeaseStateTuples& states) {
            const LeaseStates all = states_of(states);
            Waiting waiting;
            check(self.restore(all));
          },
          nb::arg("states"), nb::sig("def restore(self, states: " FLOTA_LEASE_STATES_GIVEN ") -> None"));
}

void bind_client_leases(nb::class_<Client>& client) {
  client
      .def(
          "lease",
          [](Client& self, std::string pass, uint64_t epoch, uint64_t shards, uint32_t rank, uint32_t world,
             uint64_t call, uint64_t ttl_ms, uint64_t first, uint64_t stride, bool take, const ProgressTuples& progress,
             int64_t time, bool wait) {
            LeaseRequest message =
                request_of(std::move(pass), epoch, shards, rank, world, call, ttl_ms, first, stride, take, progress);
            if (!wait) message.wait_ms = 0;
            const LeaseReply reply = [&] {
              Waiting waiting;
              return flota::take(self.lease(std::move(message), ms(time)));
            }();
            return to_tuple(reply);
          },
          nb::arg("pass_"), nb::arg("epoch"), nb::arg("shards"), nb::arg("rank"), nb::arg("world"), nb::arg("call"),
          nb::arg("ttl_ms"), nb::arg("first"), nb::arg("stride"), nb::arg("take"), nb::arg("progress"),
          nb::arg("time_ms"), nb::arg("wait") = true,
          nb::sig("def lease(self, " FLOTA_LEASE_ARGUMENTS ") -> " FLOTA_LEASE_REPLY))
      .def(
          "lease_states",
          [](Client& self, int64_t time) {
            const LeaseStates states = [&] {
              Waiting waiting;
              return take(self.lease_states(ms(time)));
            }();
            return to_tuples(states);
          },
          nb::arg("time_ms"), nb::sig("def lease_states(self, time_ms: int) -> " FLOTA_LEASE_STATES))
      .def(
          "restore_leases",
          [](Client& self, const LeaseStateTuples& states, int64_t time) {
            const LeaseStates all = states_of(states);
            Waiting waiting;
            check(self.restore_leases(all, ms(time)));
          },
          nb::arg("states"), nb::arg("time_ms"),
          nb::sig("def restore_leases(self, states: " FLOTA_LEASE_STATES_GIVEN ", time_ms: int) -> None"));
}

#define FLOTA_LETTER_ARGUMENTS "channel: str, from_: int, to: int, world: int, sequence: int, last: bool"

void bind_mail(nb::class_<Client>& client) {
  client
      .def(
          "send",
          [](Client& self, const std::string& channel, uint32_t from, uint32_t to, uint32_t world, uint64_t sequence,
             bool last, const nb::bytes& data, int64_t time) {
            auto bytes = std::as_bytes(std::span(data.c_str(), data.size()));
            Waiting waiting;
            check(self.send({channel, from, to, world, sequence, last}, bytes, ms(time)));
          },
          nb::arg("channel"), nb::arg("from_"), nb::arg("to"), nb::arg("world"), nb::arg("sequence"), nb::arg("last"),
          nb::arg("data"), nb::arg("time_ms"),
          nb::sig("def send(self, " FLOTA_LETTER_ARGUMENTS ", data: bytes, time_ms: int) -> None"))
      .def(
          "send",
          [](Client& self, const std::string& channel, uint32_t from, uint32_t to, uint32_t world, uint64_t sequence,
             bool last, uintptr_t address, size_t size, int64_t time) {
            auto bytes = array_at<const std::byte>(address, size);
            Waiting waiting;
            check(self.send({channel, from, to, world, sequence, last}, bytes, ms(time)));
          },
          nb::arg("channel"), nb::arg("from_"), nb::arg("to"), nb::arg("world"), nb::arg("sequence"), nb::arg("last"),
          nb::arg("address"), nb::arg("size"), nb::arg("time_ms"),
          nb::sig("def send(self, " FLOTA_LETTER_ARGUMENTS ", address: int, size: int, time_ms: int) -> None"))
      .def(
          "receive",
          [](Client& self, const std::string& channel, uint32_t to, uint32_t world, uint64_t taken,
             int64_t time) -> nb::object {
            const Letter letter = [&] {
              Waiting waiting;
              return flota::take(self.receive(channel, to, world, taken, ms(time)));
            }();
            if (letter.over) return nb::none();
            return nb::make_tuple(letter.from, letter.last, nb::bytes(letter.bytes->data(), letter.bytes->size()));
          },
          nb::arg("channel"), nb::arg("to"), nb::arg("world"), nb::arg("taken"), nb::arg("time_ms"),
          nb::sig("def receive(self, channel: str, to: int, world: int, taken: int, time_ms: int) -> "
                  "tuple[int, bool, bytes] | None"));
}

}  // namespace

LeaseStates states_of(const LeaseStateTuples& tuples) {
  LeaseStates states;
  for (const auto& [pass, epoch, shards, over_below, done, partial] : tuples) {
    LeaseState state{pass, epoch, shards, over_below, {}, {}};
    for (const auto& [begin, end] : done) state.done.push_back({begin, end});
    for (const auto& [shard, samples] : partial) state.partial.push_back({shard, samples});
    states.epochs.push_back(std::move(state));
  }
  return states;
}

void bind_coordination(nb::module_& module, nb::class_<Client>& client) {
  bind_leases(module);
  bind_client_leases(client);
  bind_mail(client);
}

}  // namespace flota
