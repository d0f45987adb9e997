#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/result.h"
#include "wire/stream.h"

// Every message travels as one frame: a 32-byte header, the payload (a multiple of eight bytes), and, where bytes can
// be damaged on the way, eight bytes of trailer with the payload's checksum. docs/wire_format.md has the bytes.
namespace flota {

inline constexpr uint32_t kFrameMagic = 0x41544c46;  // "FLTA"
inline constexpr uint8_t kProtocolVersion = 2;
inline constexpr size_t kHeaderBytes = 32;
inline constexpr size_t kTrailerBytes = 8;
inline constexpr uint16_t kFlagChecksum = 1;
inline constexpr uint64_t kMinPayload = 64ull << 10;  // the least a limit may be set to
inline constexpr uint64_t kDefaultMaxPayload = 256ull << 20;

enum class MessageKind : uint8_t {
  kCreateTable = 1,
  kDescribeTable = 2,
  kPull = 3,
  kPush = 4,
  kPullDense = 5,
  kPushDense = 6,
  kBarrier = 7,
  kStatistics = 8,
  kExport = 9,
  kImport = 10,
  kShutdown = 11,
  kFinishStep = 12,
  kChanges = 13,
  kAdvance = 14,
  kLease = 15,
  kLeaseStates = 16,
  kRestoreLeases = 17,
  kSend = 18,
  kReceive = 19,
  kEra = 20,
  kShrink = 21,
  kRejoin = 22,
  kTeam = 23,
  kPost = 24,
  kObserve = 25,
  kReply = 64,
  kError = 65,
};
const char* to_string(MessageKind kind);

struct FrameHeader {
  MessageKind kind{};
  uint16_t flags = 0;
  uint64_t request = 0;  // a reply repeats its request's number
  uint64_t payload_bytes = 0;
};

void encode_header(const FrameHeader& header, std::span<std::byte, kHeaderBytes> out);
// Refuses a wrong magic number, version, checksum, unknown kind or flag, and a payload over `max_payload`.
Result<FrameHeader> decode_header(std::span<const std::byte, kHeaderBytes> bytes, uint64_t max_payload);

// Sends one frame, its payload piece by piece as it comes into being. Requires: all of payload_bytes is written
// between begin() and end().
class FrameWriter {
 public:
  explicit FrameWriter(Stream& stream) : stream_(stream) {}

  Result<void> begin(MessageKind kind, uint64_t request, uint64_t payload_bytes, Deadline deadline);
  // Room for the next `bytes` (at most reserve_limit()) of the payload, in the stream itself.
  Result<std::span<std::byte>> reserve(size_t bytes, Deadline deadline) { return stream_.reserve(bytes, deadline); }
  size_t reserve_limit() const { return stream_.reserve_limit(); }
  void commit(std::span<const std::byte> written);
  Result<void> write(std::span<const std::byte> bytes, Deadline deadline);
  // Finishes the frame and lets the peer see it; or not yet, if more frames follow at once: each look costs a waking.
  Result<void> end(Deadline deadline, bool more = false);

 private:
  Stream& stream_;
  uint64_t left_ = 0;
  uint32_t checksum_ = 0;
  bool checked_ = false;
};

// Receives one frame, its payload whole or piece by piece.
class FrameReader {
 public:
  FrameReader(Stream& stream, uint64_t max_payload) : stream_(stream), max_payload_(max_payload) {}

  Result<FrameHeader> next(Deadline deadline);
  uint64_t left() const { return left_; }
  size_t peek_limit() const { return stream_.peek_limit(); }

  // The next `bytes` of the payload where they lie. Requires: bytes <= left() and <= peek_limit().
  // They stay valid until consume().
  Result<std::span<const std::byte>> peek(size_t bytes, Deadline deadline);
  void consume(std::span<const std::byte> seen);
  // Takes the next out.size() bytes of the payload. Requires: out.size() <= left().
  Result<void> read(std::span<std::byte> out, Deadline deadline);
  // The rest of the payload, contiguous: in the stream if that can show it, else in `buffer`. Checked.
  Result<std::span<const std::byte>> rest(std::vector<std::byte>& buffer, Deadline deadline);
  // Frees what rest() showed, and checks the checksum otherwise. Requires: the payload was read.
  Result<void> finish(Deadline deadline);

 private:
  Stream& stream_;
  uint64_t max_payload_;
  uint64_t left_ = 0;
  size_t shown_ = 0;  // bytes that rest() left in the stream, trailer included
  uint32_t checksum_ = 0;
  bool checked_ = false;
  bool verified_ = false;
};

}  // namespace flota
