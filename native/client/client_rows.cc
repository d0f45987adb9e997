// Pull and push of sparse rows.
#include <algorithm>

#include "client/with_lane.h"
#include "common/finite.h"
#include "common/row_copy.h"

namespace flota {
namespace {

constexpr uint64_t kMaxFrame = 64ull << 20;

std::span<const std::byte> bytes_of(auto values) { return std::as_bytes(values); }

// The head of an answer with these rows; what follows is the rows and their padding.
Result<RowsHead> take_head(FrameReader& frame, size_t count, size_t dim, Deadline deadline) {
  const size_t row_bytes = dim * sizeof(float);
  FLOTA_ASSIGN(auto head_bytes, frame.peek(std::min<uint64_t>(RowsHead::kBytes, frame.left()), deadline));
  FLOTA_ASSIGN(RowsHead head, RowsHead::decode(head_bytes));
  if (head.count != count || head.dim != dim || frame.left() != RowsHead::kBytes + padded(count * row_bytes)) {
    return Error{ErrorCode::kMalformed, "an answer with other rows than were asked for"};
  }
  frame.consume(head_bytes);
  return head;
}

Result<void> take_padding(FrameReader& frame, Deadline deadline) {
  FLOTA_ASSIGN(auto padding, frame.peek(frame.left(), deadline));
  frame.consume(padding);
  return {};
}

// Takes `count` rows of an answer to their places. `place(j)` says where row j goes.
template <class Place>
Result<void> take_rows(FrameReader& frame, size_t count, size_t dim, Deadline deadline, Place place) {
  const size_t row_bytes = dim * sizeof(float);
  FLOTA_TRY(take_head(frame, count, dim, deadline));
  // Large pieces: each may mean a wait of its own.
  const size_t step = frame.peek_limit() / 4 / row_bytes;
  for (size_t j = 0; j < count;) {
    if (step == 0) {
      FLOTA_TRY(frame.read(std::as_writable_bytes(std::span(place(j), dim)), deadline));
      ++j;
      continue;
    }
    const size_t rows = std::min(step, count - j);
    FLOTA_ASSIGN(auto bytes, frame.peek(rows * row_bytes, deadline));
    const auto* values = reinterpret_cast<const float*>(bytes.data());
    for (size_t k = 0; k < rows; ++k) copy_floats(place(j + k), values + k * dim, dim);
    frame.consume(bytes);
    j += rows;
  }
  return take_padding(frame, deadline);
}

// Cuts each server's stretch of keys into frames and exchanges one round after another.
template <class MakeCall>
Result<void> exchange_rounds(Lane& lane, const Router& router, uint32_t servers, size_t rows_a_frame, Deadline deadline,
                             MakeCall make_call) {
  std::vector<Lane::Request> requests;
  for (size_t round = 0;; ++round) {
    requests.clear();
    for (uint32_t server = 0; server < servers; ++server) {
      size_t begin = router.begin(server) + round * rows_a_frame;
      size_t end = std::min(router.end(server), begin + rows_a_frame);
      if (begin < end) requests.push_back({server, make_call(server, begin, end)});
    }
    if (requests.empty()) return {};
    FLOTA_TRY(lane.exchange(requests, deadline));
  }
}

size_t rows_a_frame(uint64_t max_payload, size_t dim) {
  uint64_t limit = std::min(kMaxFrame, max_payload) - 1024;
  return std::max<size_t>(1, limit / (sizeof(Key) + (dim + kScoreFloats) * sizeof(float)));
}

Result<void> check_shape(const RemoteTable& table, size_t keys, size_t values) {
  if (table.spec.kind != TableKind::kSparse) return invalid("table '" + table.spec.name + "' is dense: it has no keys");
  if (values == keys * table.spec.dim) return {};
  return invalid("table '" + table.spec.name + "': " + std::to_string(keys) + " keys of dimension " +
                 std::to_string(table.spec.dim) + " need " + std::to_string(keys * table.spec.dim) + " values, not " +
                 std::to_string(values));
}

Error nonfinite(Key key) {
  return {ErrorCode::kNonFinite, "the values for key " + std::to_string(static_cast<int64_t>(key)) +
                                     " hold a NaN or an infinity; nothing was sent (a table made with "
                                     "allow_nonfinite=True takes them)"};
}

// One row for each distinct key, in the router's order: the sum of the caller's rows, in the caller's order.
void combine(const Router& router, std::span<const float> values, size_t dim, PushKind kind, std::vector<float>& sums) {
  sums.resize(router.distinct().size() * dim);
  auto place = router.place();
  auto first = router.first();
  for (size_t i = 0; i < place.size(); ++i) {
    const float* from = values.data() + i * dim;
    float* to = sums.data() + size_t{place[i]} * dim;
    if (first[place[i]] == i || kind == PushKind::kAssign) {
      copy_floats(to, from, dim);
    } else {
      for (size_t j = 0; j < dim; ++j) to[j] += from[j];
    }
  }
}

// A pull of the router's keys begin .. end; `receive` takes the answer.
Call pull_call(const RemoteTable& table, const Router& router, size_t begin, size_t end, bool create) {
  Call call;
  call.kind = MessageKind::kPull;
  call.payload_bytes = PullHead::kBytes + (end - begin) * sizeof(Key);
  call.send = [&table, &router, begin, end, create](FrameWriter& frame, Deadline deadline) -> Result<void> {
    Writer head;
    PullHead{table.id, static_cast<uint32_t>(end - begin), table.spec.dim, create}.encode(head);
    FLOTA_TRY(frame.write(head.bytes(), deadline));
    return frame.write(bytes_of(router.distinct().subspan(begin, end - begin)), deadline);
  };
  return call;
}

}  // namespace

Result<void> Client::pull(const RemoteTable& table, std::span<const Key> keys, std::span<float> out, bool create,
                          Time time) {
  FLOTA_TRY(check_shape(table, keys.size(), out.size()));
  if (keys.empty()) return {};
  return with_lane("pull from table '" + table.spec.name + "'", time,
                   [&](Lane& lane, Deadline deadline) -> Result<void> {
                     Router& router = lane.router();
                     router.route(keys);
                     const size_t dim = table.spec.dim;
                     auto first = router.first();
                     auto make_call = [&](uint32_t, size_t begin, size_t end) {
                       Call call = pull_call(table, router, begin, end, create);
                       call.receive = [&, begin, end](FrameReader& frame, Deadline until) {
                         return take_rows(frame, end - begin, dim, until,
                                          [&](size_t j) { return out.data() + size_t{first[begin + j]} * dim; });
                       };
                       return call;
                     };
                     const size_t limit = rows_a_frame(options_.max_payload, dim);
                     FLOTA_TRY(exchange_rounds(lane, router, servers(), limit, deadline, make_call));
                     if (!router.has_duplicates()) return {};
                     auto place = router.place();
                     for (size_t i = 0; i < place.size(); ++i) {
                       size_t source = first[place[i]];
                       if (source != i) copy_floats(out.data() + i * dim, out.data() + source * dim, dim);
                     }
                     return {};
                   });
}

Result<void> Client::pull(const RemoteTable& table, Batch& batch, std::span<float> out, bool create, Time time) {
  FLOTA_TRY(check_shape(table, batch.keys().size(), out.size()));
  if (batch.keys().empty()) return {};
  return with_lane("pull from table '" + table.spec.name + "'", time, [&](Lane& lane, Deadline deadline) {
    const size_t dim = table.spec.dim;
    auto make_call = [&](uint32_t server, size_t begin, size_t end) {
      Call call = pull_call(table, batch.router(), begin, end, create);
      call.receive = [&, server, begin, end](FrameReader& frame, Deadline until) -> Result<void> {
        FLOTA_ASSIGN(RowsHead head, take_head(frame, end - begin, dim, until));
        batch.versions()[server] = head.version;
        // The rows come in the batch's order.
        FLOTA_TRY(frame.read(std::as_writable_bytes(out.subspan(begin * dim, (end - begin) * dim)), until));
        return take_padding(frame, until);
      };
      return call;
    };
    return exchange_rounds(lane, batch.router(), servers(), rows_a_frame(options_.max_payload, dim), deadline,
                           make_call);
  });
}

Result<void> Client::send_push(Lane& lane, const Router& router, const RemoteTable& table, std::span<const float> rows,
                               bool rows_are_ordered, std::span<const uint64_t> seen, const ToldOfKeys& told,
                               const PushOptions& options, Deadline deadline) {
  const size_t dim = table.spec.dim;
  std::vector<std::span<const float>> columns;
  if (!told.shows.empty()) columns.push_back(told.shows);
  if (!told.clicks.empty()) columns.push_back(told.clicks);
  std::vector<uint64_t> opened;
  auto make_call = [&](uint32_t server, size_t begin, size_t end) {
    // Made once: a frame that is sent again keeps its number.
    PushHead head = push_head(table, options);
    head.count = static_cast<uint32_t>(end - begin);
    head.dim = table.spec.dim;
    head.told = static_cast<uint8_t>(columns.size());
    if (!seen.empty()) head.seen = seen[server];
    opened.push_back(head.sequence);
    const size_t values_bytes = (end - begin) * dim * sizeof(float);
    Call call;
    call.kind = MessageKind::kPush;
    call.payload_bytes = PushHead::kBytes + (end - begin) * sizeof(Key) + padded(values_bytes) +
                         columns.size() * padded((end - begin) * sizeof(float));
    call.send = [&, begin, end, head, values_bytes](FrameWriter& frame, Deadline until) -> Result<void> {
      Writer head_bytes;
      head.encode(head_bytes);
      FLOTA_TRY(frame.write(head_bytes.bytes(), until));
      FLOTA_TRY(frame.write(bytes_of(router.distinct().subspan(begin, end - begin)), until));
      const size_t step = Stream::kChunk / (dim * sizeof(float));
      if (rows_are_ordered) {
        FLOTA_TRY(frame.write(bytes_of(rows.subspan(begin * dim, (end - begin) * dim)), until));
      } else if (step == 0) {
        for (size_t p = begin; p < end; ++p) {
          FLOTA_TRY(frame.write(bytes_of(rows.subspan(router.first()[p] * dim, dim)), until));
        }
      } else {
        for (size_t p = begin; p < end; p += step) {
          const size_t count = std::min(step, end - p);
          FLOTA_ASSIGN(auto room, frame.reserve(count * dim * sizeof(float), until));
          auto* to = reinterpret_cast<float*>(room.data());
          for (size_t k = 0; k < count; ++k) {
            copy_floats(to + k * dim, rows.data() + size_t{router.first()[p + k]} * dim, dim);
          }
          frame.commit(room);
        }
      }
      const std::byte zeros[8] = {};
      FLOTA_TRY(frame.write(std::span(zeros).first(padded(values_bytes) - values_bytes), until));
      for (const auto& column : columns) {
        const auto bytes = bytes_of(column.subspan(begin, end - begin));
        FLOTA_TRY(frame.write(bytes, until));
        FLOTA_TRY(frame.write(std::span(zeros).first(padded(bytes.size()) - bytes.size()), until));
      }
      return {};
    };
    expect_push_reply(call, head, server);
    return call;
  };
  auto status = exchange_rounds(lane, router, servers(), rows_a_frame(options_.max_payload, dim), deadline, make_call);
  for (uint64_t sequence : opened) end_push(sequence);
  return tell_doubt(status);
}

Result<void> Client::push(const RemoteTable& table, std::span<const Key> keys, std::span<const float> values,
                          const PushOptions& options, Time time) {
  return ordered_push([&, this] { return push_now(table, keys, values, options, time); });
}

Result<void> Client::push_now(const RemoteTable& table, std::span<const Key> keys, std::span<const float> values,
                              const PushOptions& options, Time time) {
  FLOTA_TRY(check_shape(table, keys.size(), values.size()));
  if (keys.empty()) return {};
  return with_lane("push to table '" + table.spec.name + "'", time, [&](Lane& lane, Deadline deadline) -> Result<void> {
    Router& router = lane.router();
    router.route(keys);
    const size_t dim = table.spec.dim;
    thread_local std::vector<float> sums;
    const bool combined = router.has_duplicates();
    std::span<const float> rows = values;
    if (combined) {
      combine(router, values, dim, options.kind, sums);
      rows = sums;
    }
    // Looked for here, before anything is sent: a push goes to several servers and must reach all or none. Sums of
    // finite values may not be finite.
    if (!table.spec.allow_nonfinite) {
      size_t bad = first_nonfinite(values.data(), values.size());
      size_t bad_sum = combined && bad == values.size() ? first_nonfinite(rows.data(), rows.size()) : rows.size();
      if (bad < values.size() || bad_sum < rows.size()) {
        Key key = bad < values.size() ? keys[bad / dim] : router.distinct()[bad_sum / dim];
        return nonfinite(key);
      }
    }
    thread_local std::vector<float> shows;
    shows.clear();
    if (combined && table.spec.admission.kind != AdmissionKind::kAll) {
      shows.resize(router.distinct().size());
      for (const uint32_t place : router.place()) shows[place] += 1;
    }
    return send_push(lane, router, table, rows, combined, {}, {shows, {}}, options, deadline);
  });
}

Result<void> Client::push(const RemoteTable& table, Batch& batch, std::span<const float> values,
                          const PushOptions& options, Time time) {
  return ordered_push([&, this] { return push_now(table, batch, values, options, time); });
}

Result<void> Client::push_now(const RemoteTable& table, Batch& batch, std::span<const float> values,
                              const PushOptions& options, Time time) {
  FLOTA_TRY(check_shape(table, batch.keys().size(), values.size()));
  if (values.empty()) return {};
  if (!batch.counts_fit()) {
    return invalid("push to table '" + table.spec.name + "': a key was shown or clicked more than " +
                   std::to_string(kMaxCount) + " times in one push");
  }
  if (!table.spec.allow_nonfinite) {
    const size_t bad = first_nonfinite(values.data(), values.size());
    if (bad < values.size()) {
      return nonfinite(batch.keys()[bad / table.spec.dim]).with("push to table '" + table.spec.name + "'");
    }
  }
  return with_lane("push to table '" + table.spec.name + "'", time, [&](Lane& lane, Deadline deadline) {
    return send_push(lane, batch.router(), table, values, true, batch.versions(), {batch.shows(), batch.clicks()},
                     options, deadline);
  });
}

std::shared_ptr<Pending> Client::pull_async(const RemoteTable& table, std::span<const Key> keys, std::span<float> out,
                                            bool create, Time time, Keep keep) {
  return pulls_.run([=, this] {
    static_cast<void>(keep);
    return pull(table, keys, out, create, time);
  });
}

std::shared_ptr<Pending> Client::push_async(const RemoteTable& table, std::span<const Key> keys,
                                            std::span<const float> values, const PushOptions& options, Time time,
                                            Keep keep) {
  return pushes_.run([=, this] {
    static_cast<void>(keep);
    return push_now(table, keys, values, options, time);
  });
}

std::shared_ptr<Pending> Client::pull_async(const RemoteTable& table, std::shared_ptr<Batch> batch,
                                            std::span<float> out, bool create, Time time, Keep keep) {
  return pulls_.run([=, this] {
    static_cast<void>(keep);
    return pull(table, *batch, out, create, time);
  });
}

std::shared_ptr<Pending> Client::push_async(const RemoteTable& table, std::shared_ptr<Batch> batch,
                                            std::span<const float> values, const PushOptions& options, Time time,
                                            Keep keep) {
  return pushes_.run([=, this] {
    static_cast<void>(keep);
    return push_now(table, *batch, values, options, time);
  });
}

}  // namespace flota
