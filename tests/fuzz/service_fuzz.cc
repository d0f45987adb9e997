// A server's answers to whatever an authenticated peer sends: the same inputs as frame_fuzz, one layer deeper.
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "../native/memory_stream.h"
#include "../native/message_samples.h"
#include "frame_mutator.h"
#include "server/service.h"

namespace {

using namespace flota;
using flota::testing::SpanStream;

// Takes answers, and forgets them.
class Asking : public SpanStream {
 public:
  explicit Asking(std::span<const std::byte> input) : SpanStream(input, false, size_t{1} << 20) {}

  Result<std::span<std::byte>> reserve(size_t bytes, Deadline) override { return std::span(room_).first(bytes); }
  Result<void> write(std::span<const std::byte>, Deadline) override { return {}; }
  Result<void> flush(Deadline) override { return {}; }

 private:
  static inline std::vector<std::byte> room_ = std::vector<std::byte>(kChunk);
};

// Requests that are legal and would only take long: large tables, and waits for workers that do not come.
bool too_long(const FrameHeader& header, std::span<const std::byte> payload) {
  if (header.kind == MessageKind::kCreateTable) {
    auto message = CreateTable::decode(payload);
    return message && (message->spec.size() > 4096 || message->spec.dim > 64);
  }
  if (header.kind == MessageKind::kBarrier) {
    auto message = Barrier::decode(payload);
    return message && message->world != 1 && message->wait_ms > 0;
  }
  if (header.kind == MessageKind::kFinishStep) {
    auto message = FinishStep::decode(payload);
    return message && message->world > 1 && message->wait_ms > 0;
  }
  if (header.kind == MessageKind::kAdvance) {
    auto message = Advance::decode(payload);
    return message && message->world != 1 && message->wait_ms > 0;
  }
  if (header.kind == MessageKind::kLease) {
    auto message = LeaseRequest::decode(payload);
    return message && message->take && message->wait_ms > 0;
  }
  if (header.kind == MessageKind::kTeam) {
    auto message = TeamRequest::decode(payload);
    return message && (message->workers > 4096 || message->wait_ms > 0);
  }
  if (header.kind == MessageKind::kReceive) {
    auto message = Receive::decode(payload);
    return message && message->wait_ms > 0;
  }
  return false;
}

// What the samples' requests are about, so that they find their tables.
void add_tables(Service& service) {
  std::vector<std::byte> wire;
  for (bool dense : {false, true}) {
    const auto payload = flota::testing::encoded(CreateTable{flota::testing::sample_spec(dense)});
    std::vector<std::byte> frame(kHeaderBytes + payload.size() + kTrailerBytes);
    encode_header({MessageKind::kCreateTable, kFlagChecksum, 1, payload.size()},
                  std::span(frame).first<kHeaderBytes>());
    std::copy(payload.begin(), payload.end(), frame.begin() + kHeaderBytes);
    const uint64_t sum = crc32c(payload);
    std::memcpy(frame.data() + kHeaderBytes + payload.size(), &sum, sizeof(sum));
    wire.insert(wire.end(), frame.begin(), frame.end());
  }
  Asking stream(wire);
  FrameReader reader(stream, 1 << 20);
  std::vector<std::byte> buffer;
  while (auto header = reader.next(Deadline::none())) {
    if (!service.answer(*header, reader, stream, buffer)) std::abort();
  }
}

void serve(std::span<const std::byte> input) {
  Service service(std::chrono::milliseconds(1000), kDefaultMaxPayload, [] {});
  add_tables(service);
  Asking stream(input);
  FrameReader reader(stream, 1 << 20);
  // A second look at the same frame, to know what it asks for.
  Asking ahead(input);
  FrameReader ahead_reader(ahead, 1 << 20);
  std::vector<std::byte> buffer;
  std::vector<std::byte> ahead_buffer;
  for (;;) {
    auto header = reader.next(Deadline::none());
    if (!header || !ahead_reader.next(Deadline::none())) return;
    auto payload = ahead_reader.rest(ahead_buffer, Deadline::none());
    if (!payload || too_long(*header, *payload) || !ahead_reader.finish(Deadline::none())) return;
    if (!service.answer(*header, reader, stream, buffer)) return;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const flota::testing::Payload input(std::as_bytes(std::span(data, size)));
  serve(input.bytes());
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  return flota::fuzz::mutate(data, size, max_size, seed);
}
