#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace flota {

// Python hands arrays over as address and length: it has checked type and layout, and asking a tensor for its address
// costs a tenth of what a DLPack exchange does.
template <class T>
std::span<T> array_at(uintptr_t address, size_t count) {
  return {reinterpret_cast<T*>(address), count};
}

}  // namespace flota
