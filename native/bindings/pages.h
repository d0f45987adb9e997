#pragma once

#include <nanobind/nanobind.h>

#include <span>

#include "bindings/arrays.h"
#include "common/hash.h"
#include "wire/messages.h"

namespace flota {

template <class T>
nanobind::bytes column(std::span<const T> values) {
  return nanobind::bytes(values.data(), values.size_bytes());
}

// (keys, updates, last_seen, weights, state, dim, state_floats, next, done), the first five as bytes.
inline nanobind::tuple to_tuple(const Rows& rows) {
  return nanobind::make_tuple(column(rows.keys), column(rows.updates), column(rows.last_seen), column(rows.weights),
                              column(rows.state), rows.dim, rows.state_floats, rows.next, rows.done);
}

#define FLOTA_PAGE_TUPLE "tuple[bytes, bytes, bytes, bytes, bytes, int, int, int, bool]"

// Whole rows where Python has them.
inline Rows rows_at(uint64_t table, size_t count, uint32_t dim, uint32_t state_floats, uintptr_t keys,
                    uintptr_t updates, uintptr_t last_seen, uintptr_t weights, uintptr_t state,
                    RowsOf part = RowsOf::kTable) {
  Rows rows;
  rows.table = table;
  rows.dim = dim;
  rows.state_floats = state_floats;
  rows.keys = array_at<const Key>(keys, count);
  rows.updates = array_at<const uint64_t>(updates, count);
  rows.last_seen = array_at<const uint64_t>(last_seen, count);
  rows.weights = array_at<const float>(weights, count * dim);
  rows.state = array_at<const float>(state, count * state_floats);
  rows.part = part;
  return rows;
}

}  // namespace flota
