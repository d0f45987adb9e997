#include "common/initializer.h"

#include <algorithm>
#include <bit>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "common/random.h"

using namespace flota;

namespace {

const InitSpec kUniform = {InitKind::kUniform, -0.25, 0.75};
const InitSpec kNormal = {InitKind::kNormal, 1, 2};
const InitSpec kTruncated = {InitKind::kTruncatedNormal, 0, 1, -2, 1};
const InitSpec kXavier = {InitKind::kXavierUniform, 2, 0, 30, 24};
const InitSpec kConstant = {InitKind::kConstant, 0.5};
const InitSpec kAll[] = {kUniform, kNormal, kTruncated, kXavier, kConstant};

std::vector<float> row(const InitSpec& init, uint64_t seed, Key key, uint64_t first, size_t count) {
  BOOST_TEST_REQUIRE(validate(init).has_value());
  std::vector<float> out(count);
  Initializer(init, seed).fill(key, first, out);
  return out;
}

// 4,096 rows of 64 columns of consecutive keys.
std::vector<double> sample(const InitSpec& init) {
  const Initializer initializer(init, 42);
  std::vector<double> out;
  for (Key key = 0; key < 4096; ++key) {
    float values[64];
    initializer.fill(key, 0, values);
    out.insert(out.end(), std::begin(values), std::end(values));
  }
  return out;
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

double variance(const std::vector<double>& values) {
  const double centre = mean(values);
  double sum = 0;
  for (const double value : values) sum += (value - centre) * (value - centre);
  return sum / static_cast<double>(values.size());
}

double correlation(const std::vector<double>& values, size_t distance) {
  const double centre = mean(values);
  double sum = 0;
  for (size_t i = 0; i + distance < values.size(); ++i) sum += (values[i] - centre) * (values[i + distance] - centre);
  return sum / static_cast<double>(values.size() - distance) / variance(values);
}

double probability_below(double x) { return std::erfc(-x / std::sqrt(2.0)) / 2; }

// Chi-square of the values' probabilities (each value's place in its distribution, in [0, 1]) over 256 bins: it has
// mean 255 and deviation 22.6.
double chi_square(const std::vector<double>& places) {
  std::vector<double> bins(256);
  for (const double place : places) bins[static_cast<size_t>(std::clamp(place, 0.0, 0.999999) * 256)] += 1;
  const double expected = static_cast<double>(places.size()) / 256;
  double sum = 0;
  for (const double count : bins) sum += (count - expected) * (count - expected) / expected;
  return sum;
}

template <class Function>
std::vector<double> mapped(std::vector<double> values, Function function) {
  for (double& value : values) value = function(value);
  return values;
}

constexpr double kChiLow = 255 - 5 * 22.6, kChiHigh = 255 + 5 * 22.6;

}  // namespace

BOOST_AUTO_TEST_SUITE(initializer)

BOOST_AUTO_TEST_CASE(a_value_depends_on_seed_key_and_column_alone) {
  for (const InitSpec& init : kAll) {
    const std::vector<float> whole = row(init, 7, 123, 0, 67);
    BOOST_TEST(whole == row(init, 7, 123, 0, 67));
    for (size_t first = 0; first < whole.size(); ++first) {
      for (const size_t count : {0, 1, 2, 3, 8, 16}) {
        const size_t end = std::min(first + count, whole.size());
        const std::vector<float> part(whole.begin() + first, whole.begin() + end);
        if (row(init, 7, 123, first, end - first) != part) BOOST_ERROR("columns from " << first << " to " << end);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(columns_far_apart_are_values_of_their_own) {
  for (const InitSpec& init : {kUniform, kNormal}) {
    BOOST_TEST(row(init, 7, 0, 1ull << 39, 4) != row(init, 7, 0, 0, 4));
    BOOST_TEST(row(init, 7, 0, (1ull << 39) + 1, 3)[0] == row(init, 7, 0, 1ull << 39, 4)[1]);
  }
}

BOOST_AUTO_TEST_CASE(seeds_and_keys_give_other_rows) {
  for (const InitSpec& init : {kUniform, kNormal, kTruncated, kXavier}) {
    std::vector<std::vector<float>> rows;
    for (const uint64_t seed : {0ull, 1ull, 2ull, ~0ull}) {
      for (const Key key : {0ull, 1ull, 2ull, 1ull << 32, 1ull << 63, ~0ull})
        rows.push_back(row(init, seed, key, 0, 8));
    }
    std::sort(rows.begin(), rows.end());
    BOOST_TEST((std::adjacent_find(rows.begin(), rows.end()) == rows.end()));
  }
}

BOOST_AUTO_TEST_CASE(uniform_values_fill_their_range_evenly) {
  const std::vector<double> values = sample(kUniform);
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  BOOST_TEST(*least >= -0.25);
  BOOST_TEST(*most < 0.75);
  const double chi = chi_square(mapped(values, [](double x) { return x + 0.25; }));
  BOOST_TEST(chi > kChiLow);
  BOOST_TEST(chi < kChiHigh);
}

// The open end is not reached even where all but one rounding leads there.
BOOST_AUTO_TEST_CASE(uniform_never_reaches_its_upper_end) {
  const float low = 1, high = std::nextafter(std::nextafter(low, 2.0f), 2.0f);
  for (const float value : row({InitKind::kUniform, low, high}, 3, 9, 0, 1000)) {
    BOOST_TEST(value >= low);
    BOOST_TEST(value < high);
  }
}

BOOST_AUTO_TEST_CASE(normal_values_have_their_distribution) {
  const std::vector<double> values = sample(kNormal);
  const double count = static_cast<double>(values.size());
  BOOST_TEST(std::fabs(mean(values) - 1) < 5 * 2 / std::sqrt(count));
  BOOST_TEST(std::fabs(variance(values) - 4) < 5 * 4 * std::sqrt(2 / count));
  const double chi = chi_square(mapped(values, [](double x) { return probability_below((x - 1) / 2); }));
  BOOST_TEST(chi > kChiLow);
  BOOST_TEST(chi < kChiHigh);
}

BOOST_AUTO_TEST_CASE(truncated_values_have_the_distribution_between_their_bounds) {
  // Around the mean, in the lower tail, and in the upper one.
  for (const InitSpec& init : {kTruncated, InitSpec{InitKind::kTruncatedNormal, 0, 1, -7, -4},
                               InitSpec{InitKind::kTruncatedNormal, 3, 0.5, 6.9, 7.5}}) {
    const std::vector<double> values = sample(init);
    const auto [least, most] = std::minmax_element(values.begin(), values.end());
    BOOST_TEST(*least >= init.low);
    BOOST_TEST(*most <= init.high);
    // The upper tail by its mirror image: probabilities near 1 have few digits.
    const double side = init.low > init.a ? -1 : 1;
    const auto below = [&](double x) { return probability_below(side * (x - init.a) / init.b); };
    const double first = below(init.low), last = below(init.high);
    const double chi = chi_square(mapped(values, [&](double x) { return (below(x) - first) / (last - first); }));
    BOOST_TEST(chi > kChiLow);
    BOOST_TEST(chi < kChiHigh);
  }
}

BOOST_AUTO_TEST_CASE(xavier_is_uniform_within_its_bound) {
  const double bound = 2 * std::sqrt(6.0 / 54);
  const std::vector<double> values = sample(kXavier);
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  BOOST_TEST(*least >= -bound * 1.0000001);
  BOOST_TEST(*most <= bound * 1.0000001);
  const double chi = chi_square(mapped(values, [&](double x) { return (x + bound) / (2 * bound); }));
  BOOST_TEST(chi > kChiLow);
  BOOST_TEST(chi < kChiHigh);
}

// Neighbouring columns, and the same columns of neighbouring keys.
BOOST_AUTO_TEST_CASE(neighbours_are_not_correlated) {
  for (const InitSpec& init : {kUniform, kNormal}) {
    const std::vector<double> values = sample(init);
    for (const size_t distance : {1, 2, 3, 63, 64, 65, 128}) {
      BOOST_TEST(std::fabs(correlation(values, distance)) < 5 / std::sqrt(static_cast<double>(values.size())));
    }
  }
}

BOOST_AUTO_TEST_CASE(every_random_bit_is_set_half_the_time) {
  std::vector<int> counts(64);
  constexpr int kDraws = 1 << 16;
  for (int i = 0; i < kDraws; ++i) {
    const uint64_t bits = RowStream(1, static_cast<Key>(i) << 20).at(static_cast<uint64_t>(i) % 5);
    for (size_t bit = 0; bit < 64; ++bit) counts[bit] += static_cast<int>(bits >> bit & 1);
  }
  for (const int count : counts) BOOST_TEST(std::abs(count - kDraws / 2) < 5 * std::sqrt(kDraws) / 2);
}

BOOST_AUTO_TEST_CASE(quantiles_invert_the_normal_distribution) {
  BOOST_TEST(normal_quantile(0.5) == 0);
  BOOST_TEST(normal_quantile(0.975) == 1.959963984540054, boost::test_tools::tolerance(1e-14));
  BOOST_TEST(normal_quantile(1e-300) == -37.0471, boost::test_tools::tolerance(1e-6));
  for (double p = 1e-300; p < 1; p *= 1.7) {
    BOOST_TEST(probability_below(normal_quantile(p)) == p, boost::test_tools::tolerance(1e-11));
  }
}

// A saved table and a row that comes into being tomorrow, perhaps on another kind of machine, must agree for ever:
// these bits may not change.
BOOST_AUTO_TEST_CASE(golden_values) {
  const auto bits = [](const InitSpec& init, uint64_t seed, Key key, uint64_t column) {
    return std::bit_cast<uint32_t>(row(init, seed, key, column, 1)[0]);
  };
  BOOST_TEST(RowStream(0, 0).at(0) == 0x31334f9b6937a4e3u);
  BOOST_TEST(RowStream(7, 1).at(1) == 0xf9243b0e2631b0afu);
  BOOST_TEST(RowStream(7, ~0ull).at(15) == 0xd24a1a6f3ff8bf56u);
  BOOST_TEST(RowStream(1234567, 9876543210).at(1ull << 33) == 0xb2c3b2827a662d74u);
  BOOST_TEST(bits(kUniform, 0, 0, 0) == 0x3e24de90u);
  BOOST_TEST(bits(kUniform, 7, 1, 1) == 0x3ef5c81au);
  BOOST_TEST(bits(kUniform, 7, ~0ull, 15) == 0xbc6f1a40u);
  BOOST_TEST(bits(kUniform, 1234567, 9876543210, 1ull << 33) == 0x3f2bab0eu);
  BOOST_TEST(bits(kNormal, 0, 0, 0) == 0xbf3d5df0u);
  BOOST_TEST(bits(kNormal, 7, 1, 1) == 0x409b886eu);
  BOOST_TEST(bits(kNormal, 7, ~0ull, 15) == 0x4035df5eu);
  BOOST_TEST(bits(kNormal, 1234567, 9876543210, 1ull << 33) == 0x40027f6au);
  BOOST_TEST(bits(kTruncated, 0, 0, 0) == 0xbf6a4298u);
  BOOST_TEST(bits(kTruncated, 7, 1, 1) == 0x3f69c31fu);
  BOOST_TEST(bits(kTruncated, 7, ~0ull, 15) == 0x3f02b5b2u);
  BOOST_TEST(bits(kTruncated, 1234567, 9876543210, 1ull << 33) == 0x3e748aa7u);
  BOOST_TEST(bits(kXavier, 0, 0, 0) == 0xbdf303d6u);
  BOOST_TEST(bits(kXavier, 7, 1, 1) == 0x3e9d0aceu);
  BOOST_TEST(bits(kXavier, 7, ~0ull, 15) == 0xbeb4a118u);
  BOOST_TEST(bits(kXavier, 1234567, 9876543210, 1ull << 33) == 0x3f0f8ebeu);
}

BOOST_AUTO_TEST_SUITE_END()
