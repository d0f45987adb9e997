#pragma once

#include <algorithm>
#include <boost/unordered/unordered_flat_set.hpp>
#include <span>
#include <vector>

#include "common/router.h"
#include "common/spec.h"

namespace flota {

// The keys of one training batch, made ready once for the pull of their rows and the push of their gradients: each
// distinct key has one row, in the order of keys(). Thread safety: one thread at a time.
class Batch {
 public:
  explicit Batch(const ShardMap& map) : router_(map), versions_(map.servers, kNoVersion) {}

  // Requires: places.size() == keys.size(). They are the places of the keys' rows.
  void route(std::span<const Key> keys, std::span<uint32_t> places) {
    router_.route(keys, places);
    versions_.assign(versions_.size(), kNoVersion);
    shows_.clear();
    clicks_.clear();
  }

  // For tables that admit keys by what is seen of them: each of the caller's keys appeared so often (null: once), and
  // so often with a click (null: never). Places after the last row's are padding. Adds to what was counted before.
  void count(std::span<const uint32_t> places, const float* shows, const float* clicks) {
    shows_.resize(keys().size());
    clicks_.resize(keys().size());
    for (size_t i = 0; i < places.size(); ++i) {
      if (places[i] >= shows_.size()) continue;
      shows_[places[i]] += shows == nullptr ? 1.0f : shows[i];
      clicks_[places[i]] += clicks == nullptr ? 0.0f : clicks[i];
    }
  }
  // Adds what was counted of another batch; `places` are those of its rows in this one.
  void add_counts(const Batch& other, std::span<const uint32_t> places) {
    if (!other.shows_.empty()) count(places, other.shows_.data(), other.clicks_.data());
  }
  // Whether servers would take them: beyond that, floats no longer count one by one.
  bool counts_fit() const {
    const auto fits = [](float value) { return value >= 0 && value <= static_cast<float>(kMaxCount); };
    return std::all_of(shows_.begin(), shows_.end(), fits) && std::all_of(clicks_.begin(), clicks_.end(), fits);
  }
  // Of each row, or none where nothing was counted.
  std::span<const float> shows() const { return shows_; }
  std::span<const float> clicks() const { return clicks_; }

  std::span<const Key> keys() const { return router_.distinct(); }
  // Places of the batch's rows whose keys are among `others`.
  std::vector<uint32_t> common(std::span<const Key> others) const {
    const boost::unordered_flat_set<Key> wanted(others.begin(), others.end());
    std::vector<uint32_t> found;
    for (size_t i = 0; i < keys().size(); ++i) {
      if (wanted.contains(keys()[i])) found.push_back(static_cast<uint32_t>(i));
    }
    return found;
  }
  const Router& router() const { return router_; }

  // What the table's version was on each server when the rows were pulled: how stale gradients are is counted from it.
  static constexpr uint64_t kNoVersion = ~uint64_t{0};
  std::span<uint64_t> versions() { return versions_; }
  // Where gradients of several batches are pushed as one, its gradients are as old as the oldest of them. Requires:
  // batches of the same client.
  void lower_versions(const Batch& other) {
    for (size_t i = 0; i < versions_.size(); ++i) versions_[i] = std::min(versions_[i], other.versions_[i]);
  }

 private:
  Router router_;
  std::vector<uint64_t> versions_;
  std::vector<float> shows_;
  std::vector<float> clicks_;
};

}  // namespace flota
