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

// How an array's rows are asked for ahead of their use: into the first-level cache, a few at a time, or into the
// second, which can wait for more. The first is what the project's limits were measured with; for an update the table
// is held against the faster.
template <int kLevel>
void prefetch_row(const float* row, size_t bytes) {
  for (size_t at = 0; at < bytes; at += 64) {
    __builtin_prefetch(reinterpret_cast<const std::byte*>(row) + at, 0, kLevel == 1 ? 3 : 2);
  }
}

template <int kLevel>
void gather(const PlainRows& rows, std::span<const uint32_t> numbers, size_t dim, float* out) {
  const size_t lines = (dim * sizeof(float) + 63) / 64;
  const size_t ahead = std::max<size_t>(2, (kLevel == 1 ? 24 : 64) / lines);
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (i + ahead < numbers.size()) prefetch_row<kLevel>(rows.row(numbers[i + ahead]), dim * sizeof(float));
    copy_floats(out + i * dim, rows.row(numbers[i]), dim);
  }
}

template <int kLevel>
void update(const Rule& rule, const PlainRows& rows, std::span<const uint32_t> numbers, size_t dim,
            const float* gradients) {
  constexpr size_t kGroup = kLevel == 1 ? 16 : 64;
  RowView views[kGroup];
  auto ask = [&](size_t first) {
    const size_t end = std::min(numbers.size(), first + kGroup);
    for (size_t j = first; j < end; ++j) prefetch_row<kLevel>(rows.row(numbers[j]), rows.stride * sizeof(float));
  };
  ask(0);
  for (size_t i = 0; i < numbers.size(); i += kGroup) {
    ask(i + kGroup);
    const size_t count = std::min(kGroup, numbers.size() - i);
    for (size_t j = 0; j < count; ++j) views[j] = {rows.row(numbers[i + j]), rows.row(numbers[i + j]) + dim, 1};
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
      // Readers among themselves and writers among themselves: a reader would otherwise pay for writing back what the
      // writer before it left in the caches.
      std::vector<std::function<void(size_t)>> readers = {
          [&](size_t b) { gather<1>(plain, data->numbers[b], dim, out.data()); },
          [&](size_t b) { gather<2>(plain, data->numbers[b], dim, out.data()); },
          [&](size_t b) { table.pull(data->keys[b], out, Missing::kCreate); },
      };
      std::vector<std::function<void(size_t)>> writers = {
          [&](size_t b) { update<1>(*rule, plain, data->numbers[b], dim, gradients.data()); },
          [&](size_t b) { update<2>(*rule, plain, data->numbers[b], dim, gradients.data()); },
          [&](size_t b) { table.push(PushKind::kGradient, Step{0.01f, 1, 1}, data->keys[b], gradients.data()); },
      };
      auto read_seconds = bench::best_of(5, batches, readers);
      auto write_seconds = bench::best_of(5, batches, writers);
      const double pull = read_seconds[2];
      const double push = write_seconds[2];
      const double array_update = std::min(write_seconds[0], write_seconds[1]);
      auto rate = [&](double batch_seconds) { return static_cast<double>(batch) / batch_seconds / 1e6; };
      std::printf(
          "{\"rule\": \"%s\", \"pattern\": \"%s\", \"rows\": %zu, \"dim\": %u, \"batch\": %zu, \"array_gather\": %.1f, "
          "\"array_gather_l2\": %.1f, \"pull\": %.1f, \"array_update\": %.1f, \"push\": %.1f, \"pull_ratio\": %.3f, "
          "\"pull_ratio_l2\": %.3f, \"push_ratio\": %.3f}\n",
          item.name, pattern, rows, dim, batch, rate(read_seconds[0]), rate(read_seconds[1]), rate(pull),
          rate(array_update), rate(push), read_seconds[0] / pull, read_seconds[1] / pull, array_update / push);
      std::fflush(stdout);
    }
  }
  return 0;
}
