#include <algorithm>
#include <cmath>

#include "common/simd.h"
#include "optim/moments.h"
#include "optim/rules.h"

namespace flota {
namespace {

F8 load(const float* from, size_t count) { return count == kLanes ? F8::load(from) : F8::load_first(from, count); }

void store(F8 value, float* to, size_t count) {
  if (count == kLanes) return value.store(to);
  value.store_first(to, count);
}

// Idle lanes hold 0/0 where epsilon is 0; a norm must not see them.
F8 first_lanes(F8 value, size_t count) {
  if (count == kLanes) return value;
  float lanes[kLanes];
  value.store(lanes);
  return F8::load_first(lanes, count);
}

// LAMB (You et al. 2020): an Adam step whose length is the weights' own. The norms are those of the whole row, so a
// parameter must not be cut. State: the average gradient, the average square.
class Lamb final : public Rule {
 public:
  explicit Lamb(const RuleSpec& spec) : spec_(spec) {}

  size_t state_slots() const override { return 2; }

  void init_state(std::span<float> state, size_t) const override { std::fill(state.begin(), state.end(), 0.0f); }

  void update(const Step& step, size_t dim, std::span<const RowView> rows, const float* gradients) const override {
    for (const RowView& row : rows) {
      const uint64_t t = spec_.steps == StepSource::kRow ? row.updates + 1 : std::max<uint64_t>(step.step, 1);
      const Direction direction(spec_, t);
      const double ratio = advance(direction, step, row, dim, gradients);
      move(direction, F8::all(-step.lr * ratio), row, dim);
      gradients += dim;
    }
  }

 private:
  // The bias-corrected Adam step plus decoupled decay, from averages that are already up to date.
  struct Direction {
    F8 correction1;
    F8 correction2_root;
    F8 epsilon;
    F8 weight_decay;

    Direction(const RuleSpec& spec, uint64_t t)
        : correction1(F8::all(1 / (1 - std::pow(spec.beta1, static_cast<double>(t))))),
          correction2_root(F8::all(1 / std::sqrt(1 - std::pow(spec.beta2, static_cast<double>(t))))),
          epsilon(F8::all(spec.epsilon)),
          weight_decay(F8::all(spec.weight_decay)) {}
    F8 operator()(F8 w, F8 average, F8 square) const {
      return fma(w, weight_decay, (average * correction1) / fma(sqrt(square), correction2_root, epsilon));
    }
  };

  // Brings the averages up to date and gives the trust ratio. The direction is computed again by move(), which costs
  // less than memory for it would.
  double advance(const Direction& direction, const Step& step, const RowView& row, size_t dim, const float* g) const {
    const F8 scale = F8::all(step.scale);
    const Lerp average(spec_.beta1);
    const SquareAverage square_average(spec_.beta2);
    SquareSum weight_norm, direction_norm;
    for (size_t i = 0; i < dim; i += kLanes) {
      const size_t count = std::min(kLanes, dim - i);
      const F8 w = load(row.weights + i, count);
      const F8 gradient = load(g + i, count) * scale;
      const F8 m = average(load(row.state + i, count), gradient);
      const F8 v = square_average(load(row.state + dim + i, count), gradient);
      store(m, row.state + i, count);
      store(v, row.state + dim + i, count);
      weight_norm.add(w);
      direction_norm.add(first_lanes(direction(w, m, v), count));
    }
    const double of_weights = std::sqrt(weight_norm.total()), of_direction = std::sqrt(direction_norm.total());
    return of_weights > 0 && of_direction > 0 ? of_weights / of_direction : 1;
  }

  static void move(const Direction& direction, F8 minus_rate, const RowView& row, size_t dim) {
    for (size_t i = 0; i < dim; i += kLanes) {
      const size_t count = std::min(kLanes, dim - i);
      const F8 w = load(row.weights + i, count);
      const F8 m = load(row.state + i, count);
      const F8 v = load(row.state + dim + i, count);
      store(fma(direction(w, m, v), minus_rate, w), row.weights + i, count);
    }
  }

  const RuleSpec spec_;
};

}  // namespace

std::unique_ptr<const Rule> make_lamb(const RuleSpec& spec) { return std::make_unique<Lamb>(spec); }

}  // namespace flota
