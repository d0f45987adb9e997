#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "common/simd.h"

// What the Adam family shares: running averages and the corrections for their start at zero.
namespace flota {

// 1 / (1 - beta^t), or its square root, for t = 1, 2, ...: rows of one push differ in t, and a pow() for each row would
// cost more than the rest of its update. Copies of the values end where they have become 1 (beta 0.999: 16,000 of
// them), or at kMaxEntries; beyond that, unless they are 1, they are computed.
class BiasCorrections {
 public:
  enum class Form { kPlain, kSquareRoot };

  BiasCorrections(double beta, Form form) : beta_(beta), form_(form) {
    values_.push_back(1);  // t is never 0; the place keeps at() free of a subtraction
    do values_.push_back(compute(values_.size()));
    while (values_.back() != 1 && values_.size() < kMaxEntries);
    complete_ = values_.back() == 1;
  }

  float at(uint64_t t) const {
    if (t < values_.size()) [[likely]]
      return values_[t];
    return complete_ ? 1 : compute(t);
  }

 private:
  static constexpr size_t kMaxEntries = size_t{1} << 17;

  float compute(uint64_t t) const {
    const double inverse = 1 / (1 - std::pow(beta_, static_cast<double>(t)));
    return static_cast<float>(form_ == Form::kPlain ? inverse : std::sqrt(inverse));
  }

  double beta_;
  Form form_;
  bool complete_ = false;
  std::vector<float> values_;
};

// torch.lerp(average, value, 1 - beta): it works from the nearer end, and so does this.
class Lerp {
 public:
  explicit Lerp(double beta)
      : coefficient_(F8::all(beta > 0.5 ? 1 - beta : -beta)), from_average_(F8::all(beta > 0.5 ? 1 : 0) > F8::all(0)) {}
  F8 operator()(F8 average, F8 value) const {
    return fma(coefficient_, value - average, select(from_average_, average, value));
  }

 private:
  F8 coefficient_;
  Mask8 from_average_;
};

// beta * average + (1 - beta) * value^2.
class SquareAverage {
 public:
  explicit SquareAverage(double beta) : kept_(F8::all(beta)), added_(F8::all(1 - beta)) {}
  F8 operator()(F8 average, F8 value) const { return fma(value * added_, value, average * kept_); }

 private:
  F8 kept_;
  F8 added_;
};

}  // namespace flota
