#pragma once

#include <algorithm>
#include <array>

#include "common/simd.h"
#include "optim/rule.h"

// The loop that all rules but Lamb share: rows, then eight floats at a time.
//
// A Kernel is one rule's arithmetic:
//
//   struct Kernel {
//     static constexpr size_t kSlots;        // floats of state for each weight
//     explicit Kernel(const RuleSpec&);
//     bool per_row() const;                  // whether at() is wanted for every row, with the row's own count
//     double first_state(size_t slot) const;  // of a row that was never updated
//   };
//   struct Kernel::Update {                  // the constants of one push
//     Update(const Kernel&, const Step&);
//     void at(uint64_t t);                   // those that depend on the count
//     void apply(F8& w, std::array<F8, kSlots>& s, F8 gradient) const;
//   };
//
// A kernel rounds where torch's operators round: fma() stands where they fuse, and nowhere else (cmake/flags.cmake
// keeps the compiler from fusing more). Every element goes through the same kernel, so its result does not depend on
// its place.
namespace flota {

// A gradient as the kernels use it: scaled, with the decay torch adds to it.
struct ScaledGradient {
  F8 scale;
  F8 weight_decay;

  ScaledGradient(const Step& step, double decay) : scale(F8::all(step.scale)), weight_decay(F8::all(decay)) {}
  F8 operator()(F8 gradient, F8 w) const { return fma(w, weight_decay, gradient * scale); }
};

template <class Kernel>
class Elementwise final : public Rule {
 public:
  explicit Elementwise(const RuleSpec& spec) : kernel_(spec) {}

  size_t state_slots() const override { return kSlots; }

  void init_state(std::span<float> state, size_t dim) const override {
    for (size_t slot = 0; slot < kSlots; ++slot) {
      std::fill_n(state.data() + slot * dim, dim, static_cast<float>(kernel_.first_state(slot)));
    }
  }

  void update(const Step& step, size_t dim, std::span<const RowView> rows, const float* gradients) const override {
    // A local copy: rows are written through float pointers, which could alias anything that `this` holds.
    Update update(kernel_, step);
    const bool per_row = kernel_.per_row();
    update.at(std::max<uint64_t>(step.step, 1));
    for (const RowView& row : rows) {
      if (per_row) update.at(row.updates + 1);
      update_row(update, row, dim, gradients);
      gradients += dim;
    }
  }

 private:
  static constexpr size_t kSlots = Kernel::kSlots;
  using Update = typename Kernel::Update;

  static void update_row(const Update& update, const RowView& row, size_t dim, const float* gradient) {
    size_t i = 0;
    for (; i + kLanes <= dim; i += kLanes) {
      F8 w = F8::load(row.weights + i);
      std::array<F8, kSlots> s;
      for (size_t slot = 0; slot < kSlots; ++slot) s[slot] = F8::load(row.state + slot * dim + i);
      update.apply(w, s, F8::load(gradient + i));
      w.store(row.weights + i);
      for (size_t slot = 0; slot < kSlots; ++slot) s[slot].store(row.state + slot * dim + i);
    }
    if (i < dim) update_tail(update, row, dim, i, gradient);
  }

  // What does not fill eight lanes goes through the same kernel, with idle lanes.
  static void update_tail(const Update& update, const RowView& row, size_t dim, size_t i, const float* gradient) {
    const size_t count = dim - i;
    F8 w = F8::load_first(row.weights + i, count);
    std::array<F8, kSlots> s;
    for (size_t slot = 0; slot < kSlots; ++slot) s[slot] = F8::load_first(row.state + slot * dim + i, count);
    update.apply(w, s, F8::load_first(gradient + i, count));
    w.store_first(row.weights + i, count);
    for (size_t slot = 0; slot < kSlots; ++slot) s[slot].store_first(row.state + slot * dim + i, count);
  }

  const Kernel kernel_;
};

}  // namespace flota
