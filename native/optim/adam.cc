#include "optim/elementwise.h"
#include "optim/moments.h"
#include "optim/rules.h"

namespace flota {
namespace {

// Adam, AdamW and LazyAdam: they differ in where the weight decay and epsilon go. State: the average gradient, the
// average square, and with AMSGrad the largest average square so far.
template <bool kAmsgrad>
struct Adam {
  static constexpr size_t kSlots = kAmsgrad ? 3 : 2;
  struct Update;

  RuleSpec spec;
  BiasCorrections correction1;
  BiasCorrections correction2_root;

  explicit Adam(const RuleSpec& given)
      : spec(given),
        correction1(spec.beta1, BiasCorrections::Form::kPlain),
        correction2_root(spec.beta2, BiasCorrections::Form::kSquareRoot) {}
  bool per_row() const { return spec.steps == StepSource::kRow; }
  double first_state(size_t) const { return 0; }

  double added_decay() const { return spec.kind == RuleKind::kAdamW ? 0 : spec.weight_decay; }
  // torch.optim.SparseAdam, which counts the steps of the whole parameter, adds epsilon before the bias correction;
  // Paddle's lazy mode, which counts them as well, adds it after.
  bool epsilon_first() const { return spec.kind == RuleKind::kAdam && spec.steps == StepSource::kPush && !kAmsgrad; }
  double decoupled_decay() const { return spec.kind == RuleKind::kAdamW ? spec.weight_decay : 0; }
};

template <bool kAmsgrad>
struct Adam<kAmsgrad>::Update {
  const Adam& rule;
  float lr;
  ScaledGradient scaled;
  F8 kept;  // of the weight, after decoupled decay
  Lerp average;
  SquareAverage square_average;
  F8 epsilon;
  F8 minus_step_size;
  F8 root;

  Update(const Adam& adam, const Step& step)
      : rule(adam),
        lr(step.lr),
        scaled(step, rule.added_decay()),
        kept(F8::all(1 - step.lr * rule.decoupled_decay())),
        average(rule.spec.beta1),
        square_average(rule.spec.beta2),
        epsilon(F8::all(rule.spec.epsilon)),
        minus_step_size(F8::all(-step.lr)),
        root(F8::all(1)) {}
  void at(uint64_t t) {
    minus_step_size = F8::all(-lr * rule.correction1.at(t));
    const float correction = rule.correction2_root.at(t);
    root = F8::all(correction);
    if (rule.epsilon_first()) epsilon = F8::all(rule.spec.epsilon * correction);
  }
  void apply(F8& w, std::array<F8, kSlots>& s, F8 gradient) const {
    const F8 g = scaled(gradient, w);
    s[0] = average(s[0], g);
    s[1] = square_average(s[1], g);
    if constexpr (kAmsgrad) s[2] = max(s[2], s[1]);
    const F8 deviation = fma(sqrt(s[kSlots - 1]), root, epsilon);
    w = w * kept + (minus_step_size * s[0]) / deviation;
  }
};

}  // namespace

std::unique_ptr<const Rule> make_adam(const RuleSpec& spec) {
  if (spec.amsgrad) return std::make_unique<Elementwise<Adam<true>>>(spec);
  return std::make_unique<Elementwise<Adam<false>>>(spec);
}

std::unique_ptr<const Rule> make_adamw(const RuleSpec& spec) { return make_adam(spec); }

std::unique_ptr<const Rule> make_lazy_adam(const RuleSpec& spec) { return make_adam(spec); }

}  // namespace flota
