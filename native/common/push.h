#pragma once

#include <cstdint>

namespace flota {

// What the values of a push are.
enum class PushKind : uint8_t {
  kGradient = 1,  // the table's rule applies them
  kDelta = 2,     // added to the weights; the state stays
  kAssign = 3,    // become the weights; the state and the update count stay
};

}  // namespace flota
