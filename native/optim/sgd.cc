#include "optim/elementwise.h"
#include "optim/rules.h"

namespace flota {
namespace {

struct Sgd {
  static constexpr size_t kSlots = 0;
  struct Update;

  RuleSpec spec;

  explicit Sgd(const RuleSpec& given) : spec(given) {}
  bool per_row() const { return false; }
  double first_state(size_t) const { return 0; }
};

struct Sgd::Update {
  ScaledGradient scaled;
  F8 minus_lr;

  Update(const Sgd& rule, const Step& step) : scaled(step, rule.spec.weight_decay), minus_lr(F8::all(-step.lr)) {}
  void at(uint64_t) {}
  void apply(F8& w, std::array<F8, kSlots>&, F8 gradient) const { w = fma(scaled(gradient, w), minus_lr, w); }
};

// State: the momentum buffer.
template <bool kNesterov>
struct Momentum {
  static constexpr size_t kSlots = 1;
  struct Update;

  RuleSpec spec;

  explicit Momentum(const RuleSpec& given) : spec(given) {}
  // A row's first gradient fills its buffer undampened, whatever counts the steps.
  bool per_row() const { return true; }
  double first_state(size_t) const { return 0; }
};

template <bool kNesterov>
struct Momentum<kNesterov>::Update {
  ScaledGradient scaled;
  F8 minus_lr;
  F8 momentum;
  F8 undampened;
  F8 kept;   // of the buffer
  F8 added;  // of the gradient

  Update(const Momentum& rule, const Step& step)
      : scaled(step, rule.spec.weight_decay),
        minus_lr(F8::all(-step.lr)),
        momentum(F8::all(rule.spec.momentum)),
        undampened(F8::all(1 - rule.spec.dampening)),
        kept(momentum),
        added(undampened) {}
  void at(uint64_t t) {
    const bool first = t == 1;
    kept = first ? F8::all(0) : momentum;
    added = first ? F8::all(1) : undampened;
  }
  void apply(F8& w, std::array<F8, kSlots>& s, F8 gradient) const {
    const F8 g = scaled(gradient, w);
    s[0] = fma(g, added, s[0] * kept);
    w = fma(kNesterov ? fma(s[0], momentum, g) : s[0], minus_lr, w);
  }
};

}  // namespace

std::unique_ptr<const Rule> make_sgd(const RuleSpec& spec) { return std::make_unique<Elementwise<Sgd>>(spec); }

std::unique_ptr<const Rule> make_momentum(const RuleSpec& spec) {
  if (spec.nesterov) return std::make_unique<Elementwise<Momentum<true>>>(spec);
  return std::make_unique<Elementwise<Momentum<false>>>(spec);
}

}  // namespace flota
