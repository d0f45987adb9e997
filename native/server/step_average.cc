#include "server/step_average.h"

#include <map>

#include "common/router.h"
#include "server/counters.h"

namespace flota {
namespace {

struct Part {
  float factor;
  const HeldPush* push;
};

void add(float* sum, const float* values, size_t count, float factor) {
  for (size_t i = 0; i < count; ++i) sum[i] += factor * values[i];
}

// What the pushes tell of the router's keys, summed; `untold` of each key of a push that tells nothing.
std::vector<float> sum_told(const Router& router, const std::vector<Part>& parts, std::vector<float> HeldPush::* column,
                            float untold) {
  std::vector<float> sums(router.distinct().size());
  size_t at = 0;
  for (const Part& part : parts) {
    const std::vector<float>& told = part.push->*column;
    for (size_t i = 0; i < part.push->keys.size(); ++i) sums[router.place()[at++]] += told.empty() ? untold : told[i];
  }
  return sums;
}

std::vector<Key> apply_rows(HostedTable& table, const std::vector<Part>& parts, const Step& step) {
  std::vector<Key> keys;
  for (const Part& part : parts) keys.insert(keys.end(), part.push->keys.begin(), part.push->keys.end());
  // By shard, as the table likes its keys.
  thread_local Router router(ShardMap::even(1));
  router.route(keys);
  const size_t dim = table.spec.dim;
  std::vector<float> sums(router.distinct().size() * dim);
  size_t at = 0;
  for (const Part& part : parts) {
    for (size_t i = 0; i < part.push->keys.size(); ++i) {
      add(sums.data() + size_t{router.place()[at++]} * dim, part.push->values.data() + i * dim, dim, part.factor);
    }
  }
  std::vector<float> shows, clicks;
  if (table.spec.admission.kind != AdmissionKind::kAll) {
    shows = sum_told(router, parts, &HeldPush::shows, 1.0f);
    clicks = sum_told(router, parts, &HeldPush::clicks, 0.0f);
  }
  table.sparse->push(PushKind::kGradient, step, router.distinct(), sums.data(),
                     {shows.data(), clicks.data(), hash_key(step.step)});
  Counters::add(table.rows_pushed, router.distinct().size());
  return {router.distinct().begin(), router.distinct().end()};
}

void apply_blocks(HostedTable& table, const std::vector<Part>& parts, const Step& step) {
  std::map<size_t, std::vector<float>> sums;
  for (const Part& part : parts) {
    size_t at = 0;
    for (size_t place : part.push->places) {
      const size_t length = table.dense->block(place).length;
      auto& sum = sums[place];
      sum.resize(length);
      add(sum.data(), part.push->values.data() + at, length, part.factor);
      at += length;
    }
  }
  for (const auto& [place, sum] : sums) table.dense->push(PushKind::kGradient, step, place, sum);
  Counters::add(table.rows_pushed, sums.size());
}

}  // namespace

std::vector<ChangedRows> apply_average(std::span<const Share> shares, uint64_t step) {
  std::map<uint64_t, std::vector<Part>> tables;
  for (const Share& share : shares) {
    for (const HeldPush& push : share.pushes) {
      tables[Registry::id_of(push.table->spec.name)].push_back(
          {static_cast<float>(share.weight * static_cast<double>(push.scale)), &push});
    }
  }
  std::vector<ChangedRows> changed;
  for (const auto& [id, parts] : tables) {
    HostedTable& table = *parts.front().push->table;
    const Step applied{parts.front().push->lr, 1.0f, step};
    if (table.sparse) {
      changed.push_back({id, apply_rows(table, parts, applied)});
    } else {
      apply_blocks(table, parts, applied);
    }
    // Released, as in count_push().
    table.pushes.fetch_add(1, std::memory_order_release);
  }
  return changed;
}

}  // namespace flota
