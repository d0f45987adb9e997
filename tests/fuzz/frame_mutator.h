#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>

#include "common/checksum.h"
#include "wire/frame.h"

// Random bytes never pass two checksums. This mutator changes an input and then, mostly, makes its frames' checksums
// and lengths right again, so that what lies behind them is reached.

// libFuzzer's, or the driver's in standalone_main.cc.
extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace flota::fuzz {

inline constexpr size_t kKindAt = 5, kFlagsAt = 6, kRequestAt = 8, kLengthAt = 16, kChecksumAt = 28;

template <class T>
T load(const uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

template <class T>
void store(uint8_t* to, T value) {
  std::memcpy(to, &value, sizeof(value));
}

inline uint32_t sum_of(const uint8_t* data, size_t size) { return crc32c(std::as_bytes(std::span(data, size))); }

// Changes a field of a frame's header.
inline void change_field(uint8_t* header, std::mt19937_64& random) {
  switch (random() % 5) {
    case 0:
      header[kKindAt] = static_cast<uint8_t>(random() % 14);
      break;
    case 1:
      header[kKindAt] = static_cast<uint8_t>(64 + random() % 3);
      break;
    case 2:
      store(header + kFlagsAt, static_cast<uint16_t>(random() % 4));
      break;
    case 3:
      store(header + kRequestAt, random());
      break;
    default:
      store(header + kLengthAt, random() >> random() % 64);
      break;
  }
}

// Walks the frames from the front. `lengths`: a frame whose payload does not fit takes all that is there.
inline void repair(uint8_t* data, size_t size, bool lengths, std::mt19937_64& random) {
  for (size_t at = 0; at + kHeaderBytes <= size;) {
    uint8_t* header = data + at;
    if (load<uint32_t>(header) != kFrameMagic && random() % 8 != 0) store(header, kFrameMagic);
    if (random() % 16 != 0) header[4] = kProtocolVersion;
    if (random() % 8 == 0) change_field(header, random);
    const bool checked = (load<uint16_t>(header + kFlagsAt) & kFlagChecksum) != 0;
    const size_t trailer = checked ? kTrailerBytes : 0;
    const size_t room = size - at - kHeaderBytes;
    auto length = load<uint64_t>(header + kLengthAt);
    if (lengths && (length > room || length % 8 != 0)) {
      length = room > trailer ? (room - trailer) / 8 * 8 : 0;
      store(header + kLengthAt, length);
    }
    store(header + kChecksumAt, sum_of(header, kChecksumAt));
    if (length > room || trailer > room - length) return;
    if (checked && random() % 16 != 0) {
      store(header + kHeaderBytes + length, uint64_t{sum_of(header + kHeaderBytes, length)});
    }
    at += kHeaderBytes + length + trailer;
  }
}

inline size_t mutate(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  std::mt19937_64 random(seed);
  for (uint64_t i = random() % 4; i > 0 || size == 0; i -= i > 0) size = LLVMFuzzerMutate(data, size, max_size);
  const uint64_t what = random() % 8;
  if (what != 0) repair(data, size, what != 1, random);
  return size;
}

}  // namespace flota::fuzz
