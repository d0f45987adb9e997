#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace flota {

// Durations by buckets, four a doubling: a quantile read from them is at most a fifth too high.
struct Histogram {
  static constexpr size_t kBuckets = 112;  // the last: from a minute on
  static constexpr uint64_t kUnit = 256;   // nanoseconds, of the first four buckets

  static constexpr size_t bucket_of(uint64_t nanoseconds) {
    const uint64_t units = nanoseconds / kUnit;
    if (units < 4) return units;
    const auto doubling = static_cast<uint64_t>(std::bit_width(units)) - 1;
    return std::min<uint64_t>(4 * (doubling - 1) + ((units >> (doubling - 2)) & 3), kBuckets - 1);
  }
  // Where a bucket begins, in nanoseconds.
  static constexpr uint64_t begin_of(size_t bucket) {
    if (bucket < 4) return bucket * kUnit;
    return ((4 + bucket % 4) << (bucket / 4 - 1)) * kUnit;
  }
};

}  // namespace flota
