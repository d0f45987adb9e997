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

// Memory that a connection's thread keeps: a parameter is large, and fresh pages for each request would cost more than
// the copy.
std::span<float> scratch(size_t count) {
  thread_local std::vector<float> values;
  if (values.size() < count) values.resize(count);
  return std::span(values).first(count);
}

// The blocks' values as they are to travel. All of them before anything is sent: one that does not fit is refused.
Result<std::span<const std::byte>> narrowed_blocks(const HostedTable& table, std::span<const size_t> places,
                                                   uint64_t elements, Storage element) {
  thread_local std::vector<std::byte> narrowed;
  if (narrowed.size() < elements * element_bytes(element)) narrowed.resize(elements * element_bytes(element));
  size_t at = 0;
  for (size_t place : places) {
    auto values = scratch(table.dense->block(place).length);
    table.dense->pull(place, values);
    const size_t bad = first_overflow(element, values.data(), values.size());
    if (bad < values.size()) {
      return Error{ErrorCode::kNonFinite, "table '" + table.spec.name + "': element " +
                                              std::to_string(table.dense->block(place).offset + bad) + " is " +
                                              std::to_string(values[bad]) + ", which " + name_of(element) +
                                              " cannot hold; let dense parameters travel as bfloat16 or float32"};
    }
    narrow(element, values.data(), narrowed.data() + at * element_bytes(element), values.size());
    at += values.size();
  }
  return std::span<const std::byte>(narrowed).first(elements * element_bytes(element));
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
  std::span<const std::byte> narrowed;
  if (message.element != Storage::kFloat32) {
    FLOTA_ASSIGN(narrowed, narrowed_blocks(*table, places, elements, message.element));
  }
  sent = [&]() -> Result<void> {
    const size_t bytes = elements * element_bytes(message.element);
    FrameWriter frame(stream);
    FLOTA_TRY(frame.begin(MessageKind::kReply, request, sizeof(version) + padded(bytes), io_deadline()));
    FLOTA_TRY(frame.write(std::as_bytes(std::span(&version, 1)), io_deadline()));
    FLOTA_TRY(frame.write(narrowed, io_deadline()));
    if (narrowed.empty()) {
      for (size_t place : places) {
        // Copied whole under its lock, and sent without it.
        auto values = scratch(table->dense->block(place).length);
        table->dense->pull(place, values);
        FLOTA_TRY(frame.write(std::as_bytes(values), io_deadline()));
      }
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
  if (message.element != Storage::kFloat32) {
    auto widened = scratch(elements);
    widen(message.element, message.values.data(), widened.data(), elements);
    values = widened;
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
  return apply_once(message, *table, apply, [&] {
    return HeldPush{table, message.lr, message.scale, {}, places, {values.begin(), values.end()}};
  });
}

}  // namespace flota
