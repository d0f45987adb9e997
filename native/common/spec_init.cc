#include "common/spec_check.h"

namespace flota {
namespace {

Result<void> check_rounded_order(const char* first, double low, const char* second, double high) {
  if (static_cast<float>(low) < static_cast<float>(high)) return {};
  return invalid(std::string(first) + " (" + text(low) + ") must be below " + second + " (" + text(high) +
                 ") as float32");
}

Result<void> check_width(double low, double high) {
  if (high - low <= FLT_MAX) return {};
  return invalid("the range from " + text(low) + " to " + text(high) + " is wider than a float32");
}

Result<void> check_truncated(const InitSpec& init) {
  if (!(init.b > 0)) return invalid("the deviation is " + text(init.b) + ": it must be above 0");
  FLOTA_TRY(check_rounded_order("low", init.low, "high", init.high));
  // Further out, doubles can no longer tell the probabilities of the range's ends apart.
  constexpr double kFarthest = 8;
  if (init.low - init.a <= kFarthest * init.b && init.a - init.high <= kFarthest * init.b) return {};
  return invalid("the range from " + text(init.low) + " to " + text(init.high) +
                 " is more than 8 deviations from the mean " + text(init.a));
}

Result<void> check_xavier(const InitSpec& init) {
  if (!(init.a > 0)) return invalid("the gain is " + text(init.a) + ": it must be above 0");
  if (init.low < 0 || init.high < 0 || init.low + init.high == 0) {
    return invalid("fan_in " + text(init.low) + " and fan_out " + text(init.high) +
                   " must not be negative, nor both be 0");
  }
  const double bound = init.a * std::sqrt(6 / (init.low + init.high));
  FLOTA_TRY(check_rounded_order("the lower bound", -bound, "the upper", bound));
  return check_width(-bound, bound);
}

}  // namespace

Result<void> validate(const InitSpec& init) {
  FLOTA_TRY(check_known("initialiser", init.kind));
  FLOTA_TRY(check_finite("a", init.a));
  FLOTA_TRY(check_finite("b", init.b));
  FLOTA_TRY(check_finite("low", init.low));
  FLOTA_TRY(check_finite("high", init.high));
  const bool uses_b = init.kind != InitKind::kConstant && init.kind != InitKind::kXavierUniform;
  const bool uses_low = init.kind == InitKind::kTruncatedNormal || init.kind == InitKind::kXavierUniform;
  if ((init.b != 0 && !uses_b) || ((init.low != 0 || init.high != 0) && !uses_low)) {
    return invalid(std::string("the ") + to_string(init.kind) + " initialiser does not use " +
                   (init.b != 0 && !uses_b ? "b" : "low and high"));
  }
  switch (init.kind) {
    case InitKind::kConstant:
      return {};
    case InitKind::kUniform:
      FLOTA_TRY(check_rounded_order("a", init.a, "b", init.b));
      return check_width(init.a, init.b);
    case InitKind::kNormal:
      if (init.b < 0) return invalid("the deviation is " + text(init.b) + ": it must not be negative");
      return {};
    case InitKind::kTruncatedNormal:
      return check_truncated(init);
    case InitKind::kXavierUniform:
      return check_xavier(init);
  }
  return {};
}

}  // namespace flota
