// The table in this process against the same work on a plain array: no hashing, row numbers known, prefetched, SIMD.
// Usage: table_bench ROWS DIM BATCH. Prints one JSON object a line and pattern.
#include <cstdlib>
#include <functional>
#include <memory>
#include <span>

#include "bench.h"
#include "common/hash.h"
#include "common/row_copy.h"
#include "optim/rule.h"
#include "table/pages.h"
#include "table/sparse_table.h"

namespace {

using namespace flota;

TableSpec spec_of(RuleKind kind, uint32_t dim) {
  TableSpec spec;
  spec.name = "bench";
  spec.dim = dim;
  spec.init = {InitKind::kUniform, -0.01, 0.01, 0, 0};
  spec.rule.kind = kind;
  if (kind == RuleKind::kAdagrad) spec.rule.epsilon = 1e-10;
  if (kind == RuleKind::kAdam) {
    spec.rule.beta1 = 0.9;
    spec.rule.beta2 = 0.999;
    spec.rule.epsilon = 1e-8;
  }
  return spec;
}

// Rows of [weights | state], one after another: what the table's arena is, without its index.
struct PlainRows {
  PlainRows(size_t rows, size_t dim, size_t slots)
      : stride(dim * (1 + slots)), pages((rows + 1) * stride * sizeof(float)) {
    auto* values = reinterpret_cast<float*>(pages.data());
    for (size_t i = 0; i < (rows + 1) * stride; ++i) values[i] = 0.01f;
  }
  float* row(size_t number) const { return reinterpret_cast<float*>(pages.data()) + number * stride; }
  size_t stride;
  Pages pages;
};

// One row after another, each asked for so many rows ahead that as many cache lines are in flight as one core can have.
void gather(const PlainRows& rows, std::span<const uint32_t> numbers, size_t dim, float* out) {
  const size_t lines = (dim * sizeof(float) + 63) / 64;
  const size_t ahead = std::clamp<size_t>(24 / lines, 2, 24);
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (i + ahead < numbers.size()) {
      const auto* row = reinterpret_cast<const std::byte*>(rows.row(numbers[i + ahead]));
      for (size_t line = 0; line < lines; ++line) __builtin_prefetch(row + line * 64);
    }
    copy_floats(out + i * dim, rows.row(numbers[i]), dim);
  }
}

// The rule itself on groups of rows, fetched in the two ways there are; which is faster depends on the row's size.
enum class Fetch { kPrefetch, kLoad };

void update(Fetch fetch, const Rule& rule, const PlainRows& rows, std::span<const uint32_t> numbers, size_t dim,
            const float* gradients) {
  const size_t group = fetch == Fetch::kPrefetch ? 16 : 64;
  RowView views[64];
  for (size_t i = 0; i < numbers.size(); i += group) {
    const size_t count = std::min(group, numbers.size() - i);
    const size_t next = std::min(numbers.size(), i + count + group);
    for (size_t j = i + count; fetch == Fetch::kPrefetch && j < next; ++j) {
      for (size_t k = 0; k < rows.stride; k += 16) __builtin_prefetch(rows.row(numbers[j]) + k);
    }
    for (size_t j = 0; j < count; ++j) {
      float* row = rows.row(numbers[i + j]);
      for (size_t k = 0; fetch == Fetch::kLoad && k < rows.stride; k += 16) {
        asm volatile("" ::"r"(*reinterpret_cast<const uint32_t*>(row + k)));
      }
      views[j] = {row, row + dim, 1};
    }
    rule.update(Step{0.01f, 1.0f, 1}, dim, {views, count}, gradients + i * dim);
  }
}

struct Batches {
  std::vector<std::vector<uint32_t>> numbers;
  std::vector<std::vector<Key>> keys;  // of the same rows, in the order in which a client sends them: by shard
};

Batches make_batches(const std::vector<Key>& all, double exponent, size_t count, size_t size) {
  std::mt19937_64 random(7);
  bench::Ranks ranks(all.size(), exponent);
  Batches batches;
  for (size_t b = 0; b < count; ++b) {
    std::vector<uint32_t> numbers(size);
    for (auto& number : numbers) number = ranks(random);
    std::vector<Key> keys;
    for (uint32_t number : numbers) keys.push_back(all[number]);
    std::stable_sort(keys.begin(), keys.end(), [](Key a, Key b2) { return shard_of(a) < shard_of(b2); });
    batches.numbers.push_back(std::move(numbers));
    batches.keys.push_back(std::move(keys));
  }
  return batches;
}

void fill(SparseTable& table, const std::vector<Key>& keys, size_t dim) {
  constexpr size_t kPortion = 65536;
  std::vector<float> out(kPortion * dim);
  for (size_t i = 0; i < keys.size(); i += kPortion) {
    std::vector<Key> part(keys.begin() + i, keys.begin() + std::min(keys.size(), i + kPortion));
    std::sort(part.begin(), part.end(), [](Key a, Key b) { return hash_key(a) < hash_key(b); });
    table.pull(part, {out.data(), part.size() * dim}, Missing::kCreate);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const size_t rows = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 10'000'000;
  const auto dim = static_cast<uint32_t>(argc > 2 ? std::atoi(argv[2]) : 16);
  const size_t batch = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 13312;
  // Enough different batches that none finds its rows in a cache from the last time.
  const size_t batches = std::max<size_t>(8, 4'000'000 / batch);

  std::vector<Key> keys(rows);
  std::mt19937_64 random(1);
  for (Key& key : keys) key = random();
  std::vector<float> gradients(batch * dim, 0.001f);
  std::vector<float> out(batch * dim);
  auto uniform = make_batches(keys, 0, batches, batch);
  auto zipf = make_batches(keys, 1.05, batches, batch);

  struct Case {
    const char* name;
    RuleKind kind;
  };
  for (const Case& item : {Case{"sgd", RuleKind::kSgd}, {"adagrad", RuleKind::kAdagrad}, {"adam", RuleKind::kAdam}}) {
    const TableSpec spec = spec_of(item.kind, dim);
    auto rule = Rule::make(spec.rule);
    SparseTable table(spec);
    fill(table, keys, dim);
    PlainRows plain(rows, dim, rule->state_slots());
    for (const auto& [pattern, data] : {std::pair{"uniform", &uniform}, {"zipf", &zipf}}) {
      std::vector<std::function<void(size_t)>> candidates = {
          [&](size_t b) { gather(plain, data->numbers[b], dim, out.data()); },
          [&](size_t b) { table.pull(data->keys[b], out, Missing::kCreate); },
          [&](size_t b) { table.push(PushKind::kGradient, Step{0.01f, 1, 1}, data->keys[b], gradients.data()); },
          [&](size_t b) { update(Fetch::kPrefetch, *rule, plain, data->numbers[b], dim, gradients.data()); },
          [&](size_t b) { update(Fetch::kLoad, *rule, plain, data->numbers[b], dim, gradients.data()); },
      };
      auto seconds = bench::best_of(5, batches, candidates);
      const double array_update = std::min(seconds[3], seconds[4]);
      auto rate = [&](double batch_seconds) { return static_cast<double>(batch) / batch_seconds / 1e6; };
      std::printf(
          "{\"rule\": \"%s\", \"pattern\": \"%s\", \"rows\": %zu, \"dim\": %u, \"batch\": %zu, \"array_gather\": %.1f, "
          "\"pull\": %.1f, \"array_update\": %.1f, \"push\": %.1f, \"pull_ratio\": %.3f, \"push_ratio\": %.3f}\n",
          item.name, pattern, rows, dim, batch, rate(seconds[0]), rate(seconds[1]), rate(array_update),
          rate(seconds[2]), seconds[0] / seconds[1], array_update / seconds[2]);
      std::fflush(stdout);
    }
  }
  return 0;
}
