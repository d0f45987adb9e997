// Pull and push of dense parameters.
#include <algorithm>
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

// All blocks of a table, each server's in frames of at most `max_bytes` (or one block).
std::vector<Portion> portions_of(const RemoteTable& table, uint32_t servers, uint64_t max_bytes) {
  std::vector<Portion> portions;
  for (uint32_t server = 0; server < servers; ++server) {
    Portion portion{server, {}, 0};
    auto put = [&] {
      if (!portion.places.empty()) portions.push_back(std::exchange(portion, Portion{server, {}, 0}));
    };
    for (size_t i = 0; i < table.block_server.size(); ++i) {
      if (table.block_server[i] != server) continue;
      const uint64_t length = table.spec.blocks[i].length;
      if ((portion.elements + length) * sizeof(float) > max_bytes) put();
      portion.places.push_back(i);
      portion.elements += length;
    }
    put();
  }
  return portions;
}

uint64_t max_frame(uint64_t max_payload) { return std::min(kMaxFrame, max_payload - 4096); }

Call pull_call(const RemoteTable& table, std::span<float> out, const Portion& portion) {
  PullDense message{table.id, {}};
  for (size_t place : portion.places) message.blocks.push_back(table.spec.blocks[place].id);
  Writer payload;
  message.encode(payload);
  Call call;
  call.kind = MessageKind::kPullDense;
  call.payload_bytes = payload.bytes().size();
  call.send = [payload](FrameWriter& frame, Deadline deadline) { return frame.write(payload.bytes(), deadline); };
  call.receive = [&table, out, portion](FrameReader& frame, Deadline deadline) -> Result<void> {
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
}

Call push_call(const RemoteTable& table, std::span<const float> values, const Portion& portion, PushHead head) {
  head.count = static_cast<uint32_t>(portion.places.size());
  Writer front;
  head.encode(front);
  std::vector<uint32_t> ids;
  for (size_t place : portion.places) ids.push_back(table.spec.blocks[place].id);
  front.put_array(std::span<const uint32_t>(ids));
  Call call;
  call.kind = MessageKind::kPushDense;
  call.payload_bytes = front.bytes().size() + padded(portion.bytes());
  call.send = [&table, values, front, portion](FrameWriter& frame, Deadline deadline) -> Result<void> {
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
}

template <class Items>
std::string names_of(const Items& items) {
  if (items.size() == 1) return "table '" + items.front().table->spec.name + "'";
  return "tables '" + items.front().table->spec.name + "' and " + std::to_string(items.size() - 1) + " more";
}

}  // namespace

Result<void> Client::pull_dense(std::span<const DensePull> pulls, Time time) {
  if (pulls.empty()) return {};
  for (const DensePull& pull : pulls) FLOTA_TRY(check_shape(*pull.table, pull.out.size()));
  return with_lane("pull " + names_of(pulls), time, [&](Lane& lane, Deadline deadline) {
    std::vector<Lane::Request> requests;
    for (const DensePull& pull : pulls) {
      for (const Portion& portion : portions_of(*pull.table, servers(), max_frame(options_.max_payload))) {
        requests.push_back({portion.server, pull_call(*pull.table, pull.out, portion)});
      }
    }
    return lane.exchange(requests, deadline);
  });
}

Result<void> Client::push_dense(std::span<const DensePush> pushes, Time time) {
  return ordered_push([&, this] { return push_dense_now(pushes, time); });
}

Result<void> Client::push_dense_now(std::span<const DensePush> pushes, Time time) {
  if (pushes.empty()) return {};
  // Looked for here, before anything is sent: a push goes to several servers and must reach all or none.
  for (const DensePush& push : pushes) {
    FLOTA_TRY(check_shape(*push.table, push.values.size()));
    if (push.table->spec.allow_nonfinite) continue;
    size_t bad = first_nonfinite(push.values.data(), push.values.size());
    if (bad == push.values.size()) continue;
    return Error{ErrorCode::kNonFinite, "push to table '" + push.table->spec.name + "': element " +
                                            std::to_string(bad) +
                                            " is a NaN or an infinity; nothing was sent (a table made with "
                                            "allow_nonfinite=True takes them)"};
  }
  std::vector<uint64_t> opened;
  auto status = with_lane("push to " + names_of(pushes), time, [&](Lane& lane, Deadline deadline) {
    std::vector<Lane::Request> requests;
    for (const DensePush& push : pushes) {
      for (const Portion& portion : portions_of(*push.table, servers(), max_frame(options_.max_payload))) {
        // Made once: a frame that is sent again keeps its number.
        const PushHead head = push_head(*push.table, push.options);
        opened.push_back(head.sequence);
        requests.push_back({portion.server, push_call(*push.table, push.values, portion, head)});
      }
    }
    return lane.exchange(requests, deadline);
  });
  for (uint64_t sequence : opened) end_push(sequence);
  return tell_doubt(status);
}

std::shared_ptr<Pending> Client::pull_dense_async(std::vector<DensePull> pulls, Time time, Keep keep) {
  return pulls_.run([=, this, pulls = std::move(pulls)] {
    static_cast<void>(keep);
    return pull_dense(pulls, time);
  });
}

std::shared_ptr<Pending> Client::push_dense_async(std::vector<DensePush> pushes, Time time, Keep keep) {
  return pushes_.run([=, this, pushes = std::move(pushes)] {
    static_cast<void>(keep);
    return push_dense_now(pushes, time);
  });
}

}  // namespace flota
