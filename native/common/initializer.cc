#include "common/initializer.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "common/check.h"
#include "common/random.h"

namespace flota {
namespace {

// The probability that a standard normal variable is below x: normal_quantile's own inverse, found by halving, so that
// it needs no libm and agrees with the quantiles that it will bound. Doubles above zero are ordered as their bits are.
double normal_probability(double x) {
  uint64_t below = std::bit_cast<uint64_t>(std::numeric_limits<double>::min());
  uint64_t above = std::bit_cast<uint64_t>(1 - 0x1p-53);
  while (below < above) {
    const uint64_t middle = below + (above - below) / 2;
    if (normal_quantile(std::bit_cast<double>(middle)) < x) {
      below = middle + 1;
    } else {
      above = middle;
    }
  }
  return std::bit_cast<double>(below);
}

}  // namespace

Initializer::Initializer(const InitSpec& init, uint64_t seed)
    : kind_(init.kind), seed_(seed), mean_(init.a), deviation_(init.b) {
  switch (kind_) {
    case InitKind::kConstant:
      lowest_ = highest_ = static_cast<float>(init.a);
      break;
    case InitKind::kUniform:
      set_uniform(init.a, init.b);
      break;
    case InitKind::kXavierUniform: {
      const double bound = init.a * std::sqrt(6 / (init.low + init.high));
      set_uniform(-bound, bound);
      break;
    }
    case InitKind::kNormal:
      break;
    case InitKind::kTruncatedNormal:
      set_truncated(init);
      break;
    default:
      FLOTA_CHECK(false, "an initialiser of a kind that validate() does not know");
  }
}

void Initializer::set_uniform(double low, double high) {
  lowest_ = static_cast<float>(low);
  width_ = static_cast<float>(high) - lowest_;
  highest_ = std::nextafter(static_cast<float>(high), lowest_);
}

void Initializer::set_truncated(const InitSpec& init) {
  lowest_ = static_cast<float>(init.low);
  highest_ = static_cast<float>(init.high);
  first_probability_ = normal_probability((lowest_ - mean_) / deviation_);
  last_probability_ = normal_probability((highest_ - mean_) / deviation_);
  if (first_probability_ <= 0.5) return;
  // Probabilities near 1 are coarse. The mirror image lies in the other tail, where they are fine.
  first_probability_ = normal_probability((mean_ - lowest_) / deviation_);
  last_probability_ = normal_probability((mean_ - highest_) / deviation_);
  deviation_ = -deviation_;
}

void Initializer::fill(Key key, uint64_t first_column, std::span<float> out) const {
  switch (kind_) {
    case InitKind::kConstant:
      std::fill(out.begin(), out.end(), lowest_);
      return;
    case InitKind::kUniform:
    case InitKind::kXavierUniform:
      return fill_uniform(key, first_column, out);
    case InitKind::kNormal:
      return fill_normal(key, first_column, out);
    case InitKind::kTruncatedNormal:
      return fill_truncated(key, first_column, out);
  }
}

void Initializer::fill_uniform(Key key, uint64_t first_column, std::span<float> out) const {
  const RowStream stream(seed_, key);
  // Rounding can reach the open end.
  const auto value = [this](uint64_t bits) {
    return std::min(std::fma(width_, unit_float(static_cast<uint32_t>(bits)), lowest_), highest_);
  };
  // One draw serves a column of an even number by its lower half and the next column by its upper half.
  size_t i = 0;
  if (first_column % 2 == 1 && !out.empty()) out[i++] = value(stream.at(first_column / 2) >> 32);
  for (; i + 1 < out.size(); i += 2) {
    const uint64_t bits = stream.at((first_column + i) / 2);
    out[i] = value(bits);
    out[i + 1] = value(bits >> 32);
  }
  if (i < out.size()) out[i] = value(stream.at((first_column + i) / 2));
}

void Initializer::fill_normal(Key key, uint64_t first_column, std::span<float> out) const {
  const RowStream stream(seed_, key);
  for (size_t i = 0; i < out.size(); ++i) {
    const double quantile = normal_quantile(open_unit_double(stream.at(first_column + i)));
    out[i] = static_cast<float>(std::fma(deviation_, quantile, mean_));
  }
}

void Initializer::fill_truncated(Key key, uint64_t first_column, std::span<float> out) const {
  const RowStream stream(seed_, key);
  const double width = last_probability_ - first_probability_;
  for (size_t i = 0; i < out.size(); ++i) {
    const double place = std::fma(open_unit_double(stream.at(first_column + i)), width, first_probability_);
    const double value = std::fma(deviation_, normal_quantile(place), mean_);
    out[i] = std::clamp(static_cast<float>(value), lowest_, highest_);
  }
}

}  // namespace flota
