#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#if defined(__AVX2__) && defined(__F16C__)
#define FLOTA_F16C 1
#include <immintrin.h>
#endif

// 16-bit floats as storage: float16 (IEEE binary16) and bfloat16 (the upper half of a float32). Widening is exact;
// narrowing rounds to nearest, ties to even, and overflows to infinity. NaN stays NaN, made quiet.
namespace flota {

inline float float16_to_float32(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t magnitude = half & 0x7fffu;
  if (magnitude >= 0x7c00u) {  // infinity, NaN
    const uint32_t quiet = magnitude > 0x7c00u ? 0x00400000u : 0;
    return std::bit_cast<float>(sign | 0x7f800000u | quiet | (magnitude << 13));
  }
  if (magnitude >= 0x0400u) return std::bit_cast<float>(sign | ((magnitude << 13) + (112u << 23)));
  // Subnormal: a count of 2^-24, which float32 holds exactly.
  const float value = static_cast<float>(magnitude) * 0x1p-24f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(value));
}

inline uint16_t float32_to_float16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x03ffu));
  // 65520 and above round to infinity.
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);
  if (magnitude < 0x38800000u) {
    // Below 2^-14 the spacing is 2^-24: adding 0.5, whose own spacing that is, makes the adder round for us.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u));
  }
  const uint32_t rounded = magnitude - (112u << 23) + 0x0fffu + ((magnitude >> 13) & 1u);
  return static_cast<uint16_t>(sign | (rounded >> 13));
}

inline float bfloat16_to_float32(uint16_t brain) {
  const uint32_t bits = static_cast<uint32_t>(brain) << 16;
  const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
  return std::bit_cast<float>(is_nan ? bits | 0x00400000u : bits);
}

inline uint16_t float32_to_bfloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x0040u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

// The same for `count` values; the same bits as one by one. The ranges must not overlap.

inline void float16_to_float32(const uint16_t* from, float* to, size_t count) {
  size_t i = 0;
#if defined(FLOTA_F16C)
  for (; i + 8 <= count; i += 8) {
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i))));
  }
#endif
  for (; i < count; ++i) to[i] = float16_to_float32(from[i]);
}

inline void float32_to_float16(const float* from, uint16_t* to, size_t count) {
  size_t i = 0;
#if defined(FLOTA_F16C)
  for (; i + 8 <= count; i += 8) {
    const __m128i halves = _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), halves);
  }
#endif
  for (; i < count; ++i) to[i] = float32_to_float16(from[i]);
}

inline void bfloat16_to_float32(const uint16_t* from, float* to, size_t count) {
  size_t i = 0;
#if defined(FLOTA_F16C)
  for (; i + 8 <= count; i += 8) {
    const __m128i brains = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
    const __m256 value = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(brains), 16));
    const __m256 quiet =
        _mm256_and_ps(_mm256_cmp_ps(value, value, _CMP_UNORD_Q), _mm256_castsi256_ps(_mm256_set1_epi32(0x00400000)));
    _mm256_storeu_ps(to + i, _mm256_or_ps(value, quiet));
  }
#endif
  for (; i < count; ++i) to[i] = bfloat16_to_float32(from[i]);
}

inline void float32_to_bfloat16(const float* from, uint16_t* to, size_t count) {
  size_t i = 0;
#if defined(FLOTA_F16C)
  const __m256i one = _mm256_set1_epi32(1);
  for (; i + 8 <= count; i += 8) {
    const __m256 value = _mm256_loadu_ps(from + i);
    const __m256i bits = _mm256_castps_si256(value);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), one);
    const __m256i rounded = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x00400000));
    const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(value, value, _CMP_UNORD_Q));
    const __m256i upper = _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, is_nan), 16);
    const __m128i packed = _mm_packus_epi32(_mm256_castsi256_si128(upper), _mm256_extracti128_si256(upper, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), packed);
  }
#endif
  for (; i < count; ++i) to[i] = float32_to_bfloat16(from[i]);
}

}  // namespace flota
