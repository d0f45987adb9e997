#pragma once

#include <cfloat>
#include <charconv>
#include <cmath>
#include <iterator>
#include <string>
#include <string_view>

#include "common/hash.h"
#include "common/spec.h"

// What the checks of specs share; private to spec.cc, spec_init.cc and spec_admission.cc.
namespace flota {

// What to_string() calls an enumerator that does not exist.
inline constexpr const char* kUnknown = "unknown";

// The wire carries enumerators as numbers, so that any number can arrive.
template <class Enum>
Result<void> check_known(const char* what, Enum value) {
  if (std::string_view(to_string(value)) != kUnknown) return {};
  return invalid(std::string(what) + " " + std::to_string(static_cast<uint32_t>(value)) + " is unknown");
}

// As short as reads back the same. Minus zero equals zero, and the sum makes it read so.
inline std::string text(double value) {
  char buffer[32];
  return {buffer, std::to_chars(buffer, std::end(buffer), value + 0.0).ptr};
}

inline Result<void> check_finite(const char* name, double value) {
  // Tables compute in float32.
  if (std::isfinite(value) && std::fabs(value) <= FLT_MAX) return {};
  return invalid(std::string(name) + " is " + text(value) + ": it must be a finite float32");
}

// For comparing: all of its settings.
std::string describe(const AdmissionSpec& admission);

}  // namespace flota
