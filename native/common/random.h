#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "common/hash.h"

// Random numbers that give the same bits on every machine and with every compiler: integers, and floating-point
// operations that IEEE 754 rounds exactly. No libm function but sqrt and fma, and no product that feeds a sum outside
// fma, which a compiler may or may not fuse.
namespace flota {

// 64 random bits as a pure function of (seed, key, counter): splitmix64 along the counter, from a place that seed and
// key give. A second word of theirs enters between its rounds, so that two keys' sequences never run into each other.
class RowStream {
 public:
  RowStream(uint64_t seed, Key key)
      : start_(mix(mix(key + kGolden) + seed)), word_(mix(start_ ^ 0x6a09e667f3bcc909ull)) {}

  uint64_t at(uint64_t counter) const {
    uint64_t z = start_ + counter * kGolden;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ word_ ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }

 private:
  static constexpr uint64_t kGolden = 0x9e3779b97f4a7c15ull;

  static constexpr uint64_t mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }

  uint64_t start_;
  uint64_t word_;
};

// [0, 1) in steps of 2^-24: every value is exact in float.
inline float unit_float(uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-24f; }

// (0, 1) in steps of 2^-52: never 0 or 1, and 1 minus it is exact.
inline double open_unit_double(uint64_t bits) { return (static_cast<double>(bits >> 12) + 0.5) * 0x1p-52; }

namespace random_detail {

template <size_t kTerms>
inline double polynomial(const double (&terms)[kTerms], double x) {
  double sum = terms[kTerms - 1];
  for (size_t i = kTerms - 1; i-- > 0;) sum = std::fma(sum, x, terms[i]);
  return sum;
}

// The natural logarithm of a normal number, to a few units in the last place: the exponent apart, then the series of
// log((1 + s) / (1 - s)), with |s| < 0.172.
inline double log(double x) {
  static constexpr double kSeries[] = {2.0,      2.0 / 3,  2.0 / 5,  2.0 / 7,  2.0 / 9, 2.0 / 11,
                                       2.0 / 13, 2.0 / 15, 2.0 / 17, 2.0 / 19, 2.0 / 21};
  uint64_t bits = std::bit_cast<uint64_t>(x);
  auto exponent = static_cast<int64_t>(bits >> 52) - 1023;
  double fraction = std::bit_cast<double>((bits & 0x000fffffffffffffull) | 0x3ff0000000000000ull);
  if (fraction > 1.4142135623730951) {
    fraction *= 0.5;
    exponent += 1;
  }
  const double s = (fraction - 1) / (fraction + 1);
  return std::fma(static_cast<double>(exponent), 0.6931471805599453, s * polynomial(kSeries, s * s));
}

}  // namespace random_detail

// The x below which a standard normal variable falls with probability p: Wichura's AS 241, good to 1e-15.
// Requires: p in (0, 1), not subnormal.
inline double normal_quantile(double p) {
  static constexpr double kCentreTop[] = {3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3,
                                          1.3731693765509461125e4, 4.5921953931549871457e4, 6.7265770927008700853e4,
                                          3.3430575583588128105e4, 2.5090809287301226727e3};
  static constexpr double kCentreBottom[] = {1.0,
                                             4.2313330701600911252e1,
                                             6.8718700749205790830e2,
                                             5.3941960214247511077e3,
                                             2.1213794301586595867e4,
                                             3.9307895800092710610e4,
                                             2.8729085735721942674e4,
                                             5.2264952788528545610e3};
  static constexpr double kTailTop[] = {1.42343711074968357734e0,  4.63033784615654529590e0, 5.76949722146069140550e0,
                                        3.64784832476320460504e0,  1.27045825245236838258e0, 2.41780725177450611770e-1,
                                        2.27238449892691845833e-2, 7.74545014278341407640e-4};
  static constexpr double kTailBottom[] = {1.0,
                                           2.05319162663775882187e0,
                                           1.67638483018380384940e0,
                                           6.89767334985100004550e-1,
                                           1.48103976427480074590e-1,
                                           1.51986665636164571966e-2,
                                           5.47593808499534494600e-4,
                                           1.05075007164441684324e-9};
  static constexpr double kFarTop[] = {6.65790464350110377720e0,  5.46378491116411436990e0,  1.78482653991729133580e0,
                                       2.96560571828504891230e-1, 2.65321895265761230930e-2, 1.24266094738807843860e-3,
                                       2.71155556874348757815e-5, 2.01033439929228813265e-7};
  static constexpr double kFarBottom[] = {1.0,
                                          5.99832206555887937690e-1,
                                          1.36929880922735805310e-1,
                                          1.48753612908506148525e-2,
                                          7.86869131145613259100e-4,
                                          1.84631831751005468180e-5,
                                          1.42151175831644588870e-7,
                                          2.04426310338993978564e-15};
  using random_detail::polynomial;
  const double q = p - 0.5;
  if (std::fabs(q) <= 0.425) {
    const double r = std::fma(-q, q, 0.180625);
    return q * polynomial(kCentreTop, r) / polynomial(kCentreBottom, r);
  }
  const double r = std::sqrt(-random_detail::log(q < 0 ? p : 1 - p));
  const double x = r <= 5 ? polynomial(kTailTop, r - 1.6) / polynomial(kTailBottom, r - 1.6)
                          : polynomial(kFarTop, r - 5) / polynomial(kFarBottom, r - 5);
  return q < 0 ? -x : x;
}

}  // namespace flota
