#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace flota {

inline bool is_finite(float value) { return (std::bit_cast<uint32_t>(value) & 0x7f800000u) != 0x7f800000u; }

// The place of the first NaN or infinity among `count` floats, or `count`.
inline size_t first_nonfinite(const float* values, size_t count) {
  size_t i = 0;
#if defined(__AVX2__)
  const __m256i exponent = _mm256_set1_epi32(0x7f800000);
  for (; i + 32 <= count; i += 32) {
    __m256i bad = _mm256_setzero_si256();
    for (size_t j = 0; j < 32; j += 8) {
      __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(values + i + j));
      bad = _mm256_or_si256(bad, _mm256_cmpeq_epi32(_mm256_and_si256(bits, exponent), exponent));
    }
    if (!_mm256_testz_si256(bad, bad)) break;
  }
#endif
  for (; i < count; ++i) {
    if (!is_finite(values[i])) return i;
  }
  return count;
}

}  // namespace flota
