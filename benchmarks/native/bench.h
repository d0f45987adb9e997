#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

// What the native benchmarks share: clocks, keys, and rounds in which the candidates take turns, so that a machine that
// slows down slows all of them.
namespace bench {

inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Ranks 0 .. count-1, drawn uniformly or by Zipf's law with this exponent.
class Ranks {
 public:
  Ranks(size_t count, double exponent) : count_(count) {
    if (exponent == 0) return;
    cumulative_.resize(count);
    double sum = 0;
    for (size_t i = 0; i < count; ++i) cumulative_[i] = sum += std::pow(static_cast<double>(i + 1), -exponent);
  }
  uint32_t operator()(std::mt19937_64& random) const {
    if (cumulative_.empty()) return static_cast<uint32_t>(random() % count_);
    double at = std::uniform_real_distribution<double>(0, cumulative_.back())(random);
    return static_cast<uint32_t>(std::lower_bound(cumulative_.begin(), cumulative_.end(), at) - cumulative_.begin());
  }

 private:
  size_t count_;
  std::vector<double> cumulative_;
};

// Runs every candidate's `body(batch)` over all batches in small portions, the candidates taking turns; the best
// portion of each counts. Returns seconds a batch, in the candidates' order.
template <class Candidates>
std::vector<double> best_of(int rounds, size_t batches, const Candidates& candidates) {
  const size_t portion = std::max<size_t>(1, batches / 4);
  std::vector<double> best(candidates.size(), 1e9);
  for (int round = 0; round < rounds; ++round) {
    for (size_t first = 0; first + portion <= batches; first += portion) {
      for (size_t i = 0; i < candidates.size(); ++i) {
        double start = now();
        for (size_t batch = first; batch < first + portion; ++batch) candidates[i](batch);
        best[i] = std::min(best[i], (now() - start) / static_cast<double>(portion));
      }
    }
  }
  return best;
}

}  // namespace bench
