#pragma once

#include <cstddef>
#include <cstring>

namespace flota {

// Copies a row's floats. Rows are short, and a call of memcpy with a length the compiler does not know costs more than
// the copy itself; masked loads and stores, the other way to end a row, cost several times the plain ones here.
inline void copy_floats(float* out, const float* in, size_t count) {
  size_t i = 0;
  for (; i + 8 <= count; i += 8) std::memcpy(out + i, in + i, 8 * sizeof(float));
  if (count & 4) {
    std::memcpy(out + i, in + i, 4 * sizeof(float));
    i += 4;
  }
  if (count & 2) {
    std::memcpy(out + i, in + i, 2 * sizeof(float));
    i += 2;
  }
  if (count & 1) out[i] = in[i];
}

}  // namespace flota
