#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "bindings/arrays.h"
#include "bindings/columns.h"
#include "bindings/errors.h"
#include "data/column_text.h"
#include "data/samples.h"
#include "data/slot_text.h"
#include "data/text.h"

namespace nb = nanobind;
using Release = nb::call_guard<nb::gil_scoped_release>;

namespace flota {
namespace {

template <class T>
nb::object owned_array(T* values, std::initializer_list<size_t> shape) {
  nb::capsule owner(values, [](void* memory) noexcept { delete[] static_cast<T*>(memory); });
  return nb::cast(nb::ndarray<nb::numpy, T>(values, shape, owner));
}

template <class T>
nb::object to_array(Column& column) {
  // Arrays of bytes, as they were made, are what they are deleted as.
  std::byte* memory = column.values.release();
  nb::capsule owner(memory, [](void* at) noexcept { delete[] static_cast<std::byte*>(at); });
  auto* values = reinterpret_cast<T*>(memory);
  if (!column.field.is_list()) {
    return nb::cast(nb::ndarray<nb::numpy, T>(values, {column.samples, column.field.width}, owner));
  }
  nb::object flat = nb::cast(nb::ndarray<nb::numpy, T>(values, {column.count}, owner));
  return nb::make_tuple(flat, owned_array(column.offsets.release(), {column.samples + 1}));
}

// (samples, lines, bad, [(line, what), …])
template <class Text>
nb::tuple parse(const Text& text, const std::shared_ptr<const Layout>& layout, nb::bytes bytes, size_t begin,
                size_t end, bool skip_bad) {
  if (begin > end || end > bytes.size()) raise_error(invalid("there is no such part of the text"));
  auto samples = std::make_shared<Samples>(layout);
  const Parsed parsed = [&] {
    nb::gil_scoped_release release;
    const std::string_view whole(static_cast<const char*>(bytes.data()) + begin, end - begin);
    return text.parse(whole, skip_bad ? BadLines::kSkip : BadLines::kStop, *samples);
  }();
  nb::list faults;
  for (const Fault& fault : parsed.faults) faults.append(nb::make_tuple(fault.line, nb::str(fault.what.c_str())));
  return nb::make_tuple(samples, parsed.lines, parsed.bad, faults);
}

#define FLOTA_PARSED "tuple[Samples, int, int, list[tuple[int, str]]]"

// A text parser together with the layout of what it makes.
template <class Text>
struct Parser {
  std::shared_ptr<const Layout> layout;
  Text text;
};

template <class Text>
void bind_parse(nb::class_<Parser<Text>>& bound) {
  bound.def(
      "parse",
      [](const Parser<Text>& self, nb::bytes text, size_t begin, size_t end, bool skip_bad) {
        return parse(self.text, self.layout, text, begin, end, skip_bad);
      },
      nb::arg("text"), nb::arg("begin"), nb::arg("end"), nb::arg("skip_bad"),
      nb::sig("def parse(self, text: bytes, begin: int, end: int, skip_bad: bool) -> " FLOTA_PARSED));
}

// Values of a field for some samples, at an address: a matrix, or a list's values with its offsets (one more than
// samples).
struct Source {
  uintptr_t values = 0;
  uintptr_t offsets = 0;
};

Samples from_columns(const std::shared_ptr<const Layout>& layout, size_t count, const std::vector<Source>& sources) {
  Samples samples(layout);
  const auto fields = layout->fields();
  for (size_t i = 0; i < count; ++i) {
    size_t tail = 0;
    for (uint32_t list : layout->lists()) {
      const auto* offsets = reinterpret_cast<const int64_t*>(sources[list].offsets);
      tail += (static_cast<size_t>(offsets[i + 1] - offsets[i]) * fields[list].element_bytes() + 7) / 8 * 8;
    }
    std::byte* row = samples.open(tail);
    std::byte* place = row + layout->fixed_bytes();
    for (size_t f = 0; f < fields.size(); ++f) {
      const auto* values = reinterpret_cast<const std::byte*>(sources[f].values);
      const size_t element = fields[f].element_bytes();
      if (!fields[f].is_list()) {
        const size_t bytes = fields[f].width * element;
        std::memcpy(row + layout->offset(f), values + i * bytes, bytes);
        continue;
      }
      const auto* offsets = reinterpret_cast<const int64_t*>(sources[f].offsets);
      const auto length = static_cast<uint32_t>(offsets[i + 1] - offsets[i]);
      std::memcpy(row + layout->offset(f), &length, sizeof length);
      std::memcpy(place, values + static_cast<size_t>(offsets[i]) * element, length * element);
      place += (length * element + 7) / 8 * 8;
    }
    samples.close(tail);
  }
  return samples;
}

void bind_samples(nb::module_& module) {
  nb::class_<Layout>(module, "Layout")
      .def(
          "__init__",
          [](Layout* self, const std::vector<std::pair<int, uint32_t>>& fields) {
            std::vector<Field> made;
            for (const auto& [kind, width] : fields) {
              if (kind < 0 || kind > 3) raise_error(invalid("there is no such kind of field"));
              made.push_back({static_cast<FieldKind>(kind), width});
            }
            new (self) Layout(take(Layout::make(std::move(made))));
          },
          nb::arg("fields"), nb::sig("def __init__(self, fields: Sequence[tuple[int, int]]) -> None"))
      .def_prop_ro("fixed_bytes", &Layout::fixed_bytes);

  nb::class_<Samples>(module, "Samples")
      .def_static(
          "from_columns",
          [](const std::shared_ptr<Layout>& layout, size_t count,
             const std::vector<std::pair<uintptr_t, uintptr_t>>& columns) {
            if (columns.size() != layout->fields().size()) raise_error(invalid("each field needs its column"));
            std::vector<Source> sources;
            for (const auto& [values, offsets] : columns) sources.push_back({values, offsets});
            nb::gil_scoped_release release;
            return std::make_shared<Samples>(from_columns(layout, count, sources));
          },
          nb::arg("layout"), nb::arg("count"), nb::arg("columns"))
      .def_prop_ro("bytes", &Samples::bytes)
      .def("__len__", &Samples::size);

  module.def(
      "gather_batch",
      [](const std::vector<std::tuple<std::shared_ptr<Samples>, size_t, size_t>>& parts) {
        if (parts.empty()) raise_error(invalid("a batch has samples"));
        std::vector<Column> columns = [&] {
          nb::gil_scoped_release release;
          std::vector<const std::byte*> rows;
          for (const auto& [samples, begin, count] : parts) {
            if (&samples->layout() != &std::get<0>(parts[0])->layout()) return std::vector<Column>();
            for (size_t i = begin; i < begin + count && i < samples->size(); ++i) {
              rows.push_back(samples->row(i).data());
            }
          }
          return gather(std::get<0>(parts[0])->layout(), rows);
        }();
        if (columns.empty()) raise_error(invalid("the samples of a batch must have one layout"));
        return to_arrays(std::move(columns));
      },
      nb::arg("parts"), nb::sig("def gather_batch(parts: Sequence[tuple[Samples, int, int]]) -> " FLOTA_BATCH_COLUMNS));
}

}  // namespace

nb::list to_arrays(std::vector<Column>&& columns) {
  nb::list arrays;
  for (Column& column : columns) {
    arrays.append(column.field.element_bytes() == sizeof(float) ? to_array<float>(column) : to_array<int64_t>(column));
  }
  return arrays;
}

void bind_data(nb::module_& module) {
  bind_samples(module);

  nb::class_<Vocabulary>(module, "Vocabulary")
      .def(nb::init<const std::vector<std::string>&>(), nb::arg("words"))
      .def("find", [](const Vocabulary& self, const std::string& word) { return self.find(word); })
      .def("__len__", &Vocabulary::size);

  nb::class_<TextColumn>(module, "TextColumn")
      .def(nb::init<>())
      .def_rw("name", &TextColumn::name)
      .def_prop_rw(
          "conversion", [](const TextColumn& self) { return static_cast<int>(self.conversion); },
          [](TextColumn& self, int value) {
            if (value < 0 || value > 6) raise_error(invalid("there is no such conversion"));
            self.conversion = static_cast<Conversion>(value);
          })
      .def_rw("field", &TextColumn::field)
      .def_rw("position", &TextColumn::position)
      .def_rw("shift", &TextColumn::shift)
      .def_rw("scale", &TextColumn::scale)
      .def_rw("missing", &TextColumn::missing, nb::arg().none())
      .def_rw("salt", &TextColumn::salt)
      .def_rw("buckets", &TextColumn::buckets)
      .def_prop_rw(
          "separator", [](const TextColumn& self) { return static_cast<int>(self.separator); },
          [](TextColumn& self, int value) { self.separator = static_cast<char>(value); })
      .def_prop_rw(
          "vocabulary", [](const TextColumn& self) { return std::const_pointer_cast<Vocabulary>(self.vocabulary); },
          [](TextColumn& self, std::shared_ptr<Vocabulary> value) { self.vocabulary = std::move(value); },
          nb::arg().none());

  nb::class_<Parser<SlotText>> slots(module, "SlotText");
  slots.def(
      "__init__",
      [](Parser<SlotText>* self, std::shared_ptr<Layout> layout,
         const std::vector<std::tuple<std::string, uint32_t, uint32_t, uint32_t>>& slots_,
         const std::vector<std::string>& binary) {
        std::vector<Slot> made;
        for (const auto& [name, field, position, width] : slots_) {
          const bool is_binary = std::find(binary.begin(), binary.end(), name) != binary.end();
          made.push_back({name, field, position, width, is_binary});
        }
        new (self) Parser<SlotText>{layout, take(SlotText::make(layout, std::move(made)))};
      },
      nb::arg("layout"), nb::arg("slots"), nb::arg("binary"));
  bind_parse(slots);

  nb::class_<Parser<ColumnText>> columns(module, "ColumnText");
  columns.def(
      "__init__",
      [](Parser<ColumnText>* self, std::shared_ptr<Layout> layout, const std::vector<TextColumn>& text_columns,
         int delimiter) {
        new (self)
            Parser<ColumnText>{layout, take(ColumnText::make(layout, text_columns, static_cast<char>(delimiter)))};
      },
      nb::arg("layout"), nb::arg("columns"), nb::arg("delimiter"));
  bind_parse(columns);

  module.def(
      "hash_text",
      [](uint64_t salt, nb::bytes text) {
        return hash_text(salt, {static_cast<const char*>(text.data()), text.size()});
      },
      nb::arg("salt"), nb::arg("text"));
  // Ids of texts as Arrow holds them: bytes one after another, and 64-bit offsets of which there is one more.
  module.def(
      "hash_texts",
      [](uintptr_t bytes, uintptr_t offsets, size_t count, uint64_t salt, uint64_t buckets, uintptr_t out) {
        const auto* text = reinterpret_cast<const char*>(bytes);
        const auto begins = array_at<const int64_t>(offsets, count + 1);
        const auto ids = array_at<int64_t>(out, count);
        for (size_t i = 0; i < count; ++i) {
          const std::string_view one(text + begins[i], static_cast<size_t>(begins[i + 1] - begins[i]));
          ids[i] = hashed_id(hash_text(salt, one), buckets);
        }
      },
      Release(), nb::arg("bytes"), nb::arg("offsets"), nb::arg("count"), nb::arg("salt"), nb::arg("buckets"),
      nb::arg("out"));
  module.def(
      "find_texts",
      [](const Vocabulary& vocabulary, uintptr_t bytes, uintptr_t offsets, size_t count, uintptr_t out) {
        const auto* text = reinterpret_cast<const char*>(bytes);
        const auto begins = array_at<const int64_t>(offsets, count + 1);
        const auto ids = array_at<int64_t>(out, count);
        for (size_t i = 0; i < count; ++i) {
          ids[i] = vocabulary.find({text + begins[i], static_cast<size_t>(begins[i + 1] - begins[i])});
        }
      },
      Release(), nb::arg("vocabulary"), nb::arg("bytes"), nb::arg("offsets"), nb::arg("count"), nb::arg("out"));
}

}  // namespace flota
