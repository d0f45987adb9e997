#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace flota {

// Copies a row's floats. Rows are short, and a call of memcpy with a length the compiler does not know costs more than
// the copy itself.
inline void copy_floats(float* out, const float* in, size_t count) {
#if defined(__AVX2__)
  size_t i = 0;
  for (; i + 8 <= count; i += 8) _mm256_storeu_ps(out + i, _mm256_loadu_ps(in + i));
  if (i == count) return;
  static constexpr int32_t kMasks[16] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};
  __m256i mask = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(kMasks + 8 - (count - i)));
  _mm256_maskstore_ps(out + i, mask, _mm256_maskload_ps(in + i, mask));
#else
  std::memcpy(out, in, count * sizeof(float));
#endif
}

// Asks for the cache lines of `bytes` bytes from `start` on.
inline void prefetch_bytes(const std::byte* start, size_t bytes) {
  for (size_t i = 0; i < bytes; i += 64) __builtin_prefetch(start + i);
  // A row that does not begin on a line's boundary may end on one line more.
  if (bytes % 64 != 0) __builtin_prefetch(start + bytes - 1);
}

}  // namespace flota
