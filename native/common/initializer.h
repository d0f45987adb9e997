#pragma once

#include <cstdint>
#include <span>

#include "common/hash.h"
#include "common/spec.h"

namespace flota {

// The first values of a table's rows. The value at (seed, key, column) is a pure function of these three: it does not
// depend on who asks, when, for how many columns at once, or on which machine. A dense parameter is one row, of key 0.
// Thread safety: const, any thread.
class Initializer {
 public:
  // Requires: init passed validate().
  Initializer(const InitSpec& init, uint64_t seed);

  // Writes the values of the columns from `first_column` on.
  void fill(Key key, uint64_t first_column, std::span<float> out) const;

 private:
  void set_uniform(double low, double high);
  void set_truncated(const InitSpec& init);

  void fill_uniform(Key key, uint64_t first_column, std::span<float> out) const;
  void fill_normal(Key key, uint64_t first_column, std::span<float> out) const;
  void fill_truncated(Key key, uint64_t first_column, std::span<float> out) const;

  InitKind kind_;
  uint64_t seed_;
  double mean_ = 0;
  double deviation_ = 0;
  // Every value lies within these. Both belong to the range: a range open above is kept so by its last float.
  float lowest_ = 0;
  float highest_ = 0;
  float width_ = 0;  // uniform
  // Truncated normal: the probabilities of the range's ends.
  double first_probability_ = 0;
  double last_probability_ = 0;
};

}  // namespace flota
