#include "server/service.h"

#include <algorithm>
#include <new>
#include <stdexcept>

#include "common/finite.h"
#include "server/push_once.h"

namespace flota {
namespace {

// A page must fit a frame.
constexpr size_t kMaxPageKeys = size_t{1} << 20;

Result<std::shared_ptr<HostedTable>> find_sparse(const Registry& registry, uint64_t id, uint32_t dim) {
  FLOTA_ASSIGN(auto table, registry.find(id));
  if (!table->sparse) return invalid("table '" + table->spec.name + "' is dense: it has blocks, not keys");
  if (table->spec.dim != dim) {
    return invalid("table '" + table->spec.name + "' has rows of " + std::to_string(table->spec.dim) +
                   " floats, the request says " + std::to_string(dim));
  }
  return table;
}

// Runs a handler; what the operating system refuses in it becomes an error value.
template <class Handler>
auto guarded(Handler handler) -> decltype(handler()) {
  try {
    return handler();
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::kSystem, "the server is out of memory"};
  } catch (const std::length_error& error) {
    return Error{ErrorCode::kTooLarge, error.what()};
  }
}

}  // namespace

Service::Service(std::chrono::milliseconds io_time, uint64_t max_payload, std::function<void()> on_shutdown)
    : io_time_(io_time), max_payload_(max_payload), on_shutdown_(std::move(on_shutdown)) {
  barriers_.set_team(&team_);
  clocks_.set_team(&team_);
}

Deadline Service::wait_deadline(uint64_t wait_ms) {
  return Deadline::after(std::chrono::milliseconds(std::min(wait_ms, kLongestWait)));
}

Result<void> Service::reply(Stream& stream, uint64_t request, const Writer& payload, bool more) {
  FrameWriter frame(stream);
  FLOTA_TRY(frame.begin(MessageKind::kReply, request, payload.bytes().size(), io_deadline()));
  FLOTA_TRY(frame.write(payload.bytes(), io_deadline()));
  return frame.end(io_deadline(), more);
}

Result<void> Service::reply_error(Stream& stream, uint64_t request, const Error& error) {
  // That there is no such table is an answer to who asked for it.
  if (error.code != ErrorCode::kUnknownTable) Counters::add(counters_.errors);
  Writer payload;
  ErrorReply{error}.encode(payload);
  FrameWriter frame(stream);
  FLOTA_TRY(frame.begin(MessageKind::kError, request, payload.bytes().size(), io_deadline()));
  FLOTA_TRY(frame.write(payload.bytes(), io_deadline()));
  return frame.end(io_deadline());
}

Result<void> Service::answer(const FrameHeader& header, FrameReader& reader, Stream& stream,
                             std::vector<std::byte>& buffer) {
  Counters::add(counters_.requests);
  FLOTA_ASSIGN(Payload payload, reader.rest(buffer, io_deadline()));

  using Handler = Result<Writer> (Service::*)(Payload);
  auto handler = [&]() -> Handler {
    switch (header.kind) {
      case MessageKind::kCreateTable:
        return &Service::create_table;
      case MessageKind::kDescribeTable:
        return &Service::describe_table;
      case MessageKind::kPush:
        return &Service::push;
      case MessageKind::kPushDense:
        return &Service::push_dense;
      case MessageKind::kBarrier:
        return &Service::barrier;
      case MessageKind::kFinishStep:
        return &Service::finish_step;
      case MessageKind::kChanges:
        return &Service::changes;
      case MessageKind::kAdvance:
        return &Service::advance;
      case MessageKind::kLease:
        return &Service::lease;
      case MessageKind::kLeaseStates:
        return &Service::lease_states;
      case MessageKind::kRestoreLeases:
        return &Service::restore_leases;
      case MessageKind::kSend:
        return &Service::send;
      case MessageKind::kStatistics:
        return &Service::statistics;
      case MessageKind::kExport:
        return &Service::export_rows;
      case MessageKind::kImport:
        return &Service::import_rows;
      case MessageKind::kEra:
        return &Service::era;
      case MessageKind::kShrink:
        return &Service::shrink;
      case MessageKind::kRejoin:
        return &Service::rejoin;
      case MessageKind::kTeam:
        return &Service::team;
      case MessageKind::kPost:
        return &Service::post;
      case MessageKind::kObserve:
        return &Service::observe_for;
      case MessageKind::kShutdown:
        return &Service::shutdown;
      default:
        return nullptr;
    }
  }();

  Result<void> sent;
  if (handler != nullptr) {
    Result<Writer> answer = guarded([&] { return (this->*handler)(payload); });
    if (answer && journal_ != nullptr) {
      if (auto settled = journal_->settle(); !settled) answer = settled.error();
    }
    FLOTA_TRY(reader.finish(io_deadline()));
    // The parameters of a step are pushed one after another, and nobody waits for the first answer before the last.
    const bool more = header.kind == MessageKind::kPushDense && stream.has_input();
    sent = answer ? reply(stream, header.request, *answer, more) : reply_error(stream, header.request, answer.error());
    if (answer && sent && header.kind == MessageKind::kShutdown) on_shutdown_();
    return sent;
  }
  Result<void> done = guarded([&]() -> Result<void> {
    if (header.kind == MessageKind::kPull) return pull(header.request, payload, stream, sent);
    if (header.kind == MessageKind::kPullDense) return pull_dense(header.request, payload, stream, sent);
    if (header.kind == MessageKind::kReceive) return receive(header.request, payload, stream, sent);
    return Error{ErrorCode::kMalformed, std::string("a ") + to_string(header.kind) + " is not a request"};
  });
  FLOTA_TRY(reader.finish(io_deadline()));
  FLOTA_TRY(sent);
  if (!done) return reply_error(stream, header.request, done.error());
  return {};
}

Error Service::half_said() { return {ErrorCode::kSystem, "an answer could not be said to its end"}; }

Result<Writer> Service::create_table(Payload payload) {
  FLOTA_ASSIGN(auto message, CreateTable::decode(payload));
  constexpr uint64_t kMostOfHead = 4096;
  for (const BlockSpec& block : message.spec.blocks) {
    if (block.length * sizeof(float) + kMostOfHead <= max_payload_) continue;
    return Error{ErrorCode::kTooLarge, "table '" + message.spec.name + "': a block of " + std::to_string(block.length) +
                                           " elements does not fit a message of this server; start it with a larger "
                                           "--max-payload-mb"};
  }
  bool created = false;
  // Every worker asks for every table: one that is there changes nothing.
  Alone alone;
  if (!registry_.knows(message.spec.name)) {
    alone = this->alone();
    if (!registry_.knows(message.spec.name)) FLOTA_TRY(record(MessageKind::kCreateTable, payload));
  }
  FLOTA_TRY(registry_.create(message.spec, &created));
  Writer out;
  CreateTableReply{Registry::id_of(message.spec.name), created}.encode(out);
  return out;
}

Result<Writer> Service::describe_table(Payload payload) {
  FLOTA_ASSIGN(auto message, DescribeTable::decode(payload));
  FLOTA_ASSIGN(auto table, registry_.find(message.name));
  Writer out;
  DescribeTableReply{table->spec, table->rows(), table->bytes()}.encode(out);
  return out;
}

Result<void> Service::pull(uint64_t request, Payload payload, Stream& stream, Result<void>& sent) {
  FLOTA_ASSIGN(auto message, Pull::decode(payload));
  FLOTA_ASSIGN(auto table, find_sparse(registry_, message.table, message.dim));
  Counters::add(table->pulls);
  Counters::add(table->rows_pulled, message.count);
  table->heat.sample(message.keys);

  const size_t row_bytes = message.dim * sizeof(float);
  const size_t rows_bytes = message.count * row_bytes;
  const uint64_t version = table->version();
  std::vector<Key> made;
  auto pull_rows = [&](std::span<const Key> keys, std::span<float> out) {
    if (!message.create) return table->sparse->pull(keys, out, Missing::kInitial);
    if (journal_ == nullptr) return table->sparse->pull(keys, out, Missing::kCreate);
    const auto passing = pass();
    made.clear();
    // While the disk is full, memory for keys that are to be written is not without end: rows that are not made now are
    // made by a later pull, or by a push, with the same values.
    const bool enough = table->made_enough.load(std::memory_order_relaxed);
    table->sparse->pull(keys, out, enough ? Missing::kInitial : Missing::kCreate, &made);
    if (!made.empty() || enough) record_made(*table, made);
  };
  sent = half_said();
  sent = [&]() -> Result<void> {
    FrameWriter frame(stream);
    FLOTA_TRY(frame.begin(MessageKind::kReply, request, RowsHead::kBytes + padded(rows_bytes), io_deadline()));
    Writer head;
    RowsHead{version, message.count, message.dim}.encode(head);
    FLOTA_TRY(frame.write(head.bytes(), io_deadline()));
    const size_t step = std::max<size_t>(1, Stream::kChunk / row_bytes);
    std::vector<float> large_row(row_bytes > Stream::kChunk ? message.dim : 0);
    for (size_t i = 0; i < message.count; i += step) {
      auto keys = message.keys.subspan(i, std::min<size_t>(step, message.count - i));
      if (!large_row.empty()) {
        pull_rows(keys, large_row);
        FLOTA_TRY(frame.write(std::as_bytes(std::span(large_row)), io_deadline()));
        continue;
      }
      // Rows go from the table into the connection's own memory; no lock is held while waiting for room there.
      FLOTA_ASSIGN(auto room, frame.reserve(keys.size() * row_bytes, io_deadline()));
      pull_rows(keys, {reinterpret_cast<float*>(room.data()), keys.size() * message.dim});
      frame.commit(room);
    }
    const std::byte zeros[8] = {};
    FLOTA_TRY(frame.write(std::span(zeros).first(padded(rows_bytes) - rows_bytes), io_deadline()));
    return frame.end(io_deadline());
  }();
  return {};
}

Result<Writer> Service::push(Payload payload) {
  FLOTA_ASSIGN(auto message, Push::decode(payload));
  FLOTA_ASSIGN(auto table, find_sparse(registry_, message.table, message.dim));
  if (!table->spec.allow_nonfinite) {
    size_t bad = first_nonfinite(message.values.data(), message.values.size());
    if (bad < message.values.size()) {
      auto key = static_cast<int64_t>(message.keys[bad / message.dim]);
      return nonfinite(table->spec, "key " + std::to_string(key));
    }
  }
  auto apply = [&](const Step& step) {
    const Shown shown{message.shows.data(), message.clicks.data(),
                      hash_key(hash_key(hash_key(message.worker) + message.epoch) + message.sequence)};
    table->sparse->push(message.kind, step, message.keys, message.values.data(), shown);
    if (message.group != 0) table->changes.note(message.rank, message.keys);
  };
  return apply_once(MessageKind::kPush, payload, message, *table, apply, [&] {
    return HeldPush{table,
                    message.lr,
                    message.scale,
                    {message.keys.begin(), message.keys.end()},
                    {},
                    {message.values.begin(), message.values.end()},
                    {message.shows.begin(), message.shows.end()},
                    {message.clicks.begin(), message.clicks.end()}};
  });
}

Result<Writer> Service::barrier(Payload payload) {
  FLOTA_ASSIGN(auto message, Barrier::decode(payload));
  FLOTA_ASSIGN(auto brought, barriers_.arrive(message.name, message.call, message.rank, message.world,
                                              wait_deadline(message.wait_ms), message.brings, message.count));
  BarrierReply reply;
  for (const auto& bytes : *brought) reply.brought.emplace_back(bytes);
  Writer out;
  reply.encode(out);
  return out;
}

Result<Writer> Service::finish_step(Payload payload) {
  FLOTA_ASSIGN(auto message, FinishStep::decode(payload));
  FLOTA_ASSIGN(auto changed, steps_.finish(message, wait_deadline(message.wait_ms)));
  FinishStepReply reply;
  if (message.want_keys && changed) {
    for (const ChangedRows& rows : *changed) reply.tables.push_back({rows.table, rows.keys});
  }
  Writer out;
  reply.encode(out);
  return out;
}

Result<Writer> Service::changes(Payload payload) {
  FLOTA_ASSIGN(auto message, ChangesRequest::decode(payload));
  FLOTA_ASSIGN(auto table, registry_.find(message.table));
  if (!table->sparse) return invalid("table '" + table->spec.name + "' is dense: it has blocks, not keys");
  const Changes::Page page = table->changes.others(message.rank, message.since, message.page, kMaxPageKeys);
  Writer out;
  ChangesReply{page.version, page.done, page.keys}.encode(out);
  return out;
}

Result<Writer> Service::advance(Payload payload) {
  FLOTA_ASSIGN(auto message, Advance::decode(payload));
  FLOTA_ASSIGN(uint64_t slowest, clocks_.advance(message, wait_deadline(message.wait_ms)));
  Writer out;
  AdvanceReply{slowest}.encode(out);
  return out;
}

Result<Writer> Service::shutdown(Payload payload) {
  if (!payload.empty()) return Error{ErrorCode::kMalformed, "a shutdown request has no payload"};
  return Writer();
}

}  // namespace flota
