#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "../native/data_reference.h"
#include "data/store.h"

// Whatever stands in a file of samples, and whatever another worker sends in a shuffle. An input is 16 bytes that
// choose a layout, what fills it and what to do, and then the text or the letters. Nothing may be read or written out
// of bounds, and what comes out must be what a slow reader says (data_reference.h), byte for byte.
namespace flota::fuzz {

inline constexpr size_t kChoices = 16;

// Where each choice is.
enum Choice : size_t {
  kWhat = 0,       // slots, columns, letters
  kFields = 1,     // how many
  kFirstKind = 2,  // of six fields: kind in the low bits, then width
  kPolicy = 8,     // what to do with bad lines; which worker receives
  kDelimiter = 9,
  kSeparator = 10,
  kConversions = 11,
  kMissing = 12,
  kSeed = 13,
  kWorkers = 14,
  kSamples = 15,
};

inline void check(bool condition) {
  if (!condition) std::abort();
}

struct Input {
  std::array<uint8_t, kChoices> choices{};
  std::string_view rest;

  uint8_t operator[](Choice choice) const { return choices[choice]; }
};

inline std::shared_ptr<const Layout> chosen_layout(const Input& input) {
  std::vector<Field> fields;
  for (size_t i = 0; i <= input[kFields] % 6u; ++i) {
    const uint8_t byte = input.choices[kFirstKind + i];
    auto kind = static_cast<FieldKind>(byte % 4);
    // Columns hold no lists of numbers.
    if (input[kWhat] % 3 == 1 && kind == FieldKind::kFloatList) kind = FieldKind::kFloats;
    fields.push_back({kind, 1 + byte / 4 % 4u});
  }
  return std::make_shared<const Layout>(*Layout::make(std::move(fields)));
}

using Rows = std::vector<std::vector<std::byte>>;

inline Rows rows_of(const Samples& samples) {
  Rows rows;
  for (size_t i = 0; i < samples.size(); ++i) rows.push_back(testing::bytes_of(samples.row(i)));
  return rows;
}

// What is read back from a batch of these rows.
inline Rows gathered(const Layout& layout, const std::vector<const std::byte*>& rows) {
  const std::vector<Column> columns = gather(layout, rows);
  Rows found;
  for (size_t i = 0; i < rows.size(); ++i) found.push_back(testing::row_of(layout, testing::sample_of(columns, i)));
  return found;
}

// Parses the text, and compares with what `reference` makes of each line.
template <class Parser, class Reference>
void parse(const Input& input, const Parser& parser, const std::shared_ptr<const Layout>& layout, Reference reference) {
  const auto policy = input[kPolicy] % 2 == 0 ? BadLines::kSkip : BadLines::kStop;
  Samples samples(layout);
  const Parsed parsed = parser.parse(input.rest, policy, samples);
  Rows expected;
  size_t lines = 0;
  size_t bad = 0;
  for (const std::string& line : testing::lines_of(input.rest)) {
    ++lines;
    if (const auto sample = reference(line)) {
      expected.push_back(testing::row_of(*layout, *sample));
      // What the parsers open for a line.
      const size_t most = layout->has_lists() ? 4 * line.size() + 8 * (layout->lists().size() + 1) : 0;
      check(expected.back().size() <= layout->fixed_bytes() + most);
      continue;
    }
    check(bad >= parsed.faults.size() || parsed.faults[bad].line == lines - 1);
    ++bad;
    if (policy == BadLines::kStop) break;
  }
  check(parsed.lines == lines && parsed.bad == bad);
  check(parsed.faults.size() == std::min(bad, Parsed::kMostTold));
  check(rows_of(samples) == expected);

  SampleStore store(layout);
  store.append(samples);
  check(gathered(*layout, store.rows(0, store.size())) == expected);
  store.shuffle(input[kSeed]);
  const Rows shuffled = gathered(*layout, store.rows(0, store.size()));
  check(std::is_permutation(shuffled.begin(), shuffled.end(), expected.begin(), expected.end()));
}

inline void slot_text(const Input& input) {
  const auto layout = chosen_layout(input);
  std::vector<Slot> slots;
  for (uint32_t field = 0; field < layout->fields().size(); ++field) {
    const uint32_t width = layout->fields()[field].width;
    // Some matrices are filled by two slots.
    const uint32_t first = input[kConversions] >> field & 1 && width > 1 ? 1 : width;
    slots.push_back({"first", field, 0, first});
    if (first < width) slots.push_back({"second", field, first, width - first});
  }
  const auto parser = SlotText::make(layout, slots);
  check(parser.has_value());
  parse(input, *parser, layout, [&](const std::string& line) { return testing::slot_sample(*layout, slots, line); });
}

inline TextColumn chosen_column(const Input& input, const Field& field, size_t number) {
  static const auto words = std::make_shared<const Vocabulary>(std::vector<std::string>{"a", "bb", "7", ""});
  const size_t way = (input[kConversions] + number * 5) % 3;
  TextColumn column;
  column.name = "c" + std::to_string(number);
  if (testing::has_floats(field)) {
    column.conversion = std::array{Conversion::kNumber, Conversion::kLogNumber, Conversion::kLabel}[way];
    column.shift = input[kSeed] % 4;
    column.scale = 1 + input[kSeed] % 3;
  } else {
    column.conversion = std::array{Conversion::kHash, Conversion::kRawId, Conversion::kVocabulary}[way];
    column.vocabulary = words;
    column.salt = input[kSeed];
    column.buckets = input[kSeed] % 2 == 0 ? 0 : 1000;
    if (field.is_list()) column.separator = "|:;"[input[kSeparator] % 3];
  }
  if (input[kMissing] >> number % 8 & 1) column.missing = number;
  return column;
}

inline void column_text(const Input& input) {
  const auto layout = chosen_layout(input);
  const char delimiter = "\t,\xff"[input[kDelimiter] % 3];
  std::vector<TextColumn> columns;
  for (uint32_t field = 0; field < layout->fields().size(); ++field) {
    const Field& chosen = layout->fields()[field];
    for (uint32_t position = 0; position < chosen.width; ++position) {
      TextColumn column = chosen_column(input, chosen, columns.size());
      column.field = field;
      column.position = position;
      columns.push_back(std::move(column));
    }
    if (input[kConversions] >> field & 1) columns.emplace_back();  // one that is left out
  }
  const auto parser = ColumnText::make(layout, columns, delimiter);
  check(parser.has_value());
  parse(input, *parser, layout,
        [&](const std::string& line) { return testing::column_sample(*layout, columns, delimiter, line); });
}

// This worker's samples: those whose lists are as long as a number says, so that letters hold some of each.
inline SampleStore own_samples(const std::shared_ptr<const Layout>& layout, size_t count) {
  SampleStore store(layout);
  for (size_t i = 0; i < count; ++i) {
    testing::SampleValues sample = testing::zero_sample(*layout);
    for (size_t field = 0; field < sample.size(); ++field) {
      if (layout->fields()[field].kind == FieldKind::kIdList) sample[field].ids.resize(i % 3);
      if (layout->fields()[field].kind == FieldKind::kFloatList) sample[field].floats.resize(i % 4);
    }
    store.append(testing::row_of(*layout, sample));
  }
  return store;
}

inline uint32_t chosen_workers(const Input& input) { return 1 + input[kWorkers] % 4u; }
inline uint32_t chosen_receiver(const Input& input) { return input[kPolicy] % chosen_workers(input); }

// A worker's samples and the counts of all.
struct ShuffleSetting {
  SampleStore store;
  std::vector<uint64_t> counts;
};

inline ShuffleSetting chosen_shuffle(const Input& input, uint32_t rank) {
  std::vector<uint64_t> counts;
  for (uint32_t i = 0; i < chosen_workers(input); ++i) counts.push_back((input[kSamples] + 3 * i) % 8);
  return {own_samples(chosen_layout(input), counts[rank]), std::move(counts)};
}

// The places that a worker reads.
struct Places {
  uint64_t begin = 0;
  uint64_t end = 0;

  bool hold(uint64_t place) const { return place >= begin && place < end; }
};

inline Places places_of(const std::vector<uint64_t>& counts, uint64_t worker) {
  uint64_t total = 0;
  for (uint64_t count : counts) total += count;
  return {total * worker / counts.size(), total * (worker + 1) / counts.size()};
}

// How many samples a letter holds before it ends or is wrong; whether it is right to its end.
struct LetterSays {
  size_t samples = 0;
  bool right = true;
};

inline LetterSays slow_look(const Layout& layout, std::string_view letter, const Places& mine) {
  LetterSays says;
  while (!letter.empty()) {
    uint64_t place = 0;
    uint64_t bytes = 0;
    says.right = letter.size() >= 16;
    if (!says.right) return says;
    std::memcpy(&place, letter.data(), 8);
    std::memcpy(&bytes, letter.data() + 8, 8);
    letter.remove_prefix(16);
    const std::string row(letter.substr(0, bytes));
    uint64_t needed = layout.fixed_bytes();
    says.right = mine.hold(place) && row.size() == bytes && bytes >= needed;
    if (!says.right) return says;
    for (uint32_t list : layout.lists()) {
      uint32_t count = 0;
      std::memcpy(&count, row.data() + layout.offset(list), sizeof count);
      needed += (count * layout.fields()[list].element_bytes() + 7) / 8 * 8;
    }
    says.right = needed == bytes;
    if (!says.right) return says;
    ++says.samples;
    letter.remove_prefix(bytes);
  }
  return says;
}

inline void letters(const Input& input) {
  const uint32_t rank = chosen_receiver(input);
  auto [store, counts] = chosen_shuffle(input, rank);
  const auto layout = store.shared_layout();
  const Places places = places_of(counts, rank);
  const uint64_t mine = places.end - places.begin;
  auto shuffle = GlobalShuffle::make(store, counts, rank, input[kSeed]);
  check(shuffle.has_value());
  uint64_t sent = 0;
  for (;;) {
    const auto some = (*shuffle)->next(input[kSeparator]);
    check(some.has_value());
    if (some->empty()) break;
    for (const GlobalShuffle::Letter& letter : *some) {
      check(letter.to != rank && letter.to < counts.size() && !letter.bytes.empty());
      // Each is about the places of the worker that it goes to.
      uint64_t place = 0;
      std::memcpy(&place, letter.bytes.data(), sizeof place);
      check(places_of(counts, letter.to).hold(place));
      for (size_t at = 0; at < letter.bytes.size(); ++sent) {
        uint64_t bytes = 0;
        std::memcpy(&bytes, letter.bytes.data() + at + 8, sizeof bytes);
        at += 16 + bytes;
      }
    }
  }
  const uint64_t kept = counts[rank] - sent;
  const LetterSays says = slow_look(*layout, input.rest, places);
  const auto result = (*shuffle)->receive(std::as_bytes(std::span(input.rest)));
  check(result.has_value() == (says.right && kept + says.samples <= mine));
  SampleStore out(layout);
  if (!(*shuffle)->finish(out)) return;
  check(out.size() == mine);
  check(gathered(*layout, out.rows(0, out.size())).size() == mine);
}

inline void data_target(const uint8_t* data, size_t size) {
  // Of exactly its size, so that a sanitizer sees a read beyond it.
  const std::unique_ptr<char[]> memory(new char[size]);
  if (size > 0) std::memcpy(memory.get(), data, size);
  Input input;
  const size_t chosen = std::min(size, kChoices);
  std::copy_n(data, chosen, input.choices.begin());
  input.rest = {memory.get() + chosen, size - chosen};
  switch (input[kWhat] % 3) {
    case 0:
      return slot_text(input);
    case 1:
      return column_text(input);
    default:
      return letters(input);
  }
}

}  // namespace flota::fuzz
