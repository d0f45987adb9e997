// Pull and push of dense parameters.
#include <algorithm>
#include <utility>

#include "client/with_lane.h"
#include "common/elements.h"
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

Result<void> take_padding(FrameReader& frame, Deadline deadline) {
  FLOTA_ASSIGN(auto padding, frame.peek(frame.left(), deadline));
  frame.consume(padding);
  return {};
}

// Takes the next values of an answer, piece by piece as they come in.
Result<void> take_values(FrameReader& frame, Storage element, std::span<float> out, Deadline deadline) {
  if (element == Storage::kFloat32) return frame.read(std::as_writable_bytes(out), deadline);
  const size_t width = element_bytes(element);
  for (size_t at = 0; at < out.size();) {
    const size_t count = std::min(out.size() - at, Stream::kChunk / width);
    FLOTA_ASSIGN(auto bytes, frame.peek(count * width, deadline));
    widen(element, bytes.data(), out.data() + at, count);
    frame.consume(bytes);
    at += count;
  }
  return {};
}

// Puts values into a frame as they travel.
Result<void> give_values(FrameWriter& frame, Storage element, std::span<const float> values, Deadline deadline) {
  if (element == Storage::kFloat32) return frame.write(std::as_bytes(values), deadline);
  const size_t width = element_bytes(element);
  for (size_t at = 0; at < values.size();) {
    const size_t count = std::min(values.size() - at, Stream::kChunk / width);
    FLOTA_ASSIGN(auto room, frame.reserve(count * width, deadline));
    narrow(element, values.data() + at, room.data(), count);
    frame.commit(room);
    at += count;
  }
  return {};
}

Storage element_of(const DensePush& push) {
  return push.options.kind == PushKind::kAssign ? Storage::kFloat32 : push.element;
}

// `version`: lowered to that of the answer, if that is lower.
Call pull_call(const DensePull& pull, const Portion& portion, uint64_t& version) {
  const RemoteTable& table = *pull.table;
  PullDense message{table.id, {}, PullDense::kNoVersion, pull.element};
  for (size_t place : portion.places) message.blocks.push_back(table.spec.blocks[place].id);
  if (!pull.versions.empty()) message.known = pull.versions[portion.server];
  Writer payload;
  message.encode(payload);
  Call call;
  call.kind = MessageKind::kPullDense;
  call.payload_bytes = payload.bytes().size();
  call.send = [payload](FrameWriter& frame, Deadline deadline) { return frame.write(payload.bytes(), deadline); };
  call.receive = [&table, &version, out = pull.out, element = pull.element, known = message.known, portion](
                     FrameReader& frame, Deadline deadline) -> Result<void> {
    const bool unchanged = frame.left() == sizeof(version);
    uint64_t told = 0;
    if (!unchanged && frame.left() != sizeof(told) + padded(portion.elements * element_bytes(element))) {
      return Error{ErrorCode::kMalformed, "an answer with other blocks than were asked for"};
    }
    FLOTA_TRY(frame.read(std::as_writable_bytes(std::span(&told, 1)), deadline));
    version = std::min(version, told);
    if (unchanged) {
      if (told == known) return {};
      return Error{ErrorCode::kMalformed, "an answer without the blocks that were asked for"};
    }
    for (size_t place : portion.places) {
      const BlockSpec& block = table.spec.blocks[place];
      FLOTA_TRY(take_values(frame, element, out.subspan(block.offset, block.length), deadline));
    }
    return take_padding(frame, deadline);
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
  const size_t bytes = portion.elements * element_bytes(head.element);
  Call call;
  call.kind = MessageKind::kPushDense;
  call.payload_bytes = front.bytes().size() + padded(bytes);
  call.send = [&table, values, front, portion, bytes, element = head.element](FrameWriter& frame,
                                                                              Deadline deadline) -> Result<void> {
    FLOTA_TRY(frame.write(front.bytes(), deadline));
    for (size_t place : portion.places) {
      const BlockSpec& block = table.spec.blocks[place];
      FLOTA_TRY(give_values(frame, element, values.subspan(block.offset, block.length), deadline));
    }
    const std::byte zeros[8] = {};
    return frame.write(std::span(zeros).first(padded(bytes) - bytes), deadline);
  };
  return call;
}

// Looked for before anything is sent: a push goes to several servers and must reach all or none.
Result<void> check_values(const DensePush& push) {
  const TableSpec& spec = push.table->spec;
  auto refusal = [&](size_t at, const std::string& what) {
    return Error{ErrorCode::kNonFinite,
                 "push to table '" + spec.name + "': element " + std::to_string(at) + " is " + what};
  };
  const float* values = push.values.data();
  const size_t count = push.values.size();
  const size_t bad = spec.allow_nonfinite || push.finite ? count : first_nonfinite(values, count);
  if (bad < count) {
    return refusal(bad, "a NaN or an infinity; nothing was sent (a table made with allow_nonfinite=True takes them)");
  }
  const size_t large = first_overflow(element_of(push), values, count);
  if (large == count) return {};
  return refusal(large, std::to_string(values[large]) + ", which " + name_of(push.element) +
                            " cannot hold; nothing was sent (bfloat16 and float32 hold larger values)");
}

template <class Items>
std::string names_of(const Items& items) {
  if (items.size() == 1) return "table '" + items.front().table->spec.name + "'";
  return "tables '" + items.front().table->spec.name + "' and " + std::to_string(items.size() - 1) + " more";
}

}  // namespace

Result<void> Client::check_dense(std::span<const DensePush> pushes, std::span<const DensePull> pulls) const {
  for (const DensePush& push : pushes) {
    FLOTA_TRY(check_shape(*push.table, push.values.size()));
    if (!push.seen.empty() && push.seen.size() != servers()) return invalid("a version for each server");
    FLOTA_TRY(check_values(push));
  }
  for (const DensePull& pull : pulls) {
    FLOTA_TRY(check_shape(*pull.table, pull.out.size()));
    if (!pull.versions.empty() && pull.versions.size() != servers()) return invalid("a version for each server");
  }
  return {};
}

Result<void> Client::pull_dense(std::span<const DensePull> pulls, Time time) { return exchange_dense({}, pulls, time); }

Result<void> Client::push_dense(std::span<const DensePush> pushes, Time time) {
  return ordered_push([&, this] { return exchange_dense(pushes, {}, time); });
}

Result<void> Client::exchange_dense(std::span<const DensePush> pushes, std::span<const DensePull> pulls, Time time) {
  FLOTA_TRY(check_dense(pushes, pulls));
  if (pushes.empty() && pulls.empty()) return {};
  constexpr uint64_t kNone = PullDense::kNoVersion;
  std::vector<std::vector<uint64_t>> told(pulls.size(), std::vector<uint64_t>(servers(), kNone));
  std::vector<uint64_t> opened;
  const std::string what = pushes.empty() ? "pull " + names_of(pulls) : "push to " + names_of(pushes);
  auto status = with_lane(what, time, [&](Lane& lane, Deadline deadline) {
    const uint64_t frame = max_frame(options_.max_payload);
    std::vector<Lane::Request> requests;
    for (const DensePush& push : pushes) {
      for (const Portion& portion : portions_of(*push.table, servers(), frame)) {
        // Made once: a frame that is sent again keeps its number.
        PushHead head = push_head(*push.table, push.options);
        head.element = element_of(push);
        if (!push.seen.empty()) head.seen = push.seen[portion.server];
        opened.push_back(head.sequence);
        requests.push_back({portion.server, push_call(*push.table, push.values, portion, head)});
        expect_push_reply(requests.back().call, head, portion.server);
      }
    }
    // After all pushes: a server answers in the order in which it is asked.
    for (size_t i = 0; i < pulls.size(); ++i) {
      for (const Portion& portion : portions_of(*pulls[i].table, servers(), frame)) {
        requests.push_back({portion.server, pull_call(pulls[i], portion, told[i][portion.server])});
      }
    }
    return lane.exchange(requests, deadline);
  });
  for (uint64_t sequence : opened) end_push(sequence);
  // Where it failed, some of the blocks may be newer by now than what their versions say: then they have none.
  for (size_t i = 0; i < pulls.size(); ++i) {
    for (size_t server = 0; server < pulls[i].versions.size(); ++server) {
      pulls[i].versions[server] = status ? told[i][server] : kNone;
    }
  }
  return pushes.empty() ? status : tell_doubt(status);
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
    return exchange_dense(pushes, {}, time);
  });
}

}  // namespace flota
