#pragma once

#include <cstddef>
#include <cstdint>

namespace flota {

// Steps and eras count up to here, so that there is always a later one.
inline constexpr uint64_t kMaxStep = uint64_t{1} << 62;

// What the values of a push are.
enum class PushKind : uint8_t {
  kGradient = 1,  // the table's rule applies them, and the update count goes up
  kDelta = 2,     // added to the weights; the rule's state and the update count stay
  kAssign = 3,    // become the weights; the same stays
};

// What a push tells of its keys beside their values, to tables that admit keys by it.
struct Shown {
  const float* shows = nullptr;   // of each key: how often it appeared; null: once
  const float* clicks = nullptr;  // how often with a click; null: never
  uint64_t draw = 0;              // what chances are drawn with: another for each push

  float shows_of(size_t i) const { return shows == nullptr ? 1.0f : shows[i]; }
  float clicks_of(size_t i) const { return clicks == nullptr ? 0.0f : clicks[i]; }
};

}  // namespace flota
