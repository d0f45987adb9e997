#include "common/checksum.h"

#include <array>
#include <cstring>

#if defined(__SSE4_2__)
#include <nmmintrin.h>
#endif

namespace flota {
namespace {

constexpr uint32_t kPolynomial = 0x82f63b78u;  // reflected

constexpr std::array<uint32_t, 256> byte_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? kPolynomial : 0);
    table[i] = crc;
  }
  return table;
}
constexpr auto kByteTable = byte_table();

#if defined(__SSE4_2__)

// The crc32 instruction takes three cycles and can start every cycle: three stretches side by side are three times as
// fast as one. Joining them needs "this checksum, followed by kStretch zero bytes", which is linear in the checksum's
// bits, hence four table lookups.
constexpr size_t kStretch = 1024;

struct ZerosTable {
  std::array<std::array<uint32_t, 256>, 4> part;

  ZerosTable() {
    std::array<uint32_t, 32> column{};
    for (uint32_t bit = 0; bit < 32; ++bit) {
      uint32_t crc = 1u << bit;
      for (size_t i = 0; i < kStretch; ++i) crc = (crc >> 8) ^ kByteTable[crc & 0xff];
      column[bit] = crc;
    }
    for (uint32_t byte = 0; byte < 4; ++byte) {
      for (uint32_t value = 0; value < 256; ++value) {
        uint32_t crc = 0;
        for (uint32_t bit = 0; bit < 8; ++bit) {
          if (value >> bit & 1) crc ^= column[byte * 8 + bit];
        }
        part[byte][value] = crc;
      }
    }
  }

  uint32_t shift(uint32_t crc) const {
    return part[0][crc & 0xff] ^ part[1][crc >> 8 & 0xff] ^ part[2][crc >> 16 & 0xff] ^ part[3][crc >> 24];
  }
};

uint64_t load(const std::byte* from) {
  uint64_t value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

uint32_t update(uint32_t crc, const std::byte* at, size_t count) {
  static const ZerosTable zeros;
  while (count >= 3 * kStretch) {
    uint64_t a = crc;
    uint64_t b = 0;
    uint64_t c = 0;
    for (size_t i = 0; i < kStretch; i += 8) {
      a = _mm_crc32_u64(a, load(at + i));
      b = _mm_crc32_u64(b, load(at + kStretch + i));
      c = _mm_crc32_u64(c, load(at + 2 * kStretch + i));
    }
    crc = zeros.shift(static_cast<uint32_t>(a)) ^ static_cast<uint32_t>(b);
    crc = zeros.shift(crc) ^ static_cast<uint32_t>(c);
    at += 3 * kStretch;
    count -= 3 * kStretch;
  }
  for (; count >= 8; at += 8, count -= 8) crc = static_cast<uint32_t>(_mm_crc32_u64(crc, load(at)));
  for (; count > 0; ++at, --count) crc = _mm_crc32_u8(crc, static_cast<uint8_t>(*at));
  return crc;
}

#else

uint32_t update(uint32_t crc, const std::byte* at, size_t count) {
  for (; count > 0; ++at, --count) crc = (crc >> 8) ^ kByteTable[(crc ^ static_cast<uint8_t>(*at)) & 0xff];
  return crc;
}

#endif

}  // namespace

uint32_t crc32c(std::span<const std::byte> bytes, uint32_t before) {
  return ~update(~before, bytes.data(), bytes.size());
}

}  // namespace flota
