#include "wire/frame.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "common/check.h"
#include "common/checksum.h"
#include "wire/codec.h"

namespace flota {
namespace {

// The header as it lies on the wire.
struct RawHeader {
  uint32_t magic;
  uint8_t version;
  uint8_t kind;
  uint16_t flags;
  uint64_t request;
  uint64_t payload_bytes;
  uint32_t reserved;
  uint32_t checksum;  // of all before it
};
static_assert(sizeof(RawHeader) == kHeaderBytes);

uint32_t header_checksum(const RawHeader& raw) {
  return crc32c(std::as_bytes(std::span(&raw, 1)).first(offsetof(RawHeader, checksum)));
}

Error malformed(const std::string& message) { return {ErrorCode::kMalformed, message}; }

constexpr const char* kUnknown = "unknown";

bool known(uint8_t kind) { return to_string(static_cast<MessageKind>(kind)) != kUnknown; }

}  // namespace

const char* to_string(MessageKind kind) {
  switch (kind) {
    case MessageKind::kCreateTable:
      return "create table";
    case MessageKind::kDescribeTable:
      return "describe table";
    case MessageKind::kPull:
      return "pull";
    case MessageKind::kPush:
      return "push";
    case MessageKind::kPullDense:
      return "dense pull";
    case MessageKind::kPushDense:
      return "dense push";
    case MessageKind::kBarrier:
      return "barrier";
    case MessageKind::kStatistics:
      return "statistics";
    case MessageKind::kExport:
      return "export";
    case MessageKind::kImport:
      return "import";
    case MessageKind::kFinishStep:
      return "finish of a step";
    case MessageKind::kChanges:
      return "question for changes";
    case MessageKind::kAdvance:
      return "advance";
    case MessageKind::kLease:
      return "question for a lease";
    case MessageKind::kLeaseStates:
      return "question for the state of leases";
    case MessageKind::kRestoreLeases:
      return "restore of leases";
    case MessageKind::kSend:
      return "letter";
    case MessageKind::kReceive:
      return "receive";
    case MessageKind::kEra:
      return "era";
    case MessageKind::kShrink:
      return "shrink";
    case MessageKind::kRejoin:
      return "rejoin";
    case MessageKind::kTeam:
      return "message about the team";
    case MessageKind::kPost:
      return "note";
    case MessageKind::kObserve:
      return "question how the server does";
    case MessageKind::kShutdown:
      return "shutdown";
    case MessageKind::kReply:
      return "reply";
    case MessageKind::kError:
      return "error";
  }
  return kUnknown;
}

void encode_header(const FrameHeader& header, std::span<std::byte, kHeaderBytes> out) {
  RawHeader raw{kFrameMagic,
                kProtocolVersion,
                static_cast<uint8_t>(header.kind),
                header.flags,
                header.request,
                header.payload_bytes,
                0,
                0};
  raw.checksum = header_checksum(raw);
  std::memcpy(out.data(), &raw, sizeof(raw));
}

Result<FrameHeader> decode_header(std::span<const std::byte, kHeaderBytes> bytes, uint64_t max_payload) {
  RawHeader raw;
  std::memcpy(&raw, bytes.data(), sizeof(raw));
  if (raw.magic != kFrameMagic) return malformed("these bytes are not a flota frame");
  if (raw.version != kProtocolVersion) {
    return Error{ErrorCode::kVersion, "a frame of protocol version " + std::to_string(raw.version) +
                                          "; this side speaks version " + std::to_string(kProtocolVersion)};
  }
  if (raw.checksum != header_checksum(raw)) return malformed("a frame header was damaged on the way");
  if (!known(raw.kind)) return malformed("unknown message kind " + std::to_string(raw.kind));
  if ((raw.flags & ~kFlagChecksum) != 0 || raw.reserved != 0) return malformed("a frame header uses reserved bits");
  if (raw.payload_bytes > max_payload) {
    return Error{ErrorCode::kTooLarge, "a frame of " + std::to_string(raw.payload_bytes) + " bytes; the limit is " +
                                           std::to_string(max_payload)};
  }
  if (raw.payload_bytes % 8 != 0) return malformed("a payload must be a multiple of eight bytes long");
  return FrameHeader{static_cast<MessageKind>(raw.kind), raw.flags, raw.request, raw.payload_bytes};
}

Result<void> FrameWriter::begin(MessageKind kind, uint64_t request, uint64_t payload_bytes, Deadline deadline) {
  FLOTA_CHECK(payload_bytes % 8 == 0, "a payload must be a multiple of eight bytes long");
  left_ = payload_bytes;
  checksum_ = 0;
  checked_ = !stream_.in_memory();
  FLOTA_ASSIGN(auto room, stream_.reserve(kHeaderBytes, deadline));
  FrameHeader header{kind, checked_ ? kFlagChecksum : uint16_t{0}, request, payload_bytes};
  encode_header(header, room.first<kHeaderBytes>());
  stream_.commit(kHeaderBytes);
  stream_.count_framed(kHeaderBytes + payload_bytes + (checked_ ? kTrailerBytes : 0));
  return {};
}

void FrameWriter::commit(std::span<const std::byte> written) {
  FLOTA_CHECK(written.size() <= left_, "a frame's payload is longer than announced");
  if (checked_) checksum_ = crc32c(written, checksum_);
  left_ -= written.size();
  stream_.commit(written.size());
}

Result<void> FrameWriter::write(std::span<const std::byte> bytes, Deadline deadline) {
  FLOTA_CHECK(bytes.size() <= left_, "a frame's payload is longer than announced");
  if (checked_) checksum_ = crc32c(bytes, checksum_);
  left_ -= bytes.size();
  return stream_.write(bytes, deadline);
}

Result<void> FrameWriter::end(Deadline deadline, bool more) {
  FLOTA_CHECK(left_ == 0, "a frame's payload is shorter than announced");
  if (checked_) {
    uint64_t trailer = checksum_;
    FLOTA_TRY(stream_.write(std::as_bytes(std::span(&trailer, 1)), deadline));
  }
  if (more) return {};
  return stream_.flush(deadline);
}

Result<FrameHeader> FrameReader::next(Deadline deadline) {
  FLOTA_ASSIGN(auto bytes, stream_.peek(kHeaderBytes, deadline));
  FLOTA_ASSIGN(FrameHeader header, decode_header(bytes.first<kHeaderBytes>(), max_payload_));
  if (!stream_.in_memory() && (header.flags & kFlagChecksum) == 0) {
    return malformed("a frame without a checksum where bytes can be damaged");
  }
  stream_.consume(kHeaderBytes);
  left_ = header.payload_bytes;
  shown_ = 0;
  checksum_ = 0;
  checked_ = (header.flags & kFlagChecksum) != 0;
  verified_ = false;
  return header;
}

Result<std::span<const std::byte>> FrameReader::peek(size_t bytes, Deadline deadline) {
  FLOTA_CHECK(bytes <= left_, "reading past a frame's payload");
  return stream_.peek(bytes, deadline);
}

void FrameReader::consume(std::span<const std::byte> seen) {
  if (checked_) checksum_ = crc32c(seen, checksum_);
  left_ -= seen.size();
  stream_.consume(seen.size());
}

Result<void> FrameReader::read(std::span<std::byte> out, Deadline deadline) {
  FLOTA_CHECK(out.size() <= left_, "reading past a frame's payload");
  FLOTA_TRY(stream_.read(out, deadline));
  if (checked_) checksum_ = crc32c(out, checksum_);
  left_ -= out.size();
  return {};
}

Result<std::span<const std::byte>> FrameReader::rest(std::vector<std::byte>& buffer, Deadline deadline) {
  size_t trailer = checked_ ? kTrailerBytes : 0;
  if (left_ + trailer <= stream_.peek_limit()) {
    FLOTA_ASSIGN(auto all, stream_.peek(left_ + trailer, deadline));
    auto payload = all.first(left_);
    if (checked_) {
      uint64_t expected = 0;
      std::memcpy(&expected, all.data() + left_, sizeof(expected));
      if (expected != crc32c(payload, checksum_)) return malformed("a payload was damaged on the way");
    }
    shown_ = all.size();
    left_ = 0;
    verified_ = true;
    return payload;
  }
  // Memory grows with what arrives, not with what is announced.
  constexpr size_t kStep = size_t{4} << 20;
  buffer.clear();
  while (buffer.size() < left_) {
    size_t old = buffer.size();
    buffer.resize(old + std::min<uint64_t>(kStep, left_ - old));
    FLOTA_TRY(stream_.read(std::span(buffer).subspan(old), deadline));
  }
  if (checked_) checksum_ = crc32c(buffer, checksum_);
  left_ = 0;
  FLOTA_TRY(finish(deadline));
  verified_ = true;
  return std::span<const std::byte>(buffer);
}

Result<void> FrameReader::finish(Deadline deadline) {
  FLOTA_CHECK(left_ == 0, "a frame's payload was not read to its end");
  if (shown_ > 0) stream_.consume(std::exchange(shown_, 0));
  if (!checked_ || verified_) return {};
  uint64_t expected = 0;
  FLOTA_TRY(stream_.read(std::as_writable_bytes(std::span(&expected, 1)), deadline));
  if (expected != checksum_) return malformed("a payload was damaged on the way");
  return {};
}

}  // namespace flota
