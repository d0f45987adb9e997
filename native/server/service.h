#pragma once

#include <chrono>
#include <functional>
#include <vector>

#include "common/shard_map.h"
#include "durable/gate.h"
#include "server/barriers.h"
#include "server/board.h"
#include "server/clocks.h"
#include "server/counters.h"
#include "server/journal.h"
#include "server/leases.h"
#include "server/ledger.h"
#include "server/mailboxes.h"
#include "server/record.h"
#include "server/registry.h"
#include "server/rejoins.h"
#include "server/requests.h"
#include "server/steps.h"
#include "server/team.h"
#include "wire/era_messages.h"
#include "wire/frame.h"
#include "wire/messages.h"

namespace flota {

// What a server does, request by request; it knows frames, but not where they come from. Thread safety: any thread,
// each with its own stream.
class Service {
 public:
  // `io_time` bounds the sending and receiving of one message, `max_payload` its size; `on_shutdown` is called once a
  // client asked for it and was answered.
  Service(std::chrono::milliseconds io_time, uint64_t max_payload, std::function<void()> on_shutdown);

  // Reads the payload of the request that `header` announced, answers it, and leaves the stream at the next frame. An
  // error means that the connection is no longer usable. `buffer` is scratch that the connection keeps.
  Result<void> answer(const FrameHeader& header, FrameReader& reader, Stream& stream, std::vector<std::byte>& buffer);

  // Before anybody is served: tables of a checkpoint. `rows` may hold other servers' rows, which are left out; returns
  // how many were this server's. What restored() is told goes into the statistics, so that workers can see whether all
  // servers began with the same checkpoint, and where training stood.
  Result<void> restore_table(const TableSpec& spec);
  Result<uint64_t> restore_rows(const Rows& rows, const ShardMap& map, uint32_t server);
  Result<void> restore_parameter(WholeParameter parameter);
  // The last thing of a table: where its eras stand.
  Result<void> restore_history(const std::string& table, uint64_t era, uint64_t mark, std::vector<uint64_t> shrinks);
  Result<void> restore_leases(const LeaseStates& states) { return leases_.restore(states); }
  void restored(uint64_t checkpoint, uint64_t step);

  // --- what outlives the process: service_state.cc, service_replay.cc ---

  // Before anybody is served: from here on every change is written there first, and nothing is changed that cannot be.
  void set_journal(Journal* journal);
  // While it is held nothing changes that save() writes. Waits for what is under way, a moment at most.
  struct Frozen {
    Gate::Closed gate;
    std::vector<Freeze> parts;
  };
  Frozen freeze();
  // Everything, as records. Takes no lock: it may run in a copy of the process. Requires: frozen, or nobody is served.
  Result<void> save(Journal& out) const;
  // Applies one record, of a log or of a snapshot of at most `most_bytes`. kMalformed: it is no record of this state.
  // Requires: nobody is served yet, and no journal is set.
  Result<void> replay(RecordKind kind, std::span<const std::byte> payload, uint64_t most_bytes);
  // Rows of a snapshot. Thread safety: those of one part one after another, others at the same time.
  Result<uint64_t> rows_part(std::span<const std::byte> payload) const;
  // Of all tables.
  uint64_t table_bytes() const;
  // After a copy of the process has written them.
  void collapse_pages(const Pages::Between& between) const;
  // What is seen of this server by people. Any thread, also while it serves.
  ObserveReply observe(const Observe& message) const;
  // Told in the statistics, with the server's own numbers.
  using Report = std::function<void(const std::function<void(const char* name, uint64_t value)>&)>;
  void set_report(Report report) { report_ = std::move(report); }

  Counters& counters() { return counters_; }
  Requests& requests() { return requests_; }
  void stop() {
    barriers_.stop();
    steps_.stop();
    clocks_.stop();
    leases_.stop();
    mailboxes_.stop();
    team_.stop();
  }

 private:
  using Payload = std::span<const std::byte>;

  // A request's answer, still to be sent by its handler (Result<void>), or to be sent for it.
  // `more`: another answer follows at once, and the client may see both together.
  Result<void> reply(Stream& stream, uint64_t request, const Writer& payload, bool more = false);
  Result<void> reply_error(Stream& stream, uint64_t request, const Error& error);
  // What becomes of an answer that is begun, if memory ends in the middle of it: nothing may follow on its connection.
  static Error half_said();
  Deadline io_deadline() const { return Deadline::after(io_time_); }
  static constexpr uint64_t kLongestWait = 24ull * 3600 * 1000;
  // For how long a client asked to wait for other clients.
  static Deadline wait_deadline(uint64_t wait_ms);

  // Each returns the payload of its reply.
  Result<Writer> create_table(Payload payload);
  Result<Writer> describe_table(Payload payload);
  Result<Writer> push(Payload payload);
  Result<Writer> push_dense(Payload payload);
  Result<Writer> barrier(Payload payload);
  Result<Writer> finish_step(Payload payload);
  Result<Writer> changes(Payload payload);
  Result<Writer> advance(Payload payload);
  Result<Writer> lease(Payload payload);
  Result<Writer> lease_states(Payload payload);
  Result<Writer> restore_leases(Payload payload);
  Result<Writer> send(Payload payload);
  Result<Writer> statistics(Payload payload);
  Result<Writer> export_rows(Payload payload);
  Result<Writer> import_rows(Payload payload);
  Result<Writer> era(Payload payload);
  Result<Writer> shrink(Payload payload);
  Result<Writer> rejoin(Payload payload);
  Result<Writer> team(Payload payload);
  Result<Writer> post(Payload payload);
  Result<Writer> observe_for(Payload payload);
  Result<Writer> shutdown(Payload payload);
  std::vector<Statistic> values() const;

  // These stream their answers straight from where they are kept; an error inside `sent` broke the connection.
  Result<void> pull(uint64_t request, Payload payload, Stream& stream, Result<void>& sent);
  Result<void> pull_dense(uint64_t request, Payload payload, Stream& stream, Result<void>& sent);
  Result<void> receive(uint64_t request, Payload payload, Stream& stream, Result<void>& sent);

  // Makes or overwrites whole rows; what can be refused of them is refused by the check.
  static Result<void> check_import(const HostedTable& table, const Rows& rows);
  static void import_into(HostedTable& table, const Rows& rows);
  static void begin_era(HostedTable& table, const Era& message);
  static uint64_t apply_shrink(HostedTable& table, const Shrink& message);

  // What a claim does to the parts that know workers. Requires: rejoins_ has it, and is locked.
  Result<void> apply_rejoin(const Rejoin& message);
  // What it does to them that a worker has left. Requires: team_ has it, and is locked with them.
  void apply_leave(uint32_t rank);

  template <class Apply, class Hold>
  Result<Writer> apply_once(MessageKind kind, Payload payload, const PushHead& head, HostedTable& table, Apply apply,
                            Hold hold);

  // Around changes of a few rows or blocks; several at a time. Nothing, where nothing is written down.
  Gate::Passing pass() { return journal_ == nullptr ? Gate::Passing() : gate_.pass(); }
  // Around changes of whole tables: nothing else changes any.
  struct Alone {
    Gate::Closed gate;
    Freeze steps;
  };
  Alone alone();
  // Writes down a request that is about to be done, if anything is. Requires: pass() or alone().
  Result<void> record(MessageKind kind, Payload payload);
  // Likewise that a pull has made rows; one that cannot be written down yet is kept for later, because rows that are
  // made again are the same.
  void record_made(HostedTable& table, std::span<const Key> made);
  // Those that were kept.
  Result<void> record_kept(HostedTable& table);

  Result<void> replay_request(Payload payload);
  Result<void> replay_made(Payload payload);
  Result<void> replay_head(Payload payload);
  Result<void> replay_table(Payload payload);
  Result<void> replay_rows(Payload payload, uint64_t most_bytes);
  Result<void> replay_parameter(Payload payload);
  Result<void> replay_history(Payload payload);
  Result<void> replay_changes(Payload payload);
  Result<void> replay_create(Payload payload);
  Result<void> replay_rejoin(RecordKind kind, Payload payload);
  Result<void> replay_team(RecordKind kind, Payload payload);

  std::chrono::milliseconds io_time_;
  uint64_t max_payload_;
  std::function<void()> on_shutdown_;
  Registry registry_;
  Ledger ledger_;
  Barriers barriers_;
  Steps steps_;
  Clocks clocks_;
  Leases leases_;
  Mailboxes mailboxes_;
  Rejoins rejoins_;
  Team team_;
  Board board_;
  Counters counters_;
  Requests requests_;
  Deadline::Clock::time_point began_ = Deadline::Clock::now();
  uint64_t checkpoint_ = 0;  // 0: none
  uint64_t checkpoint_step_ = 0;
  Journal* journal_ = nullptr;  // null: nothing is written down
  Gate gate_;
  Report report_;
};

}  // namespace flota
