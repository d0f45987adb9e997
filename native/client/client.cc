#include "client/client.h"

#include <algorithm>
#include <numeric>

#include "client/small_call.h"
#include "client/with_lane.h"
#include "common/hash.h"
#include "wire/handshake.h"

namespace flota {

Client::Client(ClientOptions options)
    : options_(std::move(options)),
      map_(ShardMap::even(static_cast<uint32_t>(options_.endpoints.size()))),
      tally_(static_cast<uint32_t>(options_.endpoints.size())) {}

Result<std::unique_ptr<Client>> Client::connect(ClientOptions options, Time time) {
  FLOTA_TRY(check_secret(options.secret));
  if (options.endpoints.empty() || options.endpoints.size() > kShards) {
    return invalid("a client needs between 1 and 1,024 server endpoints");
  }
  if (options.max_payload < kMinPayload) {
    return invalid("max_payload must be at least " + std::to_string(kMinPayload) + " bytes");
  }
  if (options.worker == 0) options.worker = random_number() | 1;
  std::shared_ptr<TlsContext> tls;
  if (options.tls.enabled()) {
    FLOTA_ASSIGN(tls, TlsContext::client(options.tls));
  }
  std::unique_ptr<Client> client(new Client(std::move(options)));
  const ClientOptions& chosen = client->options_;
  for (size_t i = 0; i < chosen.endpoints.size(); ++i) {
    FLOTA_ASSIGN(Endpoint endpoint, Endpoint::parse(chosen.endpoints[i]));
    client->links_.push_back({endpoint, static_cast<uint32_t>(i), static_cast<uint32_t>(chosen.endpoints.size()),
                              chosen.secret, chosen.transport, tls, chosen.max_payload,
                              chosen.insecure ? Reach::kAnywhere : Reach::kLoopback, chosen.endpoints_file});
  }
  if (chosen.looks_on) return client;
  FLOTA_ASSIGN(auto servers, client->statistics_for("connect", time));
  // Requests are cut to what the strictest server takes.
  for (const ServerStatistics& server : servers) {
    for (const Statistic& value : server.values) {
      if (!value.table.empty() || value.name != "max_payload") continue;
      client->options_.max_payload = std::min(client->options_.max_payload, std::max(value.value, kMinPayload));
    }
  }
  return client;
}

Client::~Client() { close(); }

Result<std::unique_ptr<Lane>> Client::borrow() {
  std::lock_guard lock(mutex_);
  if (closed_) return Error{ErrorCode::kCancelled, "the client is closed"};
  if (idle_lanes_.empty()) return std::make_unique<Lane>(links_, map_);
  auto lane = std::move(idle_lanes_.back());
  idle_lanes_.pop_back();
  return lane;
}

void Client::give_back(std::unique_ptr<Lane> lane) {
  std::lock_guard lock(mutex_);
  if (!closed_) idle_lanes_.push_back(std::move(lane));
}

void Client::close() {
  pulls_.stop();
  pushes_.stop();
  std::vector<std::unique_ptr<Lane>> lanes;
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
    lanes.swap(idle_lanes_);
  }
}

PushHead Client::push_head(const RemoteTable& table, const PushOptions& options) {
  PushHead head;
  head.table = table.id;
  head.worker = options_.worker;
  head.epoch = options_.epoch;
  head.step = options.step;
  head.kind = options.kind;
  head.lr = options.lr;
  head.scale = options.scale;
  head.group = options.group;
  head.rank = options.rank;
  std::lock_guard lock(mutex_);
  head.sequence = next_sequence_++;
  open_pushes_.insert(head.sequence);
  head.oldest = *open_pushes_.begin();
  return head;
}

void Client::end_push(uint64_t sequence) {
  std::lock_guard lock(mutex_);
  open_pushes_.erase(sequence);
}

// Whether no server has the table with other settings. Asked before any makes it: otherwise those that come first would
// be left with a table that the rest refuse.
Result<void> Client::check_settings(const std::vector<TableSpec>& specs, Time time) {
  return with_lane("create table '" + specs[0].name + "'", time, [&](Lane& lane, Deadline deadline) -> Result<void> {
    Writer payload;
    DescribeTable{specs[0].name}.encode(payload);
    for (uint32_t server = 0; server < servers(); ++server) {
      std::string differs;
      Call call = small_call(MessageKind::kDescribeTable, payload, [&](auto bytes) -> Result<void> {
        FLOTA_ASSIGN(DescribeTableReply reply, DescribeTableReply::decode(bytes));
        differs = difference(reply.spec, specs[server]);
        return {};
      });
      Result<void> status = lane.exchange({{server, call}}, deadline);
      if (!status && status.error().code != ErrorCode::kUnknownTable) return status;
      if (differs.empty()) continue;
      return Error{ErrorCode::kTableMismatch, "server " + std::to_string(server) + " (" +
                                                  links_[server].endpoint.to_string() + "): table '" + specs[0].name +
                                                  "' exists with other settings: " + differs};
    }
    return {};
  });
}

Result<void> Client::create(const std::vector<TableSpec>& specs, Time time) {
  FLOTA_TRY(check_settings(specs, time));
  return with_lane("create table '" + specs[0].name + "'", time, [&](Lane& lane, Deadline deadline) {
    std::vector<Lane::Request> requests;
    for (uint32_t server = 0; server < servers(); ++server) {
      Writer payload;
      CreateTable{specs[server]}.encode(payload);
      requests.push_back({server, small_call(MessageKind::kCreateTable, payload, [](auto reply) -> Result<void> {
                            FLOTA_TRY(CreateTableReply::decode(reply));
                            return {};
                          })});
    }
    return lane.exchange(requests, deadline);
  });
}

Result<RemoteTable> Client::create_sparse(TableSpec spec, Time time) {
  spec.kind = TableKind::kSparse;
  FLOTA_TRY(validate(spec));
  FLOTA_TRY(create(std::vector<TableSpec>(servers(), spec), time));
  return RemoteTable{hash_name(spec.name), spec, {}};
}

Result<RemoteTable> Client::create_dense(TableSpec spec, const Slicing& slicing, Time time) {
  spec.kind = TableKind::kDense;
  Slicing chosen = slicing;
  // Lamb compares a parameter's norm with its update's: it must see the parameter whole.
  if (spec.rule.kind == RuleKind::kLamb) chosen.slice = false;
  FLOTA_TRY(validate(spec));
  auto placed = place_blocks(spec.name, spec.size(), chosen, servers());
  std::vector<TableSpec> specs(servers(), spec);
  RemoteTable table{hash_name(spec.name), spec, {}};
  for (const PlacedBlock& block : placed) {
    specs[block.server].blocks.push_back(block.block);
    table.spec.blocks.push_back(block.block);
    table.block_server.push_back(block.server);
  }
  FLOTA_TRY(validate(table.spec));
  FLOTA_TRY(create(specs, time));
  return table;
}

Result<TableSummary> Client::describe(const std::string& name, Time time) {
  TableSummary summary;
  std::vector<DescribeTableReply> replies(servers());
  FLOTA_TRY(with_lane("describe table '" + name + "'", time, [&](Lane& lane, Deadline deadline) {
    Writer payload;
    DescribeTable{name}.encode(payload);
    std::vector<Lane::Request> requests;
    for (uint32_t server = 0; server < servers(); ++server) {
      requests.push_back(
          {server, small_call(MessageKind::kDescribeTable, payload, [&replies, server](auto bytes) -> Result<void> {
             FLOTA_ASSIGN(replies[server], DescribeTableReply::decode(bytes));
             return {};
           })});
    }
    return lane.exchange(requests, deadline);
  }));
  summary.table = {hash_name(name), replies[0].spec, {}};
  summary.table.spec.blocks.clear();
  std::vector<PlacedBlock> placed;
  for (uint32_t server = 0; server < servers(); ++server) {
    summary.rows += replies[server].rows;
    summary.bytes += replies[server].bytes;
    for (const BlockSpec& block : replies[server].spec.blocks) placed.push_back({block, server});
  }
  std::sort(placed.begin(), placed.end(), [](const auto& a, const auto& b) { return a.block.id < b.block.id; });
  for (const PlacedBlock& block : placed) {
    summary.table.spec.blocks.push_back(block.block);
    summary.table.block_server.push_back(block.server);
  }
  return summary;
}

Result<std::vector<std::vector<std::byte>>> Client::gather(const std::string& name, uint32_t rank, uint32_t world,
                                                           std::span<const std::byte> brings, Time time) {
  std::vector<std::vector<std::byte>> all;
  uint64_t count = Barrier::kUncounted;
  {
    std::lock_guard lock(mutex_);
    if (joined_) count = arrivals_[name];
  }
  FLOTA_TRY(with_lane("barrier '" + name + "'", time, [&](Lane& lane, Deadline deadline) {
    Writer payload;
    Barrier{name, random_number(), rank, world, wait_at_server(time), brings, count}.encode(payload);
    return lane.exchange({{0, small_call(MessageKind::kBarrier, payload,
                                         [&](auto bytes) -> Result<void> {
                                           FLOTA_ASSIGN(BarrierReply reply, BarrierReply::decode(bytes));
                                           for (auto part : reply.brought) all.emplace_back(part.begin(), part.end());
                                           return {};
                                         })}},
                         deadline);
  }));
  if (all.empty() || (world != 0 && all.size() != world))
    return Error{ErrorCode::kMalformed, "the server's answer leaves workers out"};
  if (count != Barrier::kUncounted) {
    std::lock_guard lock(mutex_);
    arrivals_[name] = count + 1;
  }
  return all;
}

Result<ChangedKeysByTable> Client::finish_step(const StepEnd& end, Time time) {
  ChangedKeysByTable changed;
  const std::string what = "finish step " + std::to_string(end.step);
  const StepTally::Finish told = tally_.finish(end.group, end.rank, end.step, end.leave);
  const auto take = [&](auto bytes) -> Result<void> {
    FLOTA_ASSIGN(FinishStepReply reply, FinishStepReply::decode(bytes));
    for (const ChangedKeys& table : reply.tables) {
      auto& keys = changed[table.table];
      keys.insert(keys.end(), table.keys.begin(), table.keys.end());
    }
    return {};
  };
  const auto request = [&](uint32_t server) {
    Writer payload;
    FinishStep{end.group, end.step,      end.count,      end.rank,     end.world,    end.samples, wait_at_server(time),
               end.leave, end.want_keys, options_.epoch, end.position, told.ordinal, server,      told.pushes}
        .encode(payload);
    return Lane::Request{server, small_call(MessageKind::kFinishStep, payload, take)};
  };
  FLOTA_TRY(with_lane(what, time, [&](Lane& lane, Deadline deadline) {
    std::vector<Lane::Request> requests;
    for (uint32_t server : end.servers) requests.push_back(request(server));
    for (uint32_t server = 0; end.servers.empty() && server < servers(); ++server) requests.push_back(request(server));
    return lane.exchange(requests, deadline);
  }));
  tally_.finished(end.rank, told);
  return changed;
}

Result<std::vector<Key>> Client::changes(const RemoteTable& table, uint32_t rank, std::span<uint64_t> since,
                                         Time time) {
  if (since.size() != servers()) return invalid("changes() needs a version for each server");
  std::vector<Key> changed;
  std::vector<uint64_t> page(since.begin(), since.end());
  // Asks these servers, and returns those that have more to tell.
  auto ask = [&](Lane& lane, const std::vector<uint32_t>& asked, Deadline deadline) -> Result<std::vector<uint32_t>> {
    std::vector<uint32_t> more;
    std::vector<Lane::Request> requests;
    for (uint32_t server : asked) {
      Writer payload;
      ChangesRequest{table.id, since[server], page[server], rank}.encode(payload);
      requests.push_back({server, small_call(MessageKind::kChanges, payload, [&, server](auto bytes) -> Result<void> {
                            FLOTA_ASSIGN(ChangesReply reply, ChangesReply::decode(bytes));
                            changed.insert(changed.end(), reply.keys.begin(), reply.keys.end());
                            page[server] = reply.version;
                            if (!reply.done) more.push_back(server);
                            return {};
                          })});
    }
    FLOTA_TRY(lane.exchange(requests, deadline));
    return more;
  };
  const std::string what = "ask for changes of table '" + table.spec.name + "'";
  auto done = with_lane(what, time, [&](Lane& lane, Deadline deadline) -> Result<void> {
    std::vector<uint32_t> asked(servers());
    std::iota(asked.begin(), asked.end(), 0u);
    while (!asked.empty()) {
      FLOTA_ASSIGN(asked, ask(lane, asked, deadline));
    }
    return {};
  });
  FLOTA_TRY(done);
  std::copy(page.begin(), page.end(), since.begin());
  return changed;
}

Result<uint64_t> Client::advance(const Progress& progress, Time time) {
  uint64_t slowest = 0;
  FLOTA_TRY(with_lane("advance to step " + std::to_string(progress.step), time, [&](Lane& lane, Deadline deadline) {
    Writer payload;
    Advance{progress.group,       progress.step,  progress.behind, progress.rank, progress.world,
            wait_at_server(time), progress.leave, progress.rest,   options_.epoch}
        .encode(payload);
    Call call = small_call(MessageKind::kAdvance, payload, [&](auto bytes) -> Result<void> {
      FLOTA_ASSIGN(AdvanceReply reply, AdvanceReply::decode(bytes));
      slowest = reply.slowest;
      return {};
    });
    return lane.exchange({{0, call}}, deadline);
  }));
  return slowest;
}

Result<std::vector<ServerStatistics>> Client::statistics(Time time) {
  return statistics_for("ask for statistics", time);
}

Result<std::vector<ServerStatistics>> Client::statistics_for(const std::string& what, Time time) {
  std::vector<ServerStatistics> all(servers());
  FLOTA_TRY(with_lane(what, time, [&](Lane& lane, Deadline deadline) {
    std::vector<Lane::Request> requests;
    for (uint32_t server = 0; server < servers(); ++server) {
      requests.push_back(
          {server, small_call(MessageKind::kStatistics, Writer(), [&all, server](auto bytes) -> Result<void> {
             FLOTA_ASSIGN(StatisticsReply reply, StatisticsReply::decode(bytes));
             all[server].values = std::move(reply.values);
             return {};
           })});
      all[server].endpoint = links_[server].endpoint.to_string();
    }
    return lane.exchange(requests, deadline);
  }));
  return all;
}

Result<std::vector<Client::Page>> Client::export_pages(const RemoteTable& table, std::span<const ExportFrom> places,
                                                       uint32_t max_rows, Time time, const ExportOf& what) {
  std::vector<Page> pages(places.size());
  std::vector<Lane::Request> requests;
  const bool sparse = table.spec.kind == TableKind::kSparse;
  for (size_t i = 0; i < places.size(); ++i) {
    const uint32_t shard = places[i].shard;
    if (sparse && shard >= kShards) return invalid("there are 1,024 shards, from 0 on");
    if (!sparse && shard >= table.block_server.size()) {
      return invalid("table '" + table.spec.name + "' has fewer blocks");
    }
    Writer payload;
    Export{table.id, places[i].cursor, shard, max_rows, what.since, what.part}.encode(payload);
    requests.push_back({sparse ? map_.server_of[shard] : table.block_server[shard],
                        small_call(MessageKind::kExport, payload, [page = &pages[i]](auto bytes) -> Result<void> {
                          page->assign(bytes.begin(), bytes.end());
                          return {};
                        })});
  }
  FLOTA_TRY(with_lane("export table '" + table.spec.name + "'", time,
                      [&](Lane& lane, Deadline deadline) { return lane.exchange(requests, deadline); }));
  return pages;
}

Result<void> Client::import_rows(const RemoteTable& table, const Rows& rows, Time time) {
  return with_lane(
      "import into table '" + table.spec.name + "'", time, [&](Lane& lane, Deadline deadline) -> Result<void> {
        std::vector<Lane::Request> requests;
        for (uint32_t server = 0; server < servers(); ++server) {
          // The rows of this server, picked out column by column.
          std::vector<Key> keys;
          std::vector<uint64_t> updates, last_seen;
          std::vector<float> weights, state;
          for (size_t i = 0; i < rows.keys.size(); ++i) {
            Key key = rows.keys[i];
            bool dense = table.spec.kind == TableKind::kDense;
            if (dense && key >= table.block_server.size()) return invalid("there is no block " + std::to_string(key));
            uint32_t holder = dense ? table.block_server[key] : map_.server_of[shard_of(key)];
            if (holder != server) continue;
            keys.push_back(key);
            updates.push_back(rows.updates[i]);
            last_seen.push_back(rows.last_seen[i]);
            auto weights_of = rows.weights.subspan(i * rows.dim, rows.dim);
            auto state_of = rows.state.subspan(i * rows.state_floats, rows.state_floats);
            weights.insert(weights.end(), weights_of.begin(), weights_of.end());
            state.insert(state.end(), state_of.begin(), state_of.end());
          }
          if (keys.empty()) continue;
          Writer payload;
          Rows{table.id, 0, true, rows.dim, rows.state_floats, keys, updates, last_seen, weights, state, rows.part}
              .encode(payload);
          requests.push_back({server, small_call(MessageKind::kImport, payload, expect_nothing)});
        }
        return lane.exchange(requests, deadline);
      });
}

Result<void> Client::shutdown(int server, Time time) {
  if (server >= static_cast<int>(servers())) return invalid("there is no server " + std::to_string(server));
  return with_lane("shut down", time, [&](Lane& lane, Deadline deadline) {
    std::vector<Lane::Request> requests;
    for (uint32_t i = 0; i < servers(); ++i) {
      if (server >= 0 && i != static_cast<uint32_t>(server)) continue;
      requests.push_back({i, small_call(MessageKind::kShutdown, Writer(), expect_nothing)});
    }
    return lane.exchange(requests, deadline);
  });
}

}  // namespace flota
