#include "optim/elementwise.h"
#include "optim/moments.h"
#include "optim/rules.h"

namespace flota {
namespace {

// Paddle adds epsilon to the largest magnitude so far, torch to the new one. State: the average gradient, and its
// decaying largest magnitude.
template <bool kPaddle>
struct Adamax {
  static constexpr size_t kSlots = 2;
  struct Update;

  RuleSpec spec;
  BiasCorrections correction;

  explicit Adamax(const RuleSpec& given) : spec(given), correction(spec.beta1, BiasCorrections::Form::kPlain) {}
  bool per_row() const { return spec.steps == StepSource::kRow; }
  double first_state(size_t) const { return 0; }
};

template <bool kPaddle>
struct Adamax<kPaddle>::Update {
  const Adamax& rule;
  float lr;
  ScaledGradient scaled;
  Lerp average;
  F8 beta2;
  F8 epsilon;
  F8 minus_step_size;

  Update(const Adamax& adamax, const Step& step)
      : rule(adamax),
        lr(step.lr),
        scaled(step, rule.spec.weight_decay),
        average(rule.spec.beta1),
        beta2(F8::all(rule.spec.beta2)),
        epsilon(F8::all(rule.spec.epsilon)),
        minus_step_size(F8::all(-step.lr)) {}
  void at(uint64_t t) { minus_step_size = F8::all(-lr * rule.correction.at(t)); }
  void apply(F8& w, std::array<F8, kSlots>& s, F8 gradient) const {
    const F8 g = scaled(gradient, w);
    s[0] = average(s[0], g);
    s[1] = kPaddle ? max(s[1] * beta2 + epsilon, abs(g)) : max(s[1] * beta2, abs(g) + epsilon);
    w = w + (minus_step_size * s[0]) / s[1];
  }
};

}  // namespace

std::unique_ptr<const Rule> make_adamax(const RuleSpec& spec) {
  return std::make_unique<Elementwise<Adamax<false>>>(spec);
}

std::unique_ptr<const Rule> make_paddle_adamax(const RuleSpec& spec) {
  return std::make_unique<Elementwise<Adamax<true>>>(spec);
}

}  // namespace flota
