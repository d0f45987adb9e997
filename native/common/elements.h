#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "common/half.h"
#include "common/spec.h"

// Float32 values as they are stored or sent: float32, float16 or bfloat16.
namespace flota {

inline size_t element_bytes(Storage element) { return element == Storage::kFloat32 ? sizeof(float) : sizeof(uint16_t); }

inline void widen(Storage element, const std::byte* from, float* to, size_t count) {
  switch (element) {
    case Storage::kFloat32:
      std::memcpy(to, from, count * sizeof(float));
      return;
    case Storage::kFloat16:
      float16_to_float32(reinterpret_cast<const uint16_t*>(from), to, count);
      return;
    case Storage::kBFloat16:
      bfloat16_to_float32(reinterpret_cast<const uint16_t*>(from), to, count);
      return;
  }
}

inline void narrow(Storage element, const float* from, std::byte* to, size_t count) {
  switch (element) {
    case Storage::kFloat32:
      std::memcpy(to, from, count * sizeof(float));
      return;
    case Storage::kFloat16:
      float32_to_float16(from, reinterpret_cast<uint16_t*>(to), count);
      return;
    case Storage::kBFloat16:
      float32_to_bfloat16(from, reinterpret_cast<uint16_t*>(to), count);
      return;
  }
}

// The place of the first finite value that narrow() would make infinite, or `count`.
inline size_t first_overflow(Storage element, const float* values, size_t count) {
  if (element == Storage::kFloat32) return count;
  // From here on values round up to infinity: 65520, and the middle between bfloat16's greatest and 2^128.
  const uint32_t least = element == Storage::kFloat16 ? 0x477ff000u : 0x7f7f8000u;
  auto overflows = [&](float value) {
    return (std::bit_cast<uint32_t>(value) & 0x7fffffffu) - least < 0x7f800000u - least;
  };
  size_t i = 0;
  // Stretches without a way out in the middle: the compiler takes eight values at a time.
  constexpr size_t kStretch = 64;
  for (; i + kStretch <= count; i += kStretch) {
    uint32_t any = 0;
    for (size_t j = 0; j < kStretch; ++j) any |= static_cast<uint32_t>(overflows(values[i + j]));
    if (any != 0) break;
  }
  for (; i < count; ++i) {
    if (overflows(values[i])) return i;
  }
  return count;
}

inline const char* name_of(Storage element) {
  constexpr const char* kNames[] = {"", "float32", "float16", "bfloat16"};
  return kNames[static_cast<size_t>(element)];
}

}  // namespace flota
