// Whatever a peer sends: headers, frames and the messages in them. Nothing here may crash, read beyond its input, or
// ask for memory because a length says so; and what is accepted must be what its sender would have written.
#include <array>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "../native/memory_stream.h"
#include "../native/message_samples.h"
#include "frame_mutator.h"

namespace flota::fuzz {

using testing::Payload;
using testing::SpanStream;
using testing::Transcode;
using testing::transcode;

constexpr uint64_t kMaxPayload = 1 << 20;

constexpr Transcode kTranscoders[] = {transcode<CreateTable>,
                                      transcode<CreateTableReply>,
                                      transcode<DescribeTable>,
                                      transcode<DescribeTableReply>,
                                      transcode<Pull>,
                                      transcode<Push>,
                                      transcode<PushDense>,
                                      transcode<PushReply>,
                                      transcode<PullDense>,
                                      transcode<Barrier>,
                                      transcode<BarrierReply>,
                                      transcode<FinishStep>,
                                      transcode<FinishStepReply>,
                                      transcode<ChangesRequest>,
                                      transcode<ChangesReply>,
                                      transcode<Advance>,
                                      transcode<AdvanceReply>,
                                      transcode<LeaseRequest>,
                                      transcode<LeaseReply>,
                                      transcode<LeaseStates>,
                                      transcode<Send>,
                                      transcode<Receive>,
                                      transcode<LetterReply>,
                                      transcode<StatisticsReply>,
                                      transcode<Export>,
                                      transcode<Rows>,
                                      transcode<Era>,
                                      transcode<EraReply>,
                                      transcode<Shrink>,
                                      transcode<ShrinkReply>,
                                      transcode<Rejoin>,
                                      transcode<RejoinReply>,
                                      transcode<TeamRequest>,
                                      transcode<TeamReply>,
                                      transcode<Post>,
                                      transcode<PostReply>,
                                      transcode<Observe>,
                                      transcode<ObserveReply>,
                                      transcode<ErrorReply>};

inline void expect(bool condition) {
  if (!condition) std::abort();
}

// A message that was accepted says as much as its bytes, padding apart.
inline void decode_all(std::span<const std::byte> payload) {
  for (Transcode transcoder : kTranscoders) {
    auto once = transcoder(payload);
    if (!once) continue;
    expect(once->size() == payload.size());
    auto twice = transcoder(*once);
    expect(twice.has_value() && *twice == *once);
  }
  if (auto head = RowsHead::decode(payload)) expect(payload.size() >= RowsHead::kBytes);
}

// Reads frame after frame as servers do: the payload whole, where it lies or in a buffer.
inline void read_whole(std::span<const std::byte> input, bool in_memory, size_t peek_limit, bool decode) {
  SpanStream stream(input, in_memory, peek_limit);
  FrameReader reader(stream, kMaxPayload);
  std::vector<std::byte> buffer;
  for (;;) {
    auto header = reader.next(Deadline::none());
    if (!header) return;
    expect(header->payload_bytes <= kMaxPayload && header->payload_bytes % 8 == 0);
    auto payload = reader.rest(buffer, Deadline::none());
    if (!payload) return;
    expect(payload->size() == header->payload_bytes);
    if (decode) decode_all(Payload(*payload).bytes());
    if (!reader.finish(Deadline::none())) return;
  }
}

// Reads frame after frame as clients do: piece by piece.
inline void read_pieces(std::span<const std::byte> input) {
  SpanStream stream(input, false, Stream::kChunk);
  FrameReader reader(stream, kMaxPayload);
  for (;;) {
    auto header = reader.next(Deadline::none());
    if (!header) return;
    std::array<std::byte, 24> piece;
    while (reader.left() > 0) {
      const size_t count = std::min<uint64_t>(reader.left(), 1 + (header->request + reader.left()) % piece.size());
      if (count % 2 == 0) {
        if (!reader.read(std::span(piece).first(count), Deadline::none())) return;
      } else {
        auto shown = reader.peek(count, Deadline::none());
        if (!shown) return;
        reader.consume(*shown);
      }
    }
    if (!reader.finish(Deadline::none())) return;
  }
}

inline void frames_and_messages(const uint8_t* data, size_t size) {
  const Payload input(std::as_bytes(std::span(data, size)));
  const auto bytes = input.bytes();
  if (bytes.size() >= kHeaderBytes) {
    auto header = decode_header(bytes.first<kHeaderBytes>(), kMaxPayload);
    if (header) {
      std::array<std::byte, kHeaderBytes> again;
      encode_header(*header, again);
      expect(std::memcmp(again.data(), bytes.data(), kHeaderBytes) == 0);
    }
  }
  read_whole(bytes, false, kMaxPayload + kTrailerBytes, true);
  read_whole(bytes, false, 0, false);
  read_whole(bytes, true, kMaxPayload + kTrailerBytes, false);
  read_pieces(bytes);
  decode_all(bytes);
}

}  // namespace flota::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  flota::fuzz::frames_and_messages(data, size);
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  return flota::fuzz::mutate(data, size, max_size, seed);
}
