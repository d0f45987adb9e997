#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings/arrays.h"
#include "bindings/errors.h"
#include "bindings/pages.h"
#include "client/batch.h"
#include "table/dense_table.h"
#include "table/replica.h"
#include "table/sparse_table.h"

namespace nb = nanobind;
using Release = nb::call_guard<nb::gil_scoped_release>;

namespace flota {
namespace {

// Keys that are found without the interpreter, as bytes.
template <class Find>
nb::bytes key_bytes(Find find) {
  const std::vector<Key> keys = [&] {
    nb::gil_scoped_release release;
    return find();
  }();
  return nb::bytes(keys.data(), keys.size() * sizeof(Key));
}

void bind_replica(nb::module_& module) {
  nb::class_<Replica>(module, "Replica")
      .def("__init__",
           [](Replica* self, const TableSpec& spec) {
             check(validate(spec));
             if (spec.kind != TableKind::kSparse) raise_error(invalid("a replica needs a sparse spec"));
             new (self) Replica(spec);
           })
      .def_prop_ro("table", &Replica::table, nb::rv_policy::reference_internal)
      .def(
          "missing",
          [](Replica& self, uintptr_t keys, size_t count) {
            return key_bytes([&] { return self.missing(array_at<const Key>(keys, count)); });
          },
          nb::arg("keys"), nb::arg("count"), nb::sig("def missing(self, keys: int, count: int) -> bytes"))
      .def(
          "fill",
          [](Replica& self, uintptr_t keys, size_t count, uintptr_t rows) {
            self.fill(array_at<const Key>(keys, count), reinterpret_cast<const float*>(rows));
          },
          Release(), nb::arg("keys"), nb::arg("count"), nb::arg("rows"))
      .def(
          "touch", [](Replica& self, const Batch& batch) { self.touch(batch.keys()); }, Release(), nb::arg("batch"))
      .def(
          "take_moves",
          [](Replica& self) {
            const Replica::Moves moves = [&] {
              nb::gil_scoped_release release;
              return self.take_moves();
            }();
            return nb::make_tuple(nb::bytes(moves.keys.data(), moves.keys.size() * sizeof(Key)),
                                  nb::bytes(moves.values.data(), moves.values.size() * sizeof(float)));
          },
          nb::sig("def take_moves(self) -> tuple[bytes, bytes]"));
}

}  // namespace

void bind_tables(nb::module_& module) {
  nb::enum_<RowsOf>(module, "RowsOf")
      .value("table", RowsOf::kTable)
      .value("waiting", RowsOf::kWaiting)
      .value("removed", RowsOf::kRemoved);
  nb::class_<SparseTable>(module, "SparseTable")
      .def("__init__",
           [](SparseTable* self, const TableSpec& spec) {
             check(validate(spec));
             if (spec.kind != TableKind::kSparse) raise_error(invalid("a sparse table needs a sparse spec"));
             new (self) SparseTable(spec);
           })
      .def(
          "pull",
          [](SparseTable& self, uintptr_t keys, size_t count, uintptr_t out, bool create) {
            self.pull(array_at<const Key>(keys, count), array_at<float>(out, count * self.dim()),
                      create ? Missing::kCreate : Missing::kInitial);
          },
          Release(), nb::arg("keys"), nb::arg("count"), nb::arg("out"), nb::arg("create"))
      .def(
          "push",
          [](SparseTable& self, uintptr_t keys, size_t count, uintptr_t values, PushKind kind, float lr, float scale,
             uint64_t step) {
            self.push(kind, Step{lr, scale, step}, array_at<const Key>(keys, count),
                      reinterpret_cast<const float*>(values), {nullptr, nullptr, hash_key(step)});
          },
          Release(), nb::arg("keys"), nb::arg("count"), nb::arg("values"), nb::arg("kind"), nb::arg("lr"),
          nb::arg("scale"), nb::arg("step"))
      .def(
          "pull_batch",
          [](SparseTable& self, const Batch& batch, uintptr_t out, bool create) {
            self.pull(batch.keys(), array_at<float>(out, batch.keys().size() * self.dim()),
                      create ? Missing::kCreate : Missing::kInitial);
          },
          Release(), nb::arg("batch"), nb::arg("out"), nb::arg("create"))
      .def(
          "push_batch",
          [](SparseTable& self, const Batch& batch, uintptr_t values, PushKind kind, float lr, float scale,
             uint64_t step) {
            if (!batch.counts_fit()) raise_error(invalid("a key was shown or clicked too often in one push"));
            self.push(kind, Step{lr, scale, step}, batch.keys(), reinterpret_cast<const float*>(values),
                      {batch.shows().data(), batch.clicks().data(), hash_key(step)});
          },
          Release(), nb::arg("batch"), nb::arg("values"), nb::arg("kind"), nb::arg("lr"), nb::arg("scale"),
          nb::arg("step"))
      .def(
          "missing",
          [](SparseTable& self, const Batch& batch) { return key_bytes([&] { return self.missing(batch.keys()); }); },
          nb::sig("def missing(self, batch: Batch) -> bytes"))
      .def(
          "export_pages",
          [](const SparseTable& self, const std::vector<std::pair<uint32_t, uint64_t>>& places, uint32_t max_rows,
             RowsOf part, uint64_t since) {
            nb::list tuples;
            for (const auto& [shard, cursor] : places) {
              if (shard >= kShards) raise_error(invalid("there are 1,024 shards, from 0 on"));
              const RowPage page = [&, shard = shard, cursor = cursor] {
                nb::gil_scoped_release release;
                if (part == RowsOf::kWaiting) return self.export_waiting(shard, cursor, max_rows);
                if (part == RowsOf::kRemoved) return self.export_removed(shard, cursor, max_rows, since);
                return self.export_shard(shard, cursor, max_rows, since);
              }();
              const auto dim = static_cast<uint32_t>(part == RowsOf::kTable     ? self.dim()
                                                     : part == RowsOf::kWaiting ? kScoreFloats
                                                                                : 0);
              const auto state_floats = static_cast<uint32_t>(part == RowsOf::kTable ? self.state_floats() : 0);
              tuples.append(to_tuple({0, page.next, page.done, dim, state_floats, page.keys, page.updates,
                                      page.last_seen, page.weights, page.state}));
            }
            return tuples;
          },
          nb::arg("places"), nb::arg("max_rows"), nb::arg("part") = RowsOf::kTable, nb::arg("since") = 0,
          nb::sig("def export_pages(self, places: list[tuple[int, int]], max_rows: int, part: RowsOf = ..., "
                  "since: int = 0) -> list[" FLOTA_PAGE_TUPLE "]"))
      .def(
          "import_rows",
          [](SparseTable& self, size_t count, uint32_t dim, uint32_t state_floats, uintptr_t keys, uintptr_t updates,
             uintptr_t last_seen, uintptr_t weights, uintptr_t state, RowsOf part) {
            const Rows rows = rows_at(0, count, dim, state_floats, keys, updates, last_seen, weights, state);
            if (part == RowsOf::kRemoved) {
              self.remove_rows(rows.keys);
              return;
            }
            const bool whole = part == RowsOf::kTable;
            if (dim != (whole ? self.dim() : kScoreFloats) || state_floats != (whole ? self.state_floats() : 0)) {
              raise_error(invalid("rows of " + std::to_string(dim) + " weights and " + std::to_string(state_floats) +
                                  " floats of state are not of this table's shape"));
            }
            RowPage page;
            page.keys.assign(rows.keys.begin(), rows.keys.end());
            page.updates.assign(rows.updates.begin(), rows.updates.end());
            page.last_seen.assign(rows.last_seen.begin(), rows.last_seen.end());
            page.weights.assign(rows.weights.begin(), rows.weights.end());
            page.state.assign(rows.state.begin(), rows.state.end());
            if (whole) {
              self.import_rows(page);
            } else {
              self.import_waiting(page);
            }
          },
          Release(), nb::arg("count"), nb::arg("dim"), nb::arg("state_floats"), nb::arg("keys"), nb::arg("updates"),
          nb::arg("last_seen"), nb::arg("weights"), nb::arg("state"), nb::arg("part") = RowsOf::kTable)
      .def("begin_era", &SparseTable::begin_era, Release(), nb::arg("era"))
      .def("keep_removed", &SparseTable::keep_removed, Release(), nb::arg("since"))
      .def(
          "shrink",
          [](SparseTable& self, uint64_t unseen_since, float decay, double min_score, double min_norm, bool all) {
            return self.shrink({unseen_since, decay, min_score, min_norm, all});
          },
          Release(), nb::arg("unseen_since"), nb::arg("decay"), nb::arg("min_score"), nb::arg("min_norm"),
          nb::arg("all"))
      .def_prop_ro("era", &SparseTable::era)
      .def_prop_ro("newest_step", &SparseTable::newest_step)
      .def_prop_ro("removed_since", &SparseTable::removed_since)
      .def_prop_ro("waiting", &SparseTable::waiting)
      .def_prop_ro("spec", &SparseTable::spec)
      .def_prop_ro("rows", &SparseTable::rows)
      .def_prop_ro("bytes", &SparseTable::bytes)
      .def_prop_ro("dim", &SparseTable::dim);

  bind_replica(module);

  nb::class_<DenseTable>(module, "DenseTable")
      .def("__init__",
           [](DenseTable* self, const TableSpec& spec) {
             check(validate(spec));
             if (spec.kind != TableKind::kDense) raise_error(invalid("a dense table needs a dense spec"));
             new (self) DenseTable(spec);
           })
      .def(
          "pull",
          [](const DenseTable& self, size_t block, uintptr_t out) {
            if (block >= self.block_count()) raise_error(invalid("there is no such block"));
            self.pull(block, array_at<float>(out, self.block(block).length));
          },
          Release(), nb::arg("block"), nb::arg("out"))
      .def(
          "push",
          [](DenseTable& self, size_t block, uintptr_t values, PushKind kind, float lr, float scale, uint64_t step) {
            if (block >= self.block_count()) raise_error(invalid("there is no such block"));
            self.push(kind, Step{lr, scale, step}, block, array_at<const float>(values, self.block(block).length));
          },
          Release(), nb::arg("block"), nb::arg("values"), nb::arg("kind"), nb::arg("lr"), nb::arg("scale"),
          nb::arg("step"))
      .def_prop_ro("bytes", &DenseTable::bytes);
}

}  // namespace flota
