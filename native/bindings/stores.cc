#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "bindings/columns.h"
#include "bindings/errors.h"
#include "data/field_shuffle.h"
#include "data/store.h"

namespace nb = nanobind;
using Release = nb::call_guard<nb::gil_scoped_release>;

namespace flota {

void bind_stores(nb::module_& module) {
  nb::class_<SampleStore>(module, "SampleStore")
      .def(
          "__init__",
          [](SampleStore* self, std::shared_ptr<Layout> layout) { new (self) SampleStore(std::move(layout)); },
          nb::arg("layout"))
      .def(
          "append", [](SampleStore& self, const Samples& samples) { self.append(samples); }, Release(),
          nb::arg("samples"))
      .def("shuffle", &SampleStore::shuffle, Release(), nb::arg("seed"))
      .def(
          "shuffle_fields",
          [](SampleStore& self, const std::vector<std::tuple<uint32_t, uint32_t, uint32_t>>& parts, uint64_t seed) {
            std::vector<Part> checked;
            for (const auto& [field, position, width] : parts) {
              if (field >= self.layout().fields().size()) raise_error(invalid("there is no such field"));
              const Field& known = self.layout().fields()[field];
              if (!known.is_list() && uint64_t{position} + width > known.width) raise_error(invalid("out of a field"));
              checked.push_back({field, known.is_list() ? 0 : position, width});
            }
            nb::gil_scoped_release release;
            self = shuffle_fields(self, checked, seed);
          },
          nb::arg("parts"), nb::arg("seed"))
      .def("clear", &SampleStore::clear, Release())
      .def(
          "batch",
          [](const SampleStore& self, size_t begin, size_t count) {
            if (begin > self.size() || count > self.size() - begin) raise_error(invalid("there are no such samples"));
            std::vector<Column> columns = [&] {
              nb::gil_scoped_release release;
              const std::vector<const std::byte*> rows = self.rows(begin, count);
              return gather(self.layout(), rows);
            }();
            return to_arrays(std::move(columns));
          },
          nb::arg("begin"), nb::arg("count"),
          nb::sig("def batch(self, begin: int, count: int) -> " FLOTA_BATCH_COLUMNS))
      // Nothing changes a layout once it is made.
      .def_prop_ro("layout",
                   [](const SampleStore& self) { return std::const_pointer_cast<Layout>(self.shared_layout()); })
      .def_prop_ro("bytes", &SampleStore::bytes)
      .def("__len__", &SampleStore::size);

  nb::class_<GlobalShuffle>(module, "GlobalShuffle")
      .def_static(
          "make",
          [](SampleStore& source, const std::vector<uint64_t>& counts, uint32_t rank, uint64_t seed) {
            return take(GlobalShuffle::make(source, counts, rank, seed));
          },
          nb::arg("source"), nb::arg("counts"), nb::arg("rank"), nb::arg("seed"))
      .def(
          "next",
          [](GlobalShuffle& self, size_t letter_bytes) {
            auto letters = take([&] {
              nb::gil_scoped_release release;
              return self.next(letter_bytes);
            }());
            nb::list list;
            for (const GlobalShuffle::Letter& letter : letters) {
              list.append(nb::make_tuple(letter.to, nb::bytes(letter.bytes.data(), letter.bytes.size())));
            }
            return list;
          },
          nb::arg("letter_bytes"), nb::sig("def next(self, letter_bytes: int) -> list[tuple[int, bytes]]"))
      .def(
          "receive",
          [](GlobalShuffle& self, nb::bytes letter) {
            check([&] {
              nb::gil_scoped_release release;
              return self.receive({static_cast<const std::byte*>(letter.data()), letter.size()});
            }());
          },
          nb::arg("letter"))
      .def(
          "finish",
          [](GlobalShuffle& self, SampleStore& out) {
            check([&] {
              nb::gil_scoped_release release;
              return self.finish(out);
            }());
          },
          nb::arg("out"));
}

}  // namespace flota
