#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#if defined(__AVX2__) && defined(__FMA__)
#define FLOTA_AVX2 1
#include <immintrin.h>
#else
#include <cstring>
#endif

// Eight floats at a time, spelt out: g++ 12 makes slow code of short fixed loops. Every operation but fma() rounds the
// same way in both versions below; fma() rounds once wherever the machine has it.
namespace flota {

inline constexpr size_t kLanes = 8;

#if defined(FLOTA_AVX2)

struct F8 {
  __m256 v;

  static F8 all(double x) { return {_mm256_set1_ps(static_cast<float>(x))}; }
  static F8 load(const float* from) { return {_mm256_loadu_ps(from)}; }
  void store(float* to) const { _mm256_storeu_ps(to, v); }

  // The first `count` floats, then zeros, by loads of just these. A masked load made rows of 10 with state three to
  // four times slower: it seems to wait for the stores just made to the state that follows the weights. Requires: count
  // < 8.
  static F8 load_first(const float* from, size_t count) {
    if (count < 4) return {_mm256_set_m128(_mm_setzero_ps(), load_below_4(from, count))};
    return {_mm256_set_m128(load_below_4(from + 4, count - 4), _mm_loadu_ps(from))};
  }

  // Stores the first `count` lanes, in parts: AMD's masked store takes as long as a dozen plain ones.
  // Requires: count < 8.
  void store_first(float* to, size_t count) const {
    __m128 half = _mm256_castps256_ps128(v);
    if (count & 4) {
      _mm_storeu_ps(to, half);
      half = _mm256_extractf128_ps(v, 1);
      to += 4;
    }
    if (count & 2) {
      _mm_storel_pi(reinterpret_cast<__m64*>(to), half);
      half = _mm_movehl_ps(half, half);
      to += 2;
    }
    if (count & 1) _mm_store_ss(to, half);
  }

 private:
  static __m128 load_below_4(const float* from, size_t count) {
    if (count == 0) return _mm_setzero_ps();
    if (count == 1) return _mm_load_ss(from);
    const __m128 two = _mm_loadl_pi(_mm_setzero_ps(), reinterpret_cast<const __m64*>(from));
    return count == 2 ? two : _mm_movelh_ps(two, _mm_load_ss(from + 2));
  }
};

inline F8 operator+(F8 a, F8 b) { return {_mm256_add_ps(a.v, b.v)}; }
inline F8 operator-(F8 a, F8 b) { return {_mm256_sub_ps(a.v, b.v)}; }
inline F8 operator*(F8 a, F8 b) { return {_mm256_mul_ps(a.v, b.v)}; }
inline F8 operator/(F8 a, F8 b) { return {_mm256_div_ps(a.v, b.v)}; }
// a * b + c, and c - a * b.
inline F8 fma(F8 a, F8 b, F8 c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
inline F8 fnma(F8 a, F8 b, F8 c) { return {_mm256_fnmadd_ps(a.v, b.v, c.v)}; }
inline F8 sqrt(F8 a) { return {_mm256_sqrt_ps(a.v)}; }
inline F8 abs(F8 a) { return {_mm256_andnot_ps(_mm256_set1_ps(-0.0f), a.v)}; }
// The second where either is NaN.
inline F8 max(F8 a, F8 b) { return {_mm256_max_ps(a.v, b.v)}; }
inline F8 min(F8 a, F8 b) { return {_mm256_min_ps(a.v, b.v)}; }
// The magnitude of `a` (which must not be negative) with the sign of `sign`.
inline F8 with_sign_of(F8 a, F8 sign) { return {_mm256_or_ps(a.v, _mm256_and_ps(sign.v, _mm256_set1_ps(-0.0f)))}; }

struct Mask8 {
  __m256 v;
};
inline Mask8 operator>(F8 a, F8 b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_GT_OQ)}; }
inline Mask8 operator&(Mask8 a, Mask8 b) { return {_mm256_and_ps(a.v, b.v)}; }
inline F8 select(Mask8 mask, F8 yes, F8 no) { return {_mm256_blendv_ps(no.v, yes.v, mask.v)}; }

// Sums squares in double, lane by lane, so that the order of additions is fixed by the places of the values alone.
// A float's square is exact in double: only the additions round.
class SquareSum {
 public:
  void add(F8 x) {
    __m256d low = _mm256_cvtps_pd(_mm256_castps256_ps128(x.v));
    __m256d high = _mm256_cvtps_pd(_mm256_extractf128_ps(x.v, 1));
    low_ = _mm256_fmadd_pd(low, low, low_);
    high_ = _mm256_fmadd_pd(high, high, high_);
  }
  double total() const {
    double lanes[4];
    _mm256_storeu_pd(lanes, _mm256_add_pd(low_, high_));
    return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
  }

 private:
  __m256d low_ = _mm256_setzero_pd();
  __m256d high_ = _mm256_setzero_pd();
};

#else

namespace simd_detail {
// Fused only where that is one instruction; the library call elsewhere costs a hundred times the product.
inline float fma_lane(float a, float b, float c) {
#if defined(__FP_FAST_FMAF)
  return std::fma(a, b, c);
#else
  return a * b + c;
#endif
}
}  // namespace simd_detail

struct F8 {
  float v[kLanes];

  template <class Function>
  static F8 each(Function function) {
    F8 out;
    for (size_t i = 0; i < kLanes; ++i) out.v[i] = function(i);
    return out;
  }
  static F8 all(double x) {
    return each([&](size_t) { return static_cast<float>(x); });
  }
  static F8 load(const float* from) { return load_first(from, kLanes); }
  void store(float* to) const { store_first(to, kLanes); }
  static F8 load_first(const float* from, size_t count) {
    F8 out = {};
    std::memcpy(out.v, from, count * sizeof(float));
    return out;
  }
  void store_first(float* to, size_t count) const { std::memcpy(to, v, count * sizeof(float)); }
};

inline F8 operator+(F8 a, F8 b) {
  return F8::each([&](size_t i) { return a.v[i] + b.v[i]; });
}
inline F8 operator-(F8 a, F8 b) {
  return F8::each([&](size_t i) { return a.v[i] - b.v[i]; });
}
inline F8 operator*(F8 a, F8 b) {
  return F8::each([&](size_t i) { return a.v[i] * b.v[i]; });
}
inline F8 operator/(F8 a, F8 b) {
  return F8::each([&](size_t i) { return a.v[i] / b.v[i]; });
}
inline F8 fma(F8 a, F8 b, F8 c) {
  return F8::each([&](size_t i) { return simd_detail::fma_lane(a.v[i], b.v[i], c.v[i]); });
}
inline F8 fnma(F8 a, F8 b, F8 c) {
  return F8::each([&](size_t i) { return simd_detail::fma_lane(-a.v[i], b.v[i], c.v[i]); });
}
inline F8 sqrt(F8 a) {
  return F8::each([&](size_t i) { return std::sqrt(a.v[i]); });
}
inline F8 abs(F8 a) {
  return F8::each([&](size_t i) { return std::fabs(a.v[i]); });
}
inline F8 max(F8 a, F8 b) {
  return F8::each([&](size_t i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}
inline F8 min(F8 a, F8 b) {
  return F8::each([&](size_t i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
}
inline F8 with_sign_of(F8 a, F8 sign) {
  return F8::each([&](size_t i) { return std::copysign(a.v[i], sign.v[i]); });
}

struct Mask8 {
  bool v[kLanes];
};
inline Mask8 operator>(F8 a, F8 b) {
  Mask8 out;
  for (size_t i = 0; i < kLanes; ++i) out.v[i] = a.v[i] > b.v[i];
  return out;
}
inline Mask8 operator&(Mask8 a, Mask8 b) {
  Mask8 out;
  for (size_t i = 0; i < kLanes; ++i) out.v[i] = a.v[i] && b.v[i];
  return out;
}
inline F8 select(Mask8 mask, F8 yes, F8 no) {
  return F8::each([&](size_t i) { return mask.v[i] ? yes.v[i] : no.v[i]; });
}

class SquareSum {
 public:
  void add(F8 x) {
    for (size_t i = 0; i < kLanes; ++i) lanes_[i] += static_cast<double>(x.v[i]) * static_cast<double>(x.v[i]);
  }
  double total() const {
    return ((lanes_[0] + lanes_[4]) + (lanes_[1] + lanes_[5])) + ((lanes_[2] + lanes_[6]) + (lanes_[3] + lanes_[7]));
  }

 private:
  double lanes_[kLanes] = {};
};

#endif

}  // namespace flota
