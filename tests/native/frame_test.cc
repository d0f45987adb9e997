#include "wire/frame.h"

#include <array>
#include <cstring>
#include <random>
#include <vector>

#include "common/checksum.h"
#include "memory_stream.h"
#include "testing.h"

using namespace flota;
using namespace flota::testing;

namespace {

using Bytes = std::vector<std::byte>;
using RawHeader = std::array<std::byte, kHeaderBytes>;

constexpr size_t kVersionAt = 4, kKindAt = 5, kFlagsAt = 6, kLengthAt = 16, kReservedAt = 24, kChecksumAt = 28;

RawHeader header_of(const FrameHeader& header) {
  RawHeader raw;
  encode_header(header, raw);
  return raw;
}

// The header with a field changed and its checksum made right again.
template <class T>
RawHeader with(RawHeader raw, size_t at, T value) {
  std::memcpy(raw.data() + at, &value, sizeof(value));
  const uint32_t checksum = crc32c(std::span<const std::byte>(raw).first(kChecksumAt));
  std::memcpy(raw.data() + kChecksumAt, &checksum, sizeof(checksum));
  return raw;
}

const FrameHeader kPushHeader{MessageKind::kPush, kFlagChecksum, 0x0102030405060708, 4096};

ErrorCode refusal(const RawHeader& raw, uint64_t max_payload = kDefaultMaxPayload) {
  return code_of(decode_header(raw, max_payload));
}

Bytes frame_of(std::span<const std::byte> payload, MessageKind kind = MessageKind::kPush, uint64_t request = 1) {
  MemoryStream stream;
  FrameWriter writer(stream);
  value_of(writer.begin(kind, request, payload.size(), patience()));
  value_of(writer.write(payload, patience()));
  value_of(writer.end(patience()));
  return stream.output();
}

Bytes joined(std::initializer_list<Bytes> parts) {
  Bytes all;
  for (const Bytes& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

// Pieces of 1 to `most` bytes.
MemoryStream::Piece random_pieces(uint64_t seed, size_t most) {
  return [random = std::mt19937_64(seed), most]() mutable { return 1 + random() % most; };
}

}  // namespace

BOOST_AUTO_TEST_SUITE(frame, *boost::unit_test::timeout(60))

// --- header ---

BOOST_AUTO_TEST_CASE(a_header_has_the_bytes_it_always_had) {
  BOOST_TEST(hex(header_of(kPushHeader)) == "464c5441020401000807060504030201001000000000000000000000badd6a0e");
}

BOOST_AUTO_TEST_CASE(a_header_comes_back_as_it_was) {
  for (uint8_t kind :
       {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 64, 65}) {
    for (uint16_t flags : {uint16_t{0}, kFlagChecksum}) {
      const FrameHeader header{static_cast<MessageKind>(kind), flags, ~uint64_t{0} - kind, uint64_t{kind} * 8};
      auto back = value_of(decode_header(header_of(header), kDefaultMaxPayload));
      BOOST_TEST((back.kind == header.kind));
      BOOST_TEST(back.flags == header.flags);
      BOOST_TEST(back.request == header.request);
      BOOST_TEST(back.payload_bytes == header.payload_bytes);
    }
  }
}

BOOST_AUTO_TEST_CASE(what_is_not_a_frame_is_refused) {
  const RawHeader good = header_of(kPushHeader);
  BOOST_TEST(refusal(good) == kNoError);
  BOOST_TEST(refusal(with(good, 0, uint32_t{0x41544c47})) == ErrorCode::kMalformed);
  BOOST_TEST(refusal(RawHeader{}) == ErrorCode::kMalformed);
  RawHeader http{};
  std::memcpy(http.data(), "GET / HTTP/1.1\r\nHost: server\r\n\r\n", http.size());
  BOOST_TEST(refusal(http) == ErrorCode::kMalformed);
}

BOOST_AUTO_TEST_CASE(another_version_is_refused_as_such) {
  for (uint8_t version : {0, 1, 3, 255}) {
    auto header = decode_header(with(header_of(kPushHeader), kVersionAt, version), kDefaultMaxPayload);
    BOOST_TEST(code_of(header) == ErrorCode::kVersion);
    BOOST_TEST(contains(message_of(header), "version " + std::to_string(version)));
  }
  // Even when all else has changed in that version.
  RawHeader unknown = header_of(kPushHeader);
  unknown[kVersionAt] = std::byte{3};
  unknown[kChecksumAt] ^= std::byte{1};
  BOOST_TEST(refusal(unknown) == ErrorCode::kVersion);
}

BOOST_AUTO_TEST_CASE(any_damaged_bit_of_a_header_is_noticed) {
  const RawHeader good = header_of(kPushHeader);
  for (size_t bit = 0; bit < 8 * kHeaderBytes; ++bit) {
    RawHeader damaged = good;
    damaged[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    BOOST_TEST(refusal(damaged) != kNoError);
  }
}

BOOST_AUTO_TEST_CASE(unknown_kinds_are_refused) {
  for (int kind = 0; kind < 256; ++kind) {
    const bool known = (kind >= 1 && kind <= 25) || kind == 64 || kind == 65;
    const auto raw = with(header_of(kPushHeader), kKindAt, static_cast<uint8_t>(kind));
    BOOST_TEST(refusal(raw) == (known ? kNoError : ErrorCode::kMalformed));
  }
}

BOOST_AUTO_TEST_CASE(reserved_bits_are_refused) {
  for (int bit = 1; bit < 16; ++bit) {
    const auto flags = static_cast<uint16_t>(1u << bit | 1u);
    BOOST_TEST(refusal(with(header_of(kPushHeader), kFlagsAt, flags)) == ErrorCode::kMalformed);
  }
  for (int bit = 0; bit < 32; ++bit) {
    BOOST_TEST(refusal(with(header_of(kPushHeader), kReservedAt, uint32_t{1} << bit)) == ErrorCode::kMalformed);
  }
}

BOOST_AUTO_TEST_CASE(a_length_beyond_the_limit_is_refused) {
  const RawHeader good = header_of(kPushHeader);
  BOOST_TEST(refusal(good, 4096) == kNoError);
  BOOST_TEST(refusal(good, 4095) == ErrorCode::kTooLarge);
  for (uint64_t length : {kDefaultMaxPayload + 8, uint64_t{1} << 62, ~uint64_t{0}, ~uint64_t{7}}) {
    BOOST_TEST(refusal(with(good, kLengthAt, length)) == ErrorCode::kTooLarge);
  }
}

BOOST_AUTO_TEST_CASE(a_length_that_is_no_multiple_of_eight_is_refused) {
  for (uint64_t length : {1, 7, 4, 4097, 4100}) {
    BOOST_TEST(refusal(with(header_of(kPushHeader), kLengthAt, length)) == ErrorCode::kMalformed);
  }
}

// --- whole frames ---

BOOST_AUTO_TEST_CASE(frames_of_every_size_come_back_in_whatever_pieces_they_arrive) {
  std::mt19937_64 random(1);
  const size_t sizes[] = {0,       8,       24,      4096,    65'528,  65'536, 262'096,
                          262'104, 262'112, 262'136, 262'144, 1 << 20, 5 << 20};
  for (size_t most : {size_t{100'000}, size_t{1} << 20, SIZE_MAX - 1}) {
    Bytes wire;
    std::vector<Bytes> payloads;
    for (size_t size : sizes) {
      payloads.push_back(random_bytes(random, size));
      wire = joined({wire, frame_of(payloads.back())});
    }
    MemoryStream stream(wire, random_pieces(2, most));
    FrameReader reader(stream, kDefaultMaxPayload);
    Bytes buffer;
    for (const Bytes& payload : payloads) {
      BOOST_TEST_CONTEXT(payload.size() << " bytes in pieces of at most " << most) {
        const auto header = value_of(reader.next(patience()));
        BOOST_TEST(header.payload_bytes == payload.size());
        const auto rest = value_of(reader.rest(buffer, patience()));
        BOOST_TEST(std::equal(rest.begin(), rest.end(), payload.begin(), payload.end()));
        BOOST_TEST(reader.left() == 0u);
        value_of(reader.finish(patience()));
      }
    }
    BOOST_TEST(code_of(reader.next(patience())) == ErrorCode::kUnavailable);
  }
}

// Messages are used where they lie, and hold arrays of 64-bit numbers.
BOOST_AUTO_TEST_CASE(a_payload_always_lies_on_a_multiple_of_eight) {
  std::mt19937_64 random(3);
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Bytes wire;
    std::vector<size_t> sizes;
    for (int i = 0; i < 12; ++i) {
      sizes.push_back((i % 3 == 0 ? 270'000 + random() % 200'000 : random() % 2'000) / 8 * 8);
      wire = joined({wire, frame_of(random_bytes(random, sizes.back()))});
    }
    MemoryStream stream(wire, random_pieces(seed, 50'000));
    FrameReader reader(stream, kDefaultMaxPayload);
    Bytes buffer;
    for (size_t i = 0; i < sizes.size(); ++i) {
      value_of(reader.next(patience()));
      const auto payload = value_of(reader.rest(buffer, patience()));
      BOOST_TEST_REQUIRE(reinterpret_cast<uintptr_t>(payload.data()) % 8 == 0u,
                         "frame " << i << " of " << sizes[i] << " bytes after one of " << (i > 0 ? sizes[i - 1] : 0));
      value_of(reader.finish(patience()));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_payload_can_be_read_piece_by_piece) {
  std::mt19937_64 random(4);
  const Bytes payload = random_bytes(random, 700'000);
  const Bytes next = random_bytes(random, 16);
  for (uint64_t seed = 0; seed < 10; ++seed) {
    MemoryStream stream(joined({frame_of(payload), frame_of(next)}), random_pieces(seed, 30'000));
    FrameReader reader(stream, kDefaultMaxPayload);
    value_of(reader.next(patience()));
    Bytes back;
    while (reader.left() > 0) {
      const size_t want = std::min<uint64_t>(reader.left(), random() % 3 == 0 ? random() % 200'000 : random() % 3'000);
      if (want > Stream::kChunk || random() % 2 == 0) {
        Bytes part(want);
        value_of(reader.read(part, patience()));
        back = joined({back, part});
      } else {
        const auto part = value_of(reader.peek(want, patience()));
        back.insert(back.end(), part.begin(), part.end());
        reader.consume(part);
      }
    }
    value_of(reader.finish(patience()));
    BOOST_TEST((back == payload));
    // The stream stands at the next frame.
    value_of(reader.next(patience()));
    Bytes buffer;
    const auto rest = value_of(reader.rest(buffer, patience()));
    BOOST_TEST(std::equal(rest.begin(), rest.end(), next.begin(), next.end()));
  }
}

BOOST_AUTO_TEST_CASE(the_rest_may_follow_a_part) {
  std::mt19937_64 random(5);
  for (size_t size : {64, 400'000}) {
    const Bytes payload = random_bytes(random, size);
    MemoryStream stream(frame_of(payload), random_pieces(6, 10'000));
    FrameReader reader(stream, kDefaultMaxPayload);
    value_of(reader.next(patience()));
    Bytes head(24);
    value_of(reader.read(head, patience()));
    Bytes buffer;
    const auto rest = value_of(reader.rest(buffer, patience()));
    BOOST_TEST(std::equal(rest.begin(), rest.end(), payload.begin() + 24, payload.end()));
    value_of(reader.finish(patience()));
  }
}

BOOST_AUTO_TEST_CASE(a_frame_can_be_written_in_place_piece_by_piece) {
  std::mt19937_64 random(7);
  const Bytes payload = random_bytes(random, 500'000);
  MemoryStream stream;
  FrameWriter writer(stream);
  value_of(writer.begin(MessageKind::kReply, 9, payload.size(), patience()));
  for (size_t at = 0; at < payload.size();) {
    const size_t count = std::min(payload.size() - at, static_cast<size_t>(random() % (Stream::kChunk + 1)));
    if (random() % 2 == 0) {
      auto room = value_of(writer.reserve(count, patience()));
      std::memcpy(room.data(), payload.data() + at, count);
      writer.commit(room);
    } else {
      value_of(writer.write(std::span(payload).subspan(at, count), patience()));
    }
    at += count;
  }
  value_of(writer.end(patience()));
  BOOST_TEST((stream.output() == frame_of(payload, MessageKind::kReply, 9)));
}

// --- bad frames ---

BOOST_AUTO_TEST_CASE(any_damaged_bit_of_a_payload_or_its_checksum_is_noticed) {
  std::mt19937_64 random(8);
  const Bytes payload = random_bytes(random, 120);
  const Bytes good = frame_of(payload);
  BOOST_TEST_REQUIRE(good.size() == kHeaderBytes + payload.size() + kTrailerBytes);
  for (size_t bit = 8 * kHeaderBytes; bit < 8 * good.size(); ++bit) {
    Bytes damaged = good;
    damaged[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    for (bool whole : {true, false}) {
      MemoryStream stream(damaged);
      FrameReader reader(stream, kDefaultMaxPayload);
      value_of(reader.next(patience()));
      Bytes buffer(payload.size());
      if (whole) {
        BOOST_TEST(code_of(reader.rest(buffer, patience())) == ErrorCode::kMalformed);
      } else {
        value_of(reader.read(buffer, patience()));
        BOOST_TEST(code_of(reader.finish(patience())) == ErrorCode::kMalformed);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(damage_in_a_large_payload_is_noticed) {
  std::mt19937_64 random(9);
  const Bytes good = frame_of(random_bytes(random, 1 << 20));
  for (int i = 0; i < 10; ++i) {
    Bytes damaged = good;
    damaged[kHeaderBytes + random() % (damaged.size() - kHeaderBytes)] ^= std::byte{16};
    MemoryStream stream(damaged);
    FrameReader reader(stream, kDefaultMaxPayload);
    value_of(reader.next(patience()));
    Bytes buffer;
    BOOST_TEST(code_of(reader.rest(buffer, patience())) == ErrorCode::kMalformed);
  }
}

BOOST_AUTO_TEST_CASE(every_truncation_of_a_frame_is_an_error) {
  std::mt19937_64 random(10);
  const Bytes good = frame_of(random_bytes(random, 64));
  for (size_t length = 0; length < good.size(); ++length) {
    MemoryStream stream(Bytes(good.begin(), good.begin() + static_cast<long>(length)));
    FrameReader reader(stream, kDefaultMaxPayload);
    Bytes buffer;
    auto header = reader.next(patience());
    BOOST_TEST(header.has_value() == (length >= kHeaderBytes));
    if (header) BOOST_TEST(code_of(reader.rest(buffer, patience())) == ErrorCode::kUnavailable);
  }
}

BOOST_AUTO_TEST_CASE(memory_grows_with_what_arrives_and_not_with_what_is_announced) {
  const RawHeader raw = header_of({MessageKind::kPush, kFlagChecksum, 1, kDefaultMaxPayload});
  Bytes wire(raw.begin(), raw.end());
  wire.resize(wire.size() + 1000);
  MemoryStream stream(wire);
  FrameReader reader(stream, kDefaultMaxPayload);
  value_of(reader.next(patience()));
  Bytes buffer;
  BOOST_TEST(code_of(reader.rest(buffer, patience())) == ErrorCode::kUnavailable);
  BOOST_TEST(buffer.capacity() <= size_t{8} << 20);
}

BOOST_AUTO_TEST_CASE(a_frame_without_a_checksum_is_refused_where_bytes_can_be_damaged) {
  const RawHeader raw = header_of({MessageKind::kStatistics, 0, 1, 0});
  MemoryStream network(Bytes(raw.begin(), raw.end()));
  FrameReader from_network(network, kDefaultMaxPayload);
  BOOST_TEST(code_of(from_network.next(patience())) == ErrorCode::kMalformed);

  const Bytes wire(raw.begin(), raw.end());
  SpanStream memory(wire, true, Stream::kChunk);
  FrameReader from_memory(memory, kDefaultMaxPayload);
  BOOST_TEST((value_of(from_memory.next(patience())).kind == MessageKind::kStatistics));
  Bytes buffer;
  BOOST_TEST(value_of(from_memory.rest(buffer, patience())).empty());
  value_of(from_memory.finish(patience()));
}

BOOST_AUTO_TEST_CASE(a_frame_over_the_readers_limit_is_refused) {
  std::mt19937_64 random(11);
  const Bytes wire = frame_of(random_bytes(random, 1024));
  MemoryStream stream(wire);
  FrameReader reader(stream, 1016);
  BOOST_TEST(code_of(reader.next(patience())) == ErrorCode::kTooLarge);
}

BOOST_AUTO_TEST_CASE(every_kind_of_message_has_a_name) {
  for (uint8_t kind :
       {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 64, 65}) {
    BOOST_TEST(std::string(to_string(static_cast<MessageKind>(kind))) != "unknown");
  }
  BOOST_TEST(std::string(to_string(static_cast<MessageKind>(26))) == "unknown");
}

BOOST_AUTO_TEST_SUITE_END()
