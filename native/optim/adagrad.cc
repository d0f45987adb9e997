#include "optim/elementwise.h"
#include "optim/rules.h"

namespace flota {
namespace {

// State: the sum of squared gradients.
struct Adagrad {
  static constexpr size_t kSlots = 1;
  struct Update;

  RuleSpec spec;

  explicit Adagrad(const RuleSpec& given) : spec(given) {}
  bool per_row() const { return spec.steps == StepSource::kRow && spec.lr_decay != 0; }
  double first_state(size_t) const { return spec.initial_accumulator; }
};

struct Adagrad::Update {
  ScaledGradient scaled;
  F8 epsilon;
  double lr;
  double lr_decay;
  F8 minus_lr;  // after decay

  Update(const Adagrad& rule, const Step& step)
      : scaled(step, rule.spec.weight_decay),
        epsilon(F8::all(rule.spec.epsilon)),
        lr(step.lr),
        lr_decay(rule.spec.lr_decay),
        minus_lr(F8::all(-step.lr)) {}
  void at(uint64_t t) { minus_lr = F8::all(-lr / (1 + static_cast<double>(t - 1) * lr_decay)); }
  void apply(F8& w, std::array<F8, kSlots>& s, F8 gradient) const {
    const F8 g = scaled(gradient, w);
    s[0] = fma(g, g, s[0]);
    w = w + (minus_lr * g) / (sqrt(s[0]) + epsilon);
  }
};

}  // namespace

std::unique_ptr<const Rule> make_adagrad(const RuleSpec& spec) { return std::make_unique<Elementwise<Adagrad>>(spec); }

}  // namespace flota
