#include "optim/elementwise.h"
#include "optim/moments.h"
#include "optim/rules.h"

namespace flota {
namespace {

// Paddle's epsilon is inside of the root, and its learning rate inside of the momentum; torch's are outside.
enum class Form { kTorch, kPaddle };

// State: the average square; then, where used, the average gradient; then, where used, the momentum buffer.
template <Form kForm, bool kCentered, bool kMomentum>
struct RmsProp {
  static constexpr size_t kSlots = 1 + (kCentered ? 1 : 0) + (kMomentum ? 1 : 0);
  struct Update;

  RuleSpec spec;

  explicit RmsProp(const RuleSpec& given) : spec(given) {}
  bool per_row() const { return false; }
  double first_state(size_t) const { return 0; }
};

template <Form kForm, bool kCentered, bool kMomentum>
struct RmsProp<kForm, kCentered, kMomentum>::Update {
  ScaledGradient scaled;
  SquareAverage square_average;
  Lerp average;
  F8 epsilon;
  F8 momentum;
  F8 minus_lr;

  Update(const RmsProp& rule, const Step& step)
      : scaled(step, rule.spec.weight_decay),
        square_average(rule.spec.alpha),
        average(rule.spec.alpha),
        epsilon(F8::all(rule.spec.epsilon)),
        momentum(F8::all(rule.spec.momentum)),
        minus_lr(F8::all(-step.lr)) {}
  void at(uint64_t) {}
  void apply(F8& w, std::array<F8, kSlots>& s, F8 gradient) const {
    const F8 g = scaled(gradient, w);
    s[0] = square_average(s[0], g);
    F8 variance = s[0];
    if constexpr (kCentered) {
      s[1] = average(s[1], g);
      // Rounding can take a variance near zero below it, where torch's square root gives NaN.
      variance = max(F8::all(0), fnma(s[1], s[1], s[0]));
    }
    if constexpr (kForm == Form::kPaddle) {
      move_as_paddle(w, s, g * (F8::all(1) / sqrt(variance + epsilon)));
    } else {
      move_as_torch(w, s, g, sqrt(variance) + epsilon);
    }
  }
  void move_as_torch(F8& w, std::array<F8, kSlots>& s, F8 g, F8 deviation) const {
    if constexpr (kMomentum) {
      F8& buffer = s[kSlots - 1];
      buffer = buffer * momentum + g / deviation;
      w = fma(buffer, minus_lr, w);
    } else {
      w = w + (minus_lr * g) / deviation;
    }
  }
  void move_as_paddle(F8& w, std::array<F8, kSlots>& s, F8 direction) const {
    if constexpr (kMomentum) {
      F8& buffer = s[kSlots - 1];
      buffer = buffer * momentum - direction * minus_lr;
      w = w - buffer;
    } else {
      w = w + direction * minus_lr;
    }
  }
};

template <Form kForm>
std::unique_ptr<const Rule> make(const RuleSpec& spec) {
  const bool has_momentum = spec.momentum > 0;
  if (spec.centered && has_momentum) return std::make_unique<Elementwise<RmsProp<kForm, true, true>>>(spec);
  if (spec.centered) return std::make_unique<Elementwise<RmsProp<kForm, true, false>>>(spec);
  if (has_momentum) return std::make_unique<Elementwise<RmsProp<kForm, false, true>>>(spec);
  return std::make_unique<Elementwise<RmsProp<kForm, false, false>>>(spec);
}

}  // namespace

std::unique_ptr<const Rule> make_rmsprop(const RuleSpec& spec) { return make<Form::kTorch>(spec); }

std::unique_ptr<const Rule> make_paddle_rmsprop(const RuleSpec& spec) { return make<Form::kPaddle>(spec); }

}  // namespace flota
