#include "common/spec_check.h"

namespace flota {
namespace {

constexpr const char* kNames[] = {kUnknown, "all", "count", "probability", "show and click"};

Result<void> check_unused(const AdmissionSpec& admission, const char* name, double value, bool used) {
  if (used || value == 0) return {};
  return invalid(std::string("admission by ") + to_string(admission.kind) + " does not use " + name);
}

}  // namespace

const char* to_string(AdmissionKind kind) {
  const auto place = static_cast<size_t>(kind);
  return place < std::size(kNames) ? kNames[place] : kUnknown;
}

Result<void> validate(const AdmissionSpec& admission) {
  FLOTA_TRY(check_known("admission", admission.kind));
  const bool counts = admission.kind == AdmissionKind::kCount;
  const bool scores = admission.kind == AdmissionKind::kShowClick;
  const bool draws = admission.kind == AdmissionKind::kProbability;
  FLOTA_TRY(check_finite("threshold", admission.threshold));
  FLOTA_TRY(check_finite("probability", admission.probability));
  FLOTA_TRY(check_finite("show_weight", admission.show_weight));
  FLOTA_TRY(check_finite("click_weight", admission.click_weight));
  FLOTA_TRY(check_unused(admission, "a threshold", admission.threshold, counts || scores));
  FLOTA_TRY(check_unused(admission, "a probability", admission.probability, draws));
  FLOTA_TRY(check_unused(admission, "show_weight", admission.show_weight, scores));
  FLOTA_TRY(check_unused(admission, "click_weight", admission.click_weight, scores));
  FLOTA_TRY(check_unused(admission, "waiting", static_cast<double>(admission.waiting), counts || scores));
  if (counts && !(admission.threshold >= 1 && admission.threshold <= static_cast<double>(kMaxCount))) {
    return invalid("a count of " + text(admission.threshold) + ": it must be from 1 to " + std::to_string(kMaxCount));
  }
  if (scores && (admission.threshold < 0 || admission.show_weight < 0 || admission.click_weight < 0)) {
    return invalid("threshold, show_weight and click_weight must not be negative");
  }
  if (draws && !(admission.probability > 0 && admission.probability <= 1)) {
    return invalid("probability is " + text(admission.probability) + ": it must be above 0 and up to 1");
  }
  if ((counts || scores) && (admission.waiting < kShards || admission.waiting > kMaxWaiting)) {
    return invalid("waiting is " + std::to_string(admission.waiting) + ": it must be from " + std::to_string(kShards) +
                   " to " + std::to_string(kMaxWaiting));
  }
  return {};
}

std::string describe(const AdmissionSpec& admission) {
  std::string out = to_string(admission.kind);
  for (const double value :
       {admission.threshold, admission.probability, admission.show_weight, admission.click_weight}) {
    out += std::string(" ").append(text(value));
  }
  return out + " " + std::to_string(admission.waiting);
}

}  // namespace flota
