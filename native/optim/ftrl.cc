#include <cmath>

#include "optim/elementwise.h"
#include "optim/rules.h"

namespace flota {
namespace {

// FTRL-proximal (McMahan et al. 2013) as TensorFlow and Paddle write it. State: the sum of squared gradients, and the
// linear term. The weight follows from the state, so a row's first value fades with its first updates.
template <bool kSquareRoot>
struct Ftrl {
  static constexpr size_t kSlots = 2;
  struct Update;

  RuleSpec spec;

  explicit Ftrl(const RuleSpec& given) : spec(given) {}
  bool per_row() const { return false; }
  double first_state(size_t slot) const { return slot == 0 ? spec.initial_accumulator : 0; }
};

template <bool kSquareRoot>
struct Ftrl<kSquareRoot>::Update {
  F8 scale;
  F8 l1;
  F8 twice_l2;
  F8 inverse_lr;
  float power;
  bool stands_still;

  Update(const Ftrl& rule, const Step& step)
      : scale(F8::all(step.scale)),
        l1(F8::all(rule.spec.l1)),
        twice_l2(F8::all(2 * rule.spec.l2)),
        inverse_lr(F8::all(1 / static_cast<double>(step.lr))),
        power(static_cast<float>(-rule.spec.lr_power)),
        stands_still(step.lr == 0) {}
  void at(uint64_t) {}
  void apply(F8& w, std::array<F8, kSlots>& s, F8 gradient) const {
    // The rule divides by the learning rate: at zero it leaves the row alone.
    if (stands_still) return;
    const F8 g = gradient * scale;
    const F8 before = raised(s[0]);
    s[0] = fma(g, g, s[0]);
    const F8 after = raised(s[0]);
    // The difference of two near numbers is exact, so these add up to the last one as they should.
    s[1] = fnma((after - before) * inverse_lr, w, fma(gradient, scale, s[1]));
    const F8 curvature = fma(after, inverse_lr, twice_l2);
    const F8 shrunk = (with_sign_of(l1, s[1]) - s[1]) / curvature;
    // The curvature is zero while no gradient had a square above zero.
    w = select((abs(s[1]) > l1) & (curvature > F8::all(0)), shrunk, F8::all(0));
  }
  F8 raised(F8 sum) const {
    if constexpr (kSquareRoot) return sqrt(sum);
    float lanes[kLanes];
    sum.store(lanes);
    for (float& lane : lanes) lane = std::pow(lane, power);
    return F8::load(lanes);
  }
};

}  // namespace

std::unique_ptr<const Rule> make_ftrl(const RuleSpec& spec) {
  if (spec.lr_power == -0.5) return std::make_unique<Elementwise<Ftrl<true>>>(spec);
  return std::make_unique<Elementwise<Ftrl<false>>>(spec);
}

}  // namespace flota
