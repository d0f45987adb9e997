#pragma once

#include <boost/unordered/unordered_flat_set.hpp>
#include <span>
#include <vector>

#include "table/sparse_table.h"

namespace flota {

// A worker's own copy of some rows of a table that servers hold, for Geo mode: the worker trains it with its own rule,
// and now and then asks how far the rows have moved. Thread safety: one thread at a time, but missing() and fill() may
// run beside pulls.
class Replica {
 public:
  // Requires: spec passed validate() and is sparse.
  explicit Replica(const TableSpec& spec) : table_(spec) {}

  SparseTable& table() { return table_; }

  // The keys that this copy has no row of. Requires: no key stands twice.
  std::vector<Key> missing(std::span<const Key> keys) { return table_.missing(keys); }

  // The keys' rows are these now, as servers have them; the rule's state stays.
  void fill(std::span<const Key> keys, const float* rows);

  // Rows that are about to change: what they are now is remembered until take_moves(). Requires: they are there.
  void touch(std::span<const Key> keys);

  struct Moves {
    std::vector<Key> keys;      // touched since the last call
    std::vector<float> values;  // how far each has moved: dim() floats
  };
  Moves take_moves();

 private:
  SparseTable table_;
  boost::unordered_flat_set<Key> touched_;
  Moves before_;  // the touched rows' values when they were touched first
};

}  // namespace flota
