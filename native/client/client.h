#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "client/background.h"
#include "client/batch.h"
#include "client/blocks.h"
#include "client/lane.h"
#include "client/step_tally.h"
#include "common/push.h"
#include "common/spec.h"
#include "wire/era_messages.h"
#include "wire/lease_messages.h"
#include "wire/mail_messages.h"
#include "wire/messages.h"
#include "wire/observe_messages.h"
#include "wire/rejoin_messages.h"
#include "wire/team_messages.h"

namespace flota {

struct ClientOptions {
  std::vector<std::string> endpoints;  // server i is the i-th
  std::string endpoints_file;          // empty, or where to look up where they are now: see LinkOptions
  std::string secret;
  uint64_t worker = 0;  // 0: a random one
  uint32_t epoch = 0;   // the worker's incarnation: higher after each restart
  Transport transport = Transport::kAuto;
  TlsOptions tls;
  bool insecure = false;  // TCP may leave this host without TLS
  uint64_t max_payload = kDefaultMaxPayload;
  // Nothing is asked at first, so that it does not matter which servers are there: for who looks on.
  bool looks_on = false;
};

// A table as a client knows it.
struct RemoteTable {
  uint64_t id = 0;
  TableSpec spec;                      // dense: blocks of all servers
  std::vector<uint32_t> block_server;  // dense: who holds spec.blocks[i]
};

struct PushOptions {
  PushKind kind = PushKind::kGradient;
  float lr = 0;
  float scale = 1;
  uint64_t step = 0;
  // Workers that train together: the group's hash_name(), 0: none, and this worker's place in it. Gradients wait for
  // finish_step(); deltas are told to those who ask for changes().
  uint64_t group = 0;
  uint32_t rank = 0;
};

// A dense parameter's values, to where they go or where they come from, and what they travel as.
struct DensePull {
  const RemoteTable* table = nullptr;
  std::span<float> out = {};
  Storage element = Storage::kFloat32;
  // Empty, or the table's version on each server: a server with nothing newer than that sends nothing, and what is in
  // `out` stays. Afterwards, the version of what is there. PullDense::kNoVersion: there is nothing yet; 0: send what
  // was written to only.
  std::span<uint64_t> versions = {};
};
struct DensePush {
  const RemoteTable* table = nullptr;
  std::span<const float> values;
  PushOptions options;
  Storage element = Storage::kFloat32;  // assignments travel as float32 whatever it says
  std::vector<uint64_t> seen = {};      // empty, or the version on each server that the values were computed from
  bool finite = false;                  // somebody has looked already: there is no NaN and no infinity among the values
};

// How far a worker has come by itself.
struct Progress {
  std::string group;
  uint64_t step = 0;    // steps that it has finished
  uint64_t behind = 0;  // how many steps the others may be behind
  uint32_t rank = 0;
  uint32_t world = 0;  // 0: the job's workers, as server 0 knows them
  bool leave = false;  // it takes no part in later steps, and does not wait
  bool rest = false;   // nobody waits for it until its next step, nor does it wait
};

// The way of a letter, and its place in the row of those that the sender sends the receiver.
struct LetterTo {
  std::string channel;
  uint32_t from = 0;
  uint32_t to = 0;
  uint32_t world = 0;
  uint64_t sequence = 0;
  bool last = false;  // there are no more
};

// What is told of a push's distinct keys, in their order: none, or as many as there are.
struct ToldOfKeys {
  std::span<const float> shows;
  std::span<const float> clicks;
};

// Which rows go, and the era that begins then.
struct ShrinkOptions {
  uint64_t era = 0;
  uint32_t max_age = 0;
  float decay = 1;
  double min_score = 0;
  double min_norm = 0;
  bool all = false;
};

// What of a table is exported: see RowsOf and Export.
struct ExportOf {
  RowsOf part = RowsOf::kTable;
  uint64_t since = 0;
};

// Where a page of an export begins. Sparse: a shard; dense: a block.
struct ExportFrom {
  uint32_t shard = 0;
  uint64_t cursor = 0;  // 0: its beginning
};

// A worker's end of a step, and the rows that the step has changed, by table.
struct StepEnd {
  std::string group;
  uint64_t step = 0;   // of the group, from whatever its workers agree on
  uint64_t count = 0;  // steps that the worker has trained, this one included: what rules count by
  uint32_t rank = 0;
  uint32_t world = 0;
  double samples = 0;      // its weight in the average of all workers' gradients
  bool leave = false;      // it takes no part in later steps
  bool want_keys = false;  // tell the rows that have changed
  // Where its data stands once the step is applied: what it is told if it is started again.
  std::span<const std::byte> position = {};
  std::span<const uint32_t> servers = {};  // only these, to finish once more; none: all
};
using ChangedKeysByTable = std::map<uint64_t, std::vector<Key>>;

// The last step that a worker has finished before it was started again.
struct Finished {
  std::string group;  // empty: none
  uint64_t step = 0;
  uint64_t count = 0;
  double samples = 0;
  bool leave = false;
  std::vector<std::byte> position;
  uint64_t ordinal = 0;           // so many finishes of the worker there have been, this one included
  std::vector<uint64_t> pushes;   // of this step, answered for by each server
  std::vector<uint32_t> pending;  // servers that have not applied it, or do not know that it was finished
};
struct Rejoined {
  uint32_t starts = 0;  // how often the worker was started, this time included
  uint64_t steps = 0;   // that it has noted
  std::vector<std::byte> position;
  Finished last;
  std::map<std::string, uint64_t> passed;  // how often everybody was at each barrier
};

struct TableSummary {
  RemoteTable table;
  uint64_t rows = 0;
  uint64_t bytes = 0;
};

struct ServerStatistics {
  std::string endpoint;
  std::vector<Statistic> values;
};

// All servers of a job as one. Duplicate keys are removed, keys are split by server, all servers are talked to at the
// same time, and what breaks is mended until the deadline; every error names the server, what was asked, and the
// deadline. Pushes are applied exactly once. Thread safety: any thread.
class Client {
 public:
  // Checks the options and connects to every server, so that a wrong secret or address shows at once.
  static Result<std::unique_ptr<Client>> connect(ClientOptions options, std::chrono::milliseconds time);
  ~Client();

  using Time = std::chrono::milliseconds;

  Result<RemoteTable> create_sparse(TableSpec spec, Time time);
  Result<RemoteTable> create_dense(TableSpec spec, const Slicing& slicing, Time time);
  Result<TableSummary> describe(const std::string& name, Time time);

  // Rows of the keys, in their order. Requires: out.size() == keys.size() * dim.
  Result<void> pull(const RemoteTable& table, std::span<const Key> keys, std::span<float> out, bool create, Time time);
  // Values of equal keys are summed (kAssign: the last one counts) and applied once.
  Result<void> push(const RemoteTable& table, std::span<const Key> keys, std::span<const float> values,
                    const PushOptions& options, Time time);
  // The same for keys that were made ready before: one row for each distinct key, in the batch's order.
  Batch make_batch() const { return Batch(map_); }
  Result<void> pull(const RemoteTable& table, Batch& batch, std::span<float> out, bool create, Time time);
  Result<void> push(const RemoteTable& table, Batch& batch, std::span<const float> values, const PushOptions& options,
                    Time time);
  // Several parameters at once cost little more than one. Requires: the tables outlive the call.
  Result<void> pull_dense(std::span<const DensePull> pulls, Time time);
  Result<void> push_dense(std::span<const DensePush> pushes, Time time);
  // Pushes, and pulls what servers have after that, in one go. Not in order with pushes in the background.
  Result<void> exchange_dense(std::span<const DensePush> pushes, std::span<const DensePull> pulls, Time time);
  Result<void> pull_dense(const RemoteTable& table, std::span<float> out, Time time) {
    const DensePull one{&table, out};
    return pull_dense(std::span(&one, 1), time);
  }
  Result<void> push_dense(const RemoteTable& table, std::span<const float> values, const PushOptions& options,
                          Time time) {
    const DensePush one{&table, values, options};
    return push_dense(std::span(&one, 1), time);
  }

  // The same in the background. Pulls begin in the order they were started, up to eight at a time where the way to the
  // servers is long; pushes run one after another, also relative to pushes that wait. `keep` lives as long as the call
  // and owns the memory that the spans point to.
  using Keep = std::shared_ptr<void>;
  std::shared_ptr<Pending> pull_async(const RemoteTable& table, std::span<const Key> keys, std::span<float> out,
                                      bool create, Time time, Keep keep);
  std::shared_ptr<Pending> push_async(const RemoteTable& table, std::span<const Key> keys,
                                      std::span<const float> values, const PushOptions& options, Time time, Keep keep);
  std::shared_ptr<Pending> pull_async(const RemoteTable& table, std::shared_ptr<Batch> batch, std::span<float> out,
                                      bool create, Time time, Keep keep);
  std::shared_ptr<Pending> push_async(const RemoteTable& table, std::shared_ptr<Batch> batch,
                                      std::span<const float> values, const PushOptions& options, Time time, Keep keep);
  std::shared_ptr<Pending> pull_dense_async(std::vector<DensePull> pulls, Time time, Keep keep);
  std::shared_ptr<Pending> push_dense_async(std::vector<DensePush> pushes, Time time, Keep keep);

  // Tells all servers that this worker has pushed all it had to push in the step, and returns when they have averaged
  // and applied what the workers of the group pushed. kDeadline names who is missing.
  Result<ChangedKeysByTable> finish_step(const StepEnd& end, Time time);
  // Keys of rows that workers other than `rank` have changed by deltas of a group. `since` holds a version for each
  // server, 0 at first, and is brought up to date.
  Result<std::vector<Key>> changes(const RemoteTable& table, uint32_t rank, std::span<uint64_t> since, Time time);
  // Tells server 0 how far this worker has come, and returns when no other is further behind than allowed: the number
  // of steps that every worker of the group has finished. kDeadline names who is behind.
  Result<uint64_t> advance(const Progress& progress, Time time);
  // Waits at server 0 until all ranks came, and returns what each of them brought. A world of 0 is the job's workers;
  // what is empty then may be of a rank between them that nobody has.
  Result<std::vector<std::vector<std::byte>>> gather(const std::string& name, uint32_t rank, uint32_t world,
                                                     std::span<const std::byte> brings, Time time);
  // Who the job's workers are: kept by server 0. A worker joins before anything else; a join waits for those of lower
  // ranks. A leave, of this worker or for one that has ended, goes to all servers.
  Result<TeamReply> team(TeamRequest message, Time time);
  // A note for people, kept by server 0.
  Result<PostReply> post(const Post& message, Time time);
  // How one server does. The others need not be there.
  Result<ObserveReply> observe(uint32_t server, const Observe& message, Time time);
  // The first call of a worker that may have been started before, but for a join: what earlier incarnations still send
  // is refused from here on, and what they pushed to a step that they did not finish is forgotten. This client's epoch
  // becomes later than all that servers know. From here on it counts its arrivals at barriers: at those that everybody
  // has passed it does not wait, but is given what was brought then. Requires: no other call was made yet.
  Result<Rejoined> rejoin(uint32_t rank, uint32_t world, Time time);
  // Whether every server knows of all steps that this worker has finished; kLost: one has come back without some.
  Result<void> check_finishes(uint32_t rank, uint32_t world, Time time);
  // Tells server 0 how many of this worker's steps the tables have for good, and, while it goes again through what was
  // done before it was started, how far it is; target 0: it is where it was. `position`: where it stands, in words of
  // its own, which it is told when it is started again.
  Result<void> note_steps(uint64_t steps, uint64_t reached, uint64_t target, Time time,
                          std::span<const std::byte> position = {});
  // Workers that are on their way back to where they were, and were heard of within a time.
  Result<std::vector<OnItsWay>> on_their_way(Time within, Time time);
  // For who starts workers again: this one is coming, so that others wait for it beyond their deadlines. Returns the
  // incarnation that has the worker's place; a change tells that it has come.
  Result<uint32_t> announce(uint32_t rank, uint32_t world, Time time);
  // How often this worker was at each barrier.
  std::map<std::string, uint64_t> arrivals();
  void set_arrivals(std::map<std::string, uint64_t> arrivals);
  // Shares the shards of a data set by server 0: see Leases. `incarnation` and `wait_ms` are filled in here. That none
  // came free in time is no error, but LeaseOutcome::kNone.
  Result<LeaseReply> lease(LeaseRequest message, Time time);
  Result<LeaseStates> lease_states(Time time);
  Result<void> restore_leases(const LeaseStates& states, Time time);
  // Puts a letter of at most SendHead::kMaxBytes into the receiver's box: see Mailboxes. kDeadline names the receiver
  // who does not read.
  Result<void> send(const LetterTo& to, std::span<const std::byte> bytes, Time time);
  // The next letter after the first `taken`, or that nobody sends any more. kDeadline names those who may.
  Result<Letter> receive(const std::string& channel, uint32_t to, uint32_t world, uint64_t taken, Time time);
  Result<std::vector<ServerStatistics>> statistics(Time time);

  // A page of whole rows from each of these places, asked for all at once: Rows::decode() reads one.
  using Page = std::vector<std::byte>;
  Result<std::vector<Page>> export_pages(const RemoteTable& table, std::span<const ExportFrom> places,
                                         uint32_t max_rows, Time time, const ExportOf& what = {});
  // Asks each server where the table stands, and begins an era, as `era` says.
  Result<std::vector<EraReply>> era(const RemoteTable& table, Era era, Time time);
  // Removes rows; returns how many. Exactly once, as a push.
  Result<uint64_t> shrink(const RemoteTable& table, const ShrinkOptions& options, Time time);
  // Makes or overwrites whole rows, each on the server that holds it.
  Result<void> import_rows(const RemoteTable& table, const Rows& rows, Time time);

  // Asks one server to stop, or all (server = -1).
  Result<void> shutdown(int server, Time time);

  // Waits for background calls, then closes the connections. Later calls fail with kCancelled.
  void close();

  uint64_t worker() const { return options_.worker; }
  uint32_t epoch() const { return options_.epoch; }
  uint32_t servers() const { return static_cast<uint32_t>(links_.size()); }

 private:
  explicit Client(ClientOptions options);
  struct RejoinAnswer {
    RejoinReply reply;
    Finished last;
    std::vector<std::byte> position;
  };
  // Asks these servers; the answers are in their order.
  Result<std::vector<RejoinAnswer>> ask_rejoin(const Rejoin& message, const std::vector<uint32_t>& servers, Time time);
  std::vector<uint32_t> all_servers() const;
  // kLost names the server that knows of less than has been finished, or of less than a step before that.
  Result<void> check_knows(uint32_t server, uint32_t rank, uint64_t known, uint64_t least, uint64_t finished) const;
  // The same for another purpose, which errors then name.
  Result<std::vector<ServerStatistics>> statistics_for(const std::string& what, Time time);

  Result<std::unique_ptr<Lane>> borrow();
  void give_back(std::unique_ptr<Lane> lane);
  template <class Body>
  Result<void> with_lane(const std::string& what, Time time, Body body);
  // Pushes keep the order in which they were made: one with nothing before it runs here and now.
  template <class Body>
  Result<void> ordered_push(Body body);

  Result<void> check_settings(const std::vector<TableSpec>& specs, Time time);
  Result<void> create(const std::vector<TableSpec>& specs, Time time);
  // `seen`: the table's version on each server, or empty.
  Result<void> send_push(Lane& lane, const Router& router, const RemoteTable& table, std::span<const float> rows,
                         bool rows_are_ordered, std::span<const uint64_t> seen, const ToldOfKeys& told,
                         const PushOptions& options, Deadline deadline);
  Result<void> push_now(const RemoteTable& table, std::span<const Key> keys, std::span<const float> values,
                        const PushOptions& options, Time time);
  Result<void> push_now(const RemoteTable& table, Batch& batch, std::span<const float> values,
                        const PushOptions& options, Time time);
  Result<void> check_dense(std::span<const DensePush> pushes, std::span<const DensePull> pulls) const;
  // A push's head with a sequence number of its own, which is open until end_push().
  PushHead push_head(const RemoteTable& table, const PushOptions& options);
  void end_push(uint64_t sequence);
  // Takes the answer to a push, and counts it.
  void expect_push_reply(Call& call, const PushHead& head, uint32_t server);

  ClientOptions options_;
  ShardMap map_;
  std::vector<LinkOptions> links_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Lane>> idle_lanes_;
  bool closed_ = false;
  struct Joined {
    uint32_t rank = 0;
    uint32_t world = 0;
    uint32_t starts = 0;
  };
  std::optional<Joined> joined_;
  std::map<std::string, uint64_t> arrivals_;
  uint64_t next_sequence_ = 1;
  std::set<uint64_t> open_pushes_;
  StepTally tally_;
  // Each that is under way has a connection to every server.
  Background pulls_{8};
  Background pushes_;
};

}  // namespace flota
