// Requests about dense parameters.
#include <algorithm>

#include "common/elements.h"
#include "common/finite.h"
#include "server/push_once.h"

namespace flota {
namespace {

Result<std::shared_ptr<HostedTable>> find_dense(const Registry& registry, uint64_t id) {
  FLOTA_ASSIGN(auto table, registry.find(id));
  if (!table->dense) return invalid("table '" + table->spec.name + "' is sparse: it has keys, not blocks");
  return table;
}

// The places of the blocks in the table and their elements in all.
Result<std::vector<size_t>> find_blocks(const HostedTable& table, std::span<const uint32_t> ids, uint64_t* elements) {
  std::vector<size_t> places;
  places.reserve(std::min<size_t>(ids.size(), table.dense->block_count()));
  *elements = 0;
  for (uint32_t id : ids) {
    int place = table.dense->find_block(id);
    if (place < 0) {
      return invalid("table '" + table.spec.name + "' has no block " + std::to_string(id) + " on this server");
    }
    // Block ids ascend, so a list has no block twice and is no longer than the table.
    if (!places.empty() && static_cast<size_t>(place) <= places.back()) {
      return invalid("the blocks of a request must ascend");
    }
    places.push_back(static_cast<size_t>(place));
    *elements += table.dense->block(places.back()).length;
  }
  return places;
}

// The element of the whole parameter that value `at` of these blocks' values is.
uint64_t element_at(const HostedTable& table, std::span<const size_t> places, size_t at) {
  for (size_t place : places) {
    const BlockSpec& block = table.dense->block(place);
    if (at < block.length) return block.offset + at;
    at -= block.length;
  }
  return table.spec.size();
}

// Memory for values on their way. A thread keeps what parameters usually need: fresh pages for each request would cost
// more than the copy.
template <class T>
class Scratch {
 public:
  explicit Scratch(size_t count) : values_(count * sizeof(T) <= kKeptBytes ? kept() : own_) {
    if (values_.size() < count) values_.resize(count);
  }
  std::span<T> first(size_t count) { return std::span(values_).first(count); }

 private:
  static constexpr size_t kKeptBytes = size_t{4} << 20;
  static std::vector<T>& kept() {
    thread_local std::vector<T> values;
    return values;
  }

  std::vector<T> own_;
  std::vector<T>& values_;
};

size_t longest(const HostedTable& table, std::span<const size_t> places) {
  size_t most = 0;
  for (size_t place : places) most = std::max<size_t>(most, table.dense->block(place).length);
  return most;
}

// Brings the blocks' values to `out` as they are to travel. All of them before anything is sent: one that does not fit
// is refused.
Result<void> narrow_blocks(const HostedTable& table, std::span<const size_t> places, Storage element, std::byte* out) {
  Scratch<float> scratch(longest(table, places));
  for (size_t place : places) {
    const BlockSpec& block = table.dense->block(place);
    auto values = scratch.first(block.length);
    table.dense->pull(place, values);
    const size_t bad = first_overflow(element, values.data(), values.size());
    if (bad < values.size()) {
      return Error{ErrorCode::kNonFinite, "table '" + table.spec.name + "': element " +
                                              std::to_string(block.offset + bad) + " is " +
                                              std::to_string(values[bad]) + ", which " + name_of(element) +
                                              " cannot hold; let dense parameters travel as bfloat16 or float32"};
    }
    narrow(element, values.data(), out, values.size());
    out += values.size() * element_bytes(element);
  }
  return {};
}

}  // namespace

Result<void> Service::pull_dense(uint64_t request, Payload payload, Stream& stream, Result<void>& sent) {
  FLOTA_ASSIGN(auto message, PullDense::decode(payload));
  FLOTA_ASSIGN(auto table, find_dense(registry_, message.table));
  uint64_t elements = 0;
  FLOTA_ASSIGN(auto places, find_blocks(*table, message.blocks, &elements));
  Counters::add(table->pulls);

  // Read before the values: they are of this version or a later one.
  const uint64_t version = table->version();
  if (version == message.known) {
    Writer unchanged;
    unchanged.put(version);
    sent = reply(stream, request, unchanged);
    return {};
  }
  Counters::add(table->rows_pulled, elements);
  const bool exact = message.element == Storage::kFloat32;
  const size_t bytes = elements * element_bytes(message.element);
  Scratch<std::byte> narrowed(exact ? 0 : bytes);
  if (!exact) FLOTA_TRY(narrow_blocks(*table, places, message.element, narrowed.first(bytes).data()));
  sent = half_said();
  sent = [&]() -> Result<void> {
    FrameWriter frame(stream);
    FLOTA_TRY(frame.begin(MessageKind::kReply, request, sizeof(version) + padded(bytes), io_deadline()));
    FLOTA_TRY(frame.write(std::as_bytes(std::span(&version, 1)), io_deadline()));
    if (exact) {
      for (size_t place : places) {
        // Copied whole under its lock: into the stream, where there is room for it at once, else to send it without.
        const size_t length = table->dense->block(place).length;
        if (length * sizeof(float) <= frame.reserve_limit()) {
          FLOTA_ASSIGN(auto room, frame.reserve(length * sizeof(float), io_deadline()));
          table->dense->pull(place, std::span(reinterpret_cast<float*>(room.data()), length));
          frame.commit(room);
          continue;
        }
        Scratch<float> scratch(length);
        auto values = scratch.first(length);
        table->dense->pull(place, values);
        FLOTA_TRY(frame.write(std::as_bytes(values), io_deadline()));
      }
    } else {
      FLOTA_TRY(frame.write(narrowed.first(bytes), io_deadline()));
    }
    const std::byte zeros[8] = {};
    FLOTA_TRY(frame.write(std::span(zeros).first(padded(bytes) - bytes), io_deadline()));
    return frame.end(io_deadline());
  }();
  return {};
}

Result<Writer> Service::push_dense(Payload payload) {
  FLOTA_ASSIGN(auto message, PushDense::decode(payload));
  FLOTA_ASSIGN(auto table, find_dense(registry_, message.table));
  uint64_t elements = 0;
  FLOTA_ASSIGN(auto places, find_blocks(*table, message.blocks, &elements));
  if (padded(elements * element_bytes(message.element)) != message.values.size()) {
    return invalid("table '" + table->spec.name + "': a dense push of " + std::to_string(message.values.size()) +
                   " bytes for blocks of " + std::to_string(elements) + " elements of " + name_of(message.element));
  }
  std::span<const float> values(reinterpret_cast<const float*>(message.values.data()), elements);
  const bool exact = message.element == Storage::kFloat32;
  Scratch<float> widened(exact ? 0 : elements);
  if (!exact) {
    widen(message.element, message.values.data(), widened.first(elements).data(), elements);
    values = widened.first(elements);
  }
  if (!table->spec.allow_nonfinite) {
    const size_t bad = first_nonfinite(values.data(), values.size());
    if (bad < values.size()) {
      return nonfinite(table->spec, "element " + std::to_string(element_at(*table, places, bad)));
    }
  }
  auto apply = [&](const Step& step) {
    size_t at = 0;
    for (size_t place : places) {
      size_t length = table->dense->block(place).length;
      table->dense->push(message.kind, step, place, values.subspan(at, length));
      at += length;
    }
  };
  return apply_once(MessageKind::kPushDense, payload, message, *table, apply, [&] {
    return HeldPush{table, message.lr, message.scale, {}, places, {values.begin(), values.end()}};
  });
}

}  // namespace flota
