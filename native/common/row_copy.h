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

// Asks for the cache lines of `bytes` bytes from `start` on.
inline void prefetch_bytes(const std::byte* start, size_t bytes) {
  for (size_t i = 0; i < bytes; i += 64) __builtin_prefetch(start + i);
  // A row that does not begin on a line's boundary may end on one line more.
  if (bytes % 64 != 0) __builtin_prefetch(start + bytes - 1);
}

}  // namespace flota
