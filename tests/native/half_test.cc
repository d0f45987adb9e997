#include "common/half.h"

#include <bit>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>
#include <vector>

using namespace flota;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// A format by its parts, so that both are tested by the same words. `top` is the largest finite pattern.
struct Format {
  int exponent_bits, fraction_bits;
  float (*widen)(uint16_t);
  uint16_t (*narrow)(float);
  void (*widen_all)(const uint16_t*, float*, size_t);
  void (*narrow_all)(const float*, uint16_t*, size_t);

  uint32_t infinity() const { return ((1u << exponent_bits) - 1) << fraction_bits; }
  uint32_t quiet_bit() const { return 1u << (fraction_bits - 1); }

  // By the definition of the format. Requires: a pattern without sign, below infinity.
  double value(uint32_t pattern) const {
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const int exponent = static_cast<int>(pattern >> fraction_bits);
    const double fraction = std::ldexp(pattern & ((1u << fraction_bits) - 1), -fraction_bits);
    return exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias);
  }
};

const Format kFormats[] = {
    {5, 10, float16_to_float32, float32_to_float16, float16_to_float32, float32_to_float16},
    {8, 7, bfloat16_to_float32, float32_to_bfloat16, bfloat16_to_float32, float32_to_bfloat16},
};

}  // namespace

BOOST_AUTO_TEST_SUITE(half)

BOOST_AUTO_TEST_CASE(every_finite_pattern_widens_to_its_value_and_comes_back) {
  for (const Format& format : kFormats) {
    for (uint32_t pattern = 0; pattern < format.infinity(); ++pattern) {
      const float wide = format.widen(static_cast<uint16_t>(pattern));
      const float negative = format.widen(static_cast<uint16_t>(pattern | 0x8000u));
      if (wide != format.value(pattern) || negative != -wide || !std::signbit(negative) ||
          format.narrow(wide) != pattern || format.narrow(negative) != (pattern | 0x8000u)) {
        BOOST_ERROR("pattern " << pattern << " of " << format.exponent_bits << " exponent bits");
      }
    }
  }
}

// Between every two neighbours: the middle goes to the even one, and the next float on either side to its own.
BOOST_AUTO_TEST_CASE(narrowing_rounds_to_nearest_ties_to_even) {
  for (const Format& format : kFormats) {
    for (uint32_t pattern = 0; pattern + 1 < format.infinity(); ++pattern) {
      const auto middle = static_cast<float>((format.value(pattern) + format.value(pattern + 1)) / 2);
      const uint32_t even = pattern + pattern % 2;
      if (format.narrow(middle) != even || format.narrow(std::nextafter(middle, kInfinity)) != pattern + 1 ||
          format.narrow(std::nextafter(middle, -kInfinity)) != pattern || format.narrow(-middle) != (even | 0x8000u)) {
        BOOST_ERROR("above pattern " << pattern << " of " << format.exponent_bits << " exponent bits");
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(too_large_becomes_infinity) {
  BOOST_TEST(float32_to_float16(65504.0f) == 0x7bff);
  BOOST_TEST(float32_to_float16(65519.996f) == 0x7bff);
  BOOST_TEST(float32_to_float16(65520.0f) == 0x7c00);
  BOOST_TEST(float32_to_float16(-1e30f) == 0xfc00);
  BOOST_TEST(float32_to_bfloat16(std::numeric_limits<float>::max()) == 0x7f80);
  for (const Format& format : kFormats) {
    BOOST_TEST(format.narrow(kInfinity) == format.infinity());
    BOOST_TEST(format.widen(static_cast<uint16_t>(format.infinity() | 0x8000u)) == -kInfinity);
  }
}

BOOST_AUTO_TEST_CASE(nan_stays_nan_with_its_payload_and_sign) {
  for (const Format& format : kFormats) {
    for (uint32_t pattern = format.infinity() + 1; pattern < 0x8000u; ++pattern) {
      for (const uint32_t signed_pattern : {pattern, pattern | 0x8000u}) {
        const float wide = format.widen(static_cast<uint16_t>(signed_pattern));
        if (!std::isnan(wide) || format.narrow(wide) != (signed_pattern | format.quiet_bit())) {
          BOOST_ERROR("NaN pattern " << signed_pattern);
        }
      }
    }
    // A payload below the bits that are kept must not turn into infinity.
    BOOST_TEST(format.narrow(std::bit_cast<float>(0x7f800001u)) == (format.infinity() | format.quiet_bit()));
  }
}

// The vector code against the scalar code: every pattern, and floats of all kinds; odd counts have a scalar tail.
BOOST_AUTO_TEST_CASE(many_at_once_give_the_bits_of_one_by_one) {
  std::vector<uint16_t> patterns(65536);
  for (size_t i = 0; i < patterns.size(); ++i) patterns[i] = static_cast<uint16_t>(i);
  std::vector<float> floats;
  for (uint64_t bits = 0; bits < (1ull << 32); bits += 4099) {
    floats.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  }
  for (const Format& format : kFormats) {
    std::vector<float> wide(patterns.size());
    format.widen_all(patterns.data(), wide.data(), patterns.size());
    for (size_t i = 0; i < patterns.size(); ++i) {
      if (std::bit_cast<uint32_t>(wide[i]) != std::bit_cast<uint32_t>(format.widen(patterns[i]))) BOOST_ERROR(i);
    }
    std::vector<uint16_t> narrow(floats.size());
    format.narrow_all(floats.data(), narrow.data(), floats.size());
    for (size_t i = 0; i < floats.size(); ++i) {
      if (narrow[i] != format.narrow(floats[i])) BOOST_ERROR(floats[i]);
    }
  }
}

BOOST_AUTO_TEST_CASE(nothing_beyond_the_count_is_written) {
  for (const Format& format : kFormats) {
    for (size_t count = 0; count < 20; ++count) {
      std::vector<float> floats(20, 1.5f);
      std::vector<uint16_t> narrow(20, 7);
      format.narrow_all(floats.data(), narrow.data(), count);
      for (size_t i = 0; i < 20; ++i) BOOST_TEST(narrow[i] == (i < count ? format.narrow(1.5f) : 7));
      format.widen_all(narrow.data(), floats.data() + 1, count / 2);
      BOOST_TEST(floats[count / 2 + 1] == 1.5f);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
