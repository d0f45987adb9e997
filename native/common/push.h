#pragma once

#include <cstdint>

namespace flota {

// What the values of a push are.
enum class PushKind : uint8_t {
  kGradient = 1,  // the table's rule applies them, and the update count goes up
  kDelta = 2,     // added to the weights; the rule's state and the update count stay
  kAssign = 3,    // become the weights; the same stays
};

}  // namespace flota
