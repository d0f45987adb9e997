// What a pulled row costs as a table grows, beside a gather from a plain array of as many rows: the difference between
// the two curves is the table's, the common part the caches'. Usage: growth_bench MILLIONS... Prints a JSON line each.
#include <cstdlib>
#include <functional>
#include <span>

#include "bench.h"
#include "common/hash.h"
#include "common/row_copy.h"
#include "table/pages.h"
#include "table/sparse_table.h"

namespace {

using namespace flota;

constexpr uint32_t kDim = 16;
constexpr size_t kBatch = 13312;
constexpr size_t kBatches = 128;

// Keys are hashes of their numbers: no list of a hundred million is needed to draw from them.
Key key_of(uint64_t number) { return hash_key(number ^ 0x5bd1e995u); }

}  // namespace

int main(int argc, char** argv) {
  TableSpec spec;
  spec.name = "growth";
  spec.dim = kDim;
  spec.rule.kind = RuleKind::kSgd;
  spec.init = {InitKind::kUniform, -0.01, 0.01, 0, 0};
  SparseTable table(spec);
  std::vector<float> out(kBatch * kDim);
  size_t rows = 0;
  double longest_pause = 0;
  for (int argument = 1; argument < argc; ++argument) {
    const size_t wanted = std::strtoull(argv[argument], nullptr, 10) * 1'000'000;
    double filling = bench::now();
    while (rows < wanted) {
      std::vector<Key> keys(std::min(kBatch, wanted - rows));
      for (Key& key : keys) key = key_of(rows++);
      std::sort(keys.begin(), keys.end(), [](Key a, Key b) { return shard_of(a) < shard_of(b); });
      double start = bench::now();
      table.pull(keys, {out.data(), keys.size() * kDim}, Missing::kCreate);
      longest_pause = std::max(longest_pause, bench::now() - start);
    }
    filling = bench::now() - filling;

    Pages array((rows + 1) * kDim * sizeof(float));
    auto* values = reinterpret_cast<float*>(array.data());
    for (size_t i = 0; i < rows * kDim; ++i) values[i] = 0.01f;
    std::mt19937_64 random(3);
    std::vector<std::vector<uint64_t>> numbers(kBatches, std::vector<uint64_t>(kBatch));
    std::vector<std::vector<Key>> keys(kBatches);
    for (size_t b = 0; b < kBatches; ++b) {
      for (uint64_t& number : numbers[b]) {
        number = random() % rows;
        keys[b].push_back(key_of(number));
      }
      std::sort(keys[b].begin(), keys[b].end(), [](Key a, Key c) { return shard_of(a) < shard_of(c); });
    }
    std::vector<std::function<void(size_t)>> candidates = {
        [&](size_t b) {
          for (size_t i = 0; i < kBatch; ++i) {
            if (i + 24 < kBatch) __builtin_prefetch(values + numbers[b][i + 24] * kDim);
            copy_floats(out.data() + i * kDim, values + numbers[b][i] * kDim, kDim);
          }
        },
        [&](size_t b) { table.pull(keys[b], out, Missing::kCreate); },
    };
    auto seconds = bench::best_of(4, kBatches, candidates);
    std::printf(
        "{\"rows\": %zu, \"array_ns\": %.2f, \"pull_ns\": %.2f, \"ratio\": %.3f, \"bytes_a_row\": %.1f, "
        "\"fill_seconds\": %.1f, \"longest_batch_ms\": %.2f}\n",
        rows, seconds[0] / kBatch * 1e9, seconds[1] / kBatch * 1e9, seconds[1] / seconds[0],
        static_cast<double>(table.bytes()) / static_cast<double>(rows), filling, longest_pause * 1e3);
    std::fflush(stdout);
  }
  return 0;
}
