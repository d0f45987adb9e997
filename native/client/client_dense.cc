// Pull and push of dense parameters.
#include <utility>

#include "client/with_lane.h"
#include "common/finite.h"

namespace flota {
namespace {

Result<void> check_shape(const RemoteTable& table, size_t values) {
  if (table.spec.kind != TableKind::kDense) return invalid("table '" + table.spec.name + "' is sparse: it needs keys");
  if (values == table.spec.size()) return {};
  return invalid("table '" + table.spec.name + "' has " + std::to_string(table.spec.size()) + " elements, not " +
                 std::to_string(values));
}

constexpr uint64_t kMaxFrame = 64ull << 20;

// Places in table.spec.blocks that travel in one frame, and the server that holds them.
struct Portion {
  uint32_t server = 0;
  std::vector<size_t> places;
  uint64_t elements = 0;

  size_t bytes() const { return elements * sizeof(float); }
};

// All blocks, in rounds of at most one portion a server.
std::vector<std::vector<Portion>> rounds_of(const RemoteTable& table, uint32_t servers) {
  std::vector<std::vector<Portion>> rounds;
  for (uint32_t server = 0; server < servers; ++server) {
    size_t round = 0;
    Portion portion{server, {}, 0};
    auto put = [&] {
      if (portion.places.empty()) return;
      if (rounds.size() == round) rounds.emplace_back();
      rounds[round++].push_back(std::exchange(portion, Portion{server, {}, 0}));
    };
    for (size_t i = 0; i < table.block_server.size(); ++i) {
      if (table.block_server[i] != server) continue;
      const uint64_t length = table.spec.blocks[i].length;
      if ((portion.elements + length) * sizeof(float) > kMaxFrame) put();
      portion.places.push_back(i);
      portion.elements += length;
    }
    put();
  }
  return rounds;
}

}  // namespace

Result<void> Client::pull_dense(const RemoteTable& table, std::span<float> out, Time time) {
  FLOTA_TRY(check_shape(table, out.size()));
  auto make_call = [&](const Portion& portion) {
    PullDense message{table.id, {}};
    for (size_t place : portion.places) message.blocks.push_back(table.spec.blocks[place].id);
    Writer payload;
    message.encode(payload);
    Call call;
    call.kind = MessageKind::kPullDense;
    call.payload_bytes = payload.bytes().size();
    call.send = [payload](FrameWriter& frame, Deadline deadline) { return frame.write(payload.bytes(), deadline); };
    call.receive = [&, portion](FrameReader& frame, Deadline deadline) -> Result<void> {
      uint64_t version = 0;
      if (frame.left() != sizeof(version) + padded(portion.bytes())) {
        return Error{ErrorCode::kMalformed, "an answer with other blocks than were asked for"};
      }
      FLOTA_TRY(frame.read(std::as_writable_bytes(std::span(&version, 1)), deadline));
      for (size_t place : portion.places) {
        const BlockSpec& block = table.spec.blocks[place];
        FLOTA_TRY(frame.read(std::as_writable_bytes(out.subspan(block.offset, block.length)), deadline));
      }
      FLOTA_ASSIGN(auto padding, frame.peek(frame.left(), deadline));
      frame.consume(padding);
      return {};
    };
    return call;
  };
  return with_lane("pull table '" + table.spec.name + "'", time, [&](Lane& lane, Deadline deadline) -> Result<void> {
    for (const auto& round : rounds_of(table, servers())) {
      std::vector<Lane::Request> requests;
      for (const Portion& portion : round) requests.push_back({portion.server, make_call(portion)});
      FLOTA_TRY(lane.exchange(requests, deadline));
    }
    return {};
  });
}

Result<void> Client::push_dense(const RemoteTable& table, std::span<const float> values, const PushOptions& options,
                                Time time) {
  return ordered_push([&, this] { return push_dense_now(table, values, options, time); });
}

Result<void> Client::push_dense_now(const RemoteTable& table, std::span<const float> values, const PushOptions& options,
                                    Time time) {
  FLOTA_TRY(check_shape(table, values.size()));
  if (!table.spec.allow_nonfinite) {
    size_t bad = first_nonfinite(values.data(), values.size());
    if (bad < values.size()) {
      return Error{ErrorCode::kNonFinite, "push to table '" + table.spec.name + "': element " + std::to_string(bad) +
                                              " is a NaN or an infinity; nothing was sent (a table made with "
                                              "allow_nonfinite=True takes them)"};
    }
  }
  std::vector<uint64_t> opened;
  auto make_call = [&](const Portion& portion) {
    PushHead head = push_head(table, options);
    head.count = static_cast<uint32_t>(portion.places.size());
    opened.push_back(head.sequence);
    Writer front;
    head.encode(front);
    std::vector<uint32_t> ids;
    for (size_t place : portion.places) ids.push_back(table.spec.blocks[place].id);
    front.put_array(std::span<const uint32_t>(ids));
    Call call;
    call.kind = MessageKind::kPushDense;
    call.payload_bytes = front.bytes().size() + padded(portion.bytes());
    call.send = [&, front, portion](FrameWriter& frame, Deadline deadline) -> Result<void> {
      FLOTA_TRY(frame.write(front.bytes(), deadline));
      for (size_t place : portion.places) {
        const BlockSpec& block = table.spec.blocks[place];
        FLOTA_TRY(frame.write(std::as_bytes(values.subspan(block.offset, block.length)), deadline));
      }
      const std::byte zeros[8] = {};
      return frame.write(std::span(zeros).first(padded(portion.bytes()) - portion.bytes()), deadline);
    };
    expect_push_reply(call);
    return call;
  };
  auto status =
      with_lane("push to table '" + table.spec.name + "'", time, [&](Lane& lane, Deadline deadline) -> Result<void> {
        for (const auto& round : rounds_of(table, servers())) {
          std::vector<Lane::Request> requests;
          for (const Portion& portion : round) requests.push_back({portion.server, make_call(portion)});
          FLOTA_TRY(lane.exchange(requests, deadline));
        }
        return {};
      });
  for (uint64_t sequence : opened) end_push(sequence);
  return tell_doubt(status);
}

std::shared_ptr<Pending> Client::pull_dense_async(const RemoteTable& table, std::span<float> out, Time time,
                                                  Keep keep) {
  return pulls_.run([=, this] {
    static_cast<void>(keep);
    return pull_dense(table, out, time);
  });
}

std::shared_ptr<Pending> Client::push_dense_async(const RemoteTable& table, std::span<const float> values,
                                                  const PushOptions& options, Time time, Keep keep) {
  return pushes_.run([=, this] {
    static_cast<void>(keep);
    return push_dense_now(table, values, options, time);
  });
}

}  // namespace flota
