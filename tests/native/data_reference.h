#pragma once

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/column_text.h"
#include "data/samples.h"
#include "data/slot_text.h"
#include "data/text.h"

// Samples as plain vectors, and what the parsers do said slowly: what the tests and the fuzz target compare with.
namespace flota::testing {

// One of the two is used, as the field's kind says.
struct FieldValues {
  std::vector<float> floats = {};
  std::vector<int64_t> ids = {};
};
using SampleValues = std::vector<FieldValues>;

inline bool has_floats(const Field& field) {
  return field.kind == FieldKind::kFloats || field.kind == FieldKind::kFloatList;
}

// A sample of the right widths, with empty lists.
inline SampleValues zero_sample(const Layout& layout) {
  SampleValues sample;
  for (const Field& field : layout.fields()) {
    const size_t width = field.is_list() ? 0 : field.width;
    sample.push_back(
        {std::vector<float>(has_floats(field) ? width : 0), std::vector<int64_t>(has_floats(field) ? 0 : width)});
  }
  return sample;
}

template <class T>
void put_bytes(std::vector<std::byte>& out, std::span<const T> values) {
  const auto bytes = std::as_bytes(values);
  out.insert(out.end(), bytes.begin(), bytes.end());
}

inline void pad(std::vector<std::byte>& out) { out.resize((out.size() + 7) / 8 * 8); }

inline void put_values(std::vector<std::byte>& out, const FieldValues& values) {
  put_bytes<int64_t>(out, values.ids);
  put_bytes<float>(out, values.floats);
}

// The sample's row, byte for byte: whole numbers, floats, lengths of lists, lists.
inline std::vector<std::byte> row_of(const Layout& layout, const SampleValues& sample) {
  std::vector<std::byte> row;
  const auto fields = layout.fields();
  for (FieldKind kind : {FieldKind::kIds, FieldKind::kFloats}) {
    for (size_t i = 0; i < fields.size(); ++i) {
      if (fields[i].kind == kind) put_values(row, sample[i]);
    }
  }
  for (size_t i = 0; i < fields.size(); ++i) {
    if (!fields[i].is_list()) continue;
    const auto length = static_cast<uint32_t>(sample[i].ids.size() + sample[i].floats.size());
    put_bytes<uint32_t>(row, {&length, 1});
  }
  pad(row);
  for (size_t i = 0; i < fields.size(); ++i) {
    if (!fields[i].is_list()) continue;
    put_values(row, sample[i]);
    pad(row);
  }
  return row;
}

// Sample `number` of a batch.
inline SampleValues sample_of(const std::vector<Column>& columns, size_t number) {
  SampleValues sample;
  for (const Column& column : columns) {
    const bool list = column.field.is_list();
    const size_t begin = list ? static_cast<size_t>(column.offsets[number]) : number * column.field.width;
    const size_t end = list ? static_cast<size_t>(column.offsets[number + 1]) : begin + column.field.width;
    FieldValues values;
    if (has_floats(column.field)) {
      const auto* floats = reinterpret_cast<const float*>(column.values.get());
      values.floats.assign(floats + begin, floats + end);
    } else {
      const auto* ids = reinterpret_cast<const int64_t*>(column.values.get());
      values.ids.assign(ids + begin, ids + end);
    }
    sample.push_back(std::move(values));
  }
  return sample;
}

inline std::vector<std::byte> bytes_of(std::span<const std::byte> row) { return {row.begin(), row.end()}; }

// --- text ---

inline std::vector<std::string> split(std::string_view text, char by) {
  std::vector<std::string> parts(1);
  for (char c : text) {
    if (c == by) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

// The lines of a text; what follows the last newline is one if it is not empty.
inline std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines = split(text, '\n');
  if (lines.back().empty()) lines.pop_back();
  return lines;
}

inline std::optional<int64_t> id_in(std::string text) {
  const bool negative = !text.empty() && text[0] == '-';
  if (negative) text.erase(0, 1);
  if (text.empty() || text.size() > 20) return std::nullopt;
  unsigned __int128 value = 0;
  for (char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + static_cast<unsigned>(c - '0');
  }
  const auto most = static_cast<unsigned __int128>(negative ? uint64_t{1} << 63 : UINT64_MAX);
  if (value > most) return std::nullopt;
  const auto bits = static_cast<uint64_t>(value);
  return static_cast<int64_t>(negative ? 0 - bits : bits);
}

// Sign, digits with at most one point among them, exponent; and no more.
inline bool is_decimal(const std::string& text) {
  size_t at = 0;
  auto digits = [&] {
    const size_t begin = at;
    while (at < text.size() && text[at] >= '0' && text[at] <= '9') ++at;
    return at - begin;
  };
  if (at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
  size_t mantissa = digits();
  if (at < text.size() && text[at] == '.') {
    ++at;
    mantissa += digits();
  }
  if (mantissa == 0) return false;
  if (at == text.size()) return true;
  if (text[at] != 'e' && text[at] != 'E') return false;
  ++at;
  if (at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
  return digits() > 0 && at == text.size();
}

inline std::optional<double> number_in(const std::string& text) {
  if (!is_decimal(text)) return std::nullopt;
  const double value = std::strtod(text.c_str(), nullptr);
  const bool is_zero = text.substr(0, text.find_first_of("eE")).find_first_of("123456789") == std::string::npos;
  if (!std::isfinite(value) || (value == 0 && !is_zero)) return std::nullopt;
  return value;
}

inline std::optional<float> finite_float(double value) {
  const auto narrow = static_cast<float>(value);
  return std::isfinite(narrow) ? std::optional(narrow) : std::nullopt;
}

// A line of slot text; nothing: it has a fault.
inline std::optional<SampleValues> slot_sample(const Layout& layout, const std::vector<Slot>& slots,
                                               const std::string& line) {
  std::vector<std::string> words;
  std::string spaced = line;
  std::replace_if(spaced.begin(), spaced.end(), [](char c) { return c == '\t' || c == '\r'; }, ' ');
  for (const std::string& word : split(spaced, ' ')) {
    if (!word.empty()) words.push_back(word);
  }
  SampleValues sample = zero_sample(layout);
  size_t at = 0;
  for (const Slot& slot : slots) {
    if (at == words.size()) return std::nullopt;
    const auto count = id_in(words[at++]);
    if (!count || *count < 0 || static_cast<size_t>(*count) > words.size() - at) return std::nullopt;
    const Field& field = layout.fields()[slot.field];
    if (!field.is_list() && static_cast<size_t>(*count) != slot.width) return std::nullopt;
    FieldValues& values = sample[slot.field];
    if (field.is_list())
      values = {std::vector<float>(has_floats(field) ? *count : 0),
                std::vector<int64_t>(has_floats(field) ? 0 : *count)};
    for (size_t i = 0; i < static_cast<size_t>(*count); ++i) {
      const std::string& word = words[at++];
      const size_t place = field.is_list() ? i : slot.position + i;
      if (has_floats(field)) {
        const auto number = number_in(word);
        const auto narrow = number ? finite_float(*number) : std::nullopt;
        if (!narrow) return std::nullopt;
        values.floats[place] = *narrow;
      } else {
        const auto id = id_in(word);
        if (!id) return std::nullopt;
        values.ids[place] = *id;
      }
    }
  }
  return at == words.size() ? std::optional(sample) : std::nullopt;
}

inline std::optional<float> column_number(const TextColumn& column, const std::string& text) {
  if (text.empty() && column.missing) return static_cast<float>(*column.missing);
  if (column.conversion == Conversion::kLabel) {
    if (text == "0") return 0.f;
    return text == "1" ? std::optional(1.f) : std::nullopt;
  }
  const auto number = number_in(text);
  if (!number) return std::nullopt;
  if (column.conversion == Conversion::kNumber) return finite_float((*number - column.shift) / column.scale);
  return *number <= 0 ? 0.f : static_cast<float>(std::log1p(*number));
}

inline std::optional<int64_t> column_id(const TextColumn& column, const std::string& text) {
  if (text.empty() && column.missing) return static_cast<int64_t>(*column.missing);
  if (column.conversion == Conversion::kHash) return hashed_id(hash_text(column.salt, text), column.buckets);
  if (column.conversion == Conversion::kVocabulary) return column.vocabulary->find(text);
  return id_in(text);
}

// A line of columns; nothing: it has a fault.
inline std::optional<SampleValues> column_sample(const Layout& layout, const std::vector<TextColumn>& columns,
                                                 char delimiter, std::string line) {
  if (!line.empty() && line.back() == '\r') line.pop_back();
  const std::vector<std::string> texts = split(line, delimiter);
  if (texts.size() != columns.size()) return std::nullopt;
  SampleValues sample = zero_sample(layout);
  for (size_t i = 0; i < columns.size(); ++i) {
    const TextColumn& column = columns[i];
    if (column.conversion == Conversion::kSkip) continue;
    const Field& field = layout.fields()[column.field];
    if (has_floats(field)) {
      const auto value = column_number(column, texts[i]);
      if (!value) return std::nullopt;
      sample[column.field].floats[column.position] = *value;
      continue;
    }
    if (!field.is_list()) {
      const auto id = column_id(column, texts[i]);
      if (!id) return std::nullopt;
      sample[column.field].ids[column.position] = *id;
      continue;
    }
    for (const std::string& one : split(texts[i], column.separator)) {
      if (one.empty()) continue;
      const auto id = column_id(column, one);
      if (!id) return std::nullopt;
      sample[column.field].ids.push_back(*id);
    }
  }
  return sample;
}

}  // namespace flota::testing
