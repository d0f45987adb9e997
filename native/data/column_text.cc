#include "data/column_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "data/text.h"

namespace flota {
namespace {

// float(log1p(n)) of small whole numbers: most counts are, and the logarithm is most of their cost.
constexpr size_t kLogs = 1 << 12;
const std::array<float, kLogs>& logarithms() {
  static const auto table = [] {
    std::array<float, kLogs> logs{};
    for (size_t i = 0; i < kLogs; ++i) logs[i] = static_cast<float>(std::log1p(static_cast<double>(i)));
    return logs;
  }();
  return table;
}

float logarithm(double number, const std::array<float, kLogs>& logs) {
  if (number <= 0) return 0;
  if (number < kLogs && number == std::floor(number)) return logs[static_cast<size_t>(number)];
  return static_cast<float>(std::log1p(number));
}

bool is_number(Conversion conversion) {
  return conversion == Conversion::kNumber || conversion == Conversion::kLogNumber || conversion == Conversion::kLabel;
}

// Whether an id came through a double as it was.
bool is_exact_id(double id) { return std::abs(id) <= 0x1p53 && id == std::floor(id); }

std::string in_column(const TextColumn& column, std::string what) {
  return "column '" + column.name + "': " + std::move(what);
}

template <class T>
void put(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

// Takes the first value off a list's text.
std::string_view next_of_list(std::string_view& text, char separator) {
  const size_t cut = std::min(text.find(separator), text.size());
  const std::string_view one = text.substr(0, cut);
  text.remove_prefix(std::min(cut + 1, text.size()));
  return one;
}

}  // namespace

size_t Vocabulary::Hash::operator()(std::string_view word) const { return hash_text(0, word); }

Vocabulary::Vocabulary(const std::vector<std::string>& words) {
  ids_.reserve(words.size());
  for (const std::string& word : words) ids_.emplace(word, static_cast<int64_t>(ids_.size()) + 1);
}

Result<ColumnText> ColumnText::make(std::shared_ptr<const Layout> layout, std::vector<TextColumn> columns,
                                    char delimiter) {
  if (columns.empty()) return invalid("lines must have at least one column");
  if (delimiter == '\n' || delimiter == 0) return invalid("neither a newline nor a zero can stand between columns");
  uint32_t next_list = 0;
  std::vector<Part> parts;
  for (const TextColumn& column : columns) {
    if (column.conversion == Conversion::kSkip) continue;
    if (column.field >= layout->fields().size()) return invalid(in_column(column, "there is no such field"));
    const Field& field = layout->fields()[column.field];
    const bool floats = field.element_bytes() == sizeof(float);
    if (floats != is_number(column.conversion)) return invalid(in_column(column, "its field holds another kind"));
    if (!field.is_list() && column.position >= field.width) return invalid(in_column(column, "it is out of its field"));
    if (field.is_list() != (column.separator != 0)) return invalid(in_column(column, "lists have a separator"));
    if (column.conversion == Conversion::kVocabulary && !column.vocabulary) {
      return invalid(in_column(column, "it needs a vocabulary"));
    }
    if (!floats && column.missing && !is_exact_id(*column.missing)) {
      return invalid(in_column(column, "the id of a missing text must be a whole number of at most 53 bits"));
    }
    parts.push_back({column.field, field.is_list() ? 0 : column.position});
    if (!field.is_list()) continue;
    if (column.separator == delimiter) return invalid(in_column(column, "its values need a separator of their own"));
    if (column.field < next_list) return invalid(in_column(column, "lists must come in the order of their fields"));
    if (floats) return invalid(in_column(column, "lists of numbers are not read from columns"));
    next_list = column.field + 1;
  }
  if (!layout->is_tiled_by(std::move(parts))) return invalid("columns must fill each value of a sample, and only once");
  ColumnText text;
  for (const TextColumn& column : columns) text.steps_.push_back(step_of(column, *layout));
  text.layout_ = std::move(layout);
  text.columns_ = std::move(columns);
  text.delimiter_ = delimiter;
  return text;
}

ColumnText::Step ColumnText::step_of(const TextColumn& column, const Layout& layout) {
  Step step;
  step.conversion = column.conversion;
  if (column.conversion == Conversion::kSkip) return step;
  const Field& field = layout.fields()[column.field];
  step.vocabulary = column.vocabulary.get();
  step.salt = column.salt;
  step.buckets = column.buckets;
  step.shift = column.shift;
  step.scale = column.scale;
  step.may_miss = column.missing.has_value();
  step.missing_number = static_cast<float>(column.missing.value_or(0));
  step.missing_id = is_number(column.conversion) ? 0 : static_cast<int64_t>(column.missing.value_or(0));
  step.separator = column.separator;
  const size_t before = field.is_list() ? 0 : column.position * field.element_bytes();
  step.offset = static_cast<uint32_t>(layout.offset(column.field) + before);
  return step;
}

bool ColumnText::id_of(const Step& step, std::string_view text, const char* readable, int64_t& id) {
  switch (step.conversion) {
    case Conversion::kHash:
      id = hashed_id(hash_text(step.salt, text, readable), step.buckets);
      return true;
    case Conversion::kVocabulary:
      id = step.vocabulary->find(text);
      return true;
    default:
      return parse_id(text, id);
  }
}

bool ColumnText::convert_list(const Step& step, std::string_view text, Place& place) {
  uint32_t count = 0;
  while (!text.empty()) {
    const std::string_view one = next_of_list(text, step.separator);
    if (one.empty()) continue;
    int64_t id = 0;
    if (!id_of(step, one, place.readable, id)) return false;
    put(place.tail + count * sizeof id, id);
    ++count;
  }
  put(place.row + step.offset, count);
  place.tail += count * sizeof(int64_t);
  return true;
}

bool ColumnText::convert(const Step& step, std::string_view text, Place& place) {
  if (step.conversion == Conversion::kSkip) return true;
  if (step.separator != 0) return convert_list(step, text, place);
  std::byte* out = place.row + step.offset;
  if (!is_number(step.conversion)) {
    int64_t id = step.missing_id;
    if (!(text.empty() && step.may_miss) && !id_of(step, text, place.readable, id)) return false;
    put(out, id);
    return true;
  }
  if (text.empty() && step.may_miss) {
    put(out, step.missing_number);
    return true;
  }
  if (step.conversion == Conversion::kLabel) {
    if (text.size() != 1 || (text[0] != '0' && text[0] != '1')) return false;
    put(out, static_cast<float>(text[0] - '0'));
    return true;
  }
  double number = 0;
  if (!parse_number(text, number, place.readable)) return false;
  const float value = step.conversion == Conversion::kLogNumber
                          ? logarithm(number, logarithms())
                          : static_cast<float>((number - step.shift) / step.scale);
  put(out, value);
  return std::isfinite(value);
}

std::string ColumnText::fault_of(size_t number, std::string_view text) const {
  const TextColumn& column = columns_[number];
  if (column.conversion == Conversion::kLabel) {
    return "the label " + quoted(text) + " of column '" + column.name + "' is neither 0 nor 1";
  }
  if (column.separator != 0) {
    int64_t id = 0;
    std::string_view one;
    do {
      one = next_of_list(text, column.separator);
    } while (one.empty() || parse_id(one, id));
    return in_column(column, quoted(one) + " is no whole number");
  }
  if (text.empty()) return in_column(column, "it is empty");
  if (!is_number(column.conversion)) return in_column(column, quoted(text) + " is no whole number");
  double value = 0;
  return in_column(column, quoted(text) + (parse_number(text, value) ? " is too large a number" : " is no number"));
}

std::string ColumnText::wrong_count(size_t count) const {
  const std::string by = delimiter_ == '\t' ? "tabs" : quoted({&delimiter_, 1});
  return std::to_string(count) + " columns by " + by + ", not " + std::to_string(columns_.size());
}

Parsed ColumnText::parse(std::string_view text, BadLines policy, Samples& out) const {
  Parsed parsed;
  const char* begin = text.data();
  const char* const end = begin + text.size();
  Cutter cutter(begin, end, delimiter_);
  while (begin < end) {
    size_t tail = 0;
    if (layout_->has_lists()) {
      const auto* newline = static_cast<const char*>(std::memchr(begin, '\n', static_cast<size_t>(end - begin)));
      const auto length = static_cast<size_t>((newline == nullptr ? end : newline) - begin);
      // A value and what stands before it are two characters at least, and eight bytes.
      tail = 4 * length + 8 * (layout_->lists().size() + 1);
    }
    std::byte* row = out.open(tail);
    Place place{row, row + layout_->fixed_bytes(), end};
    std::string wrong;
    size_t count = 0;
    const char* cut = nullptr;
    do {
      cut = cutter.next();
      const bool last = cut == end || *cut == '\n';
      std::string_view field(begin, static_cast<size_t>(cut - begin));
      if (last && !field.empty() && field.back() == '\r') field.remove_suffix(1);
      if (count < steps_.size() && !convert(steps_[count], field, place) && wrong.empty()) {
        wrong = fault_of(count, field);
      }
      ++count;
      begin = cut == end ? end : cut + 1;
      if (last) break;
    } while (true);
    // The number of columns tells more than what a column out of place holds.
    if (count != columns_.size()) wrong = wrong_count(count);
    if (wrong.empty()) {
      out.close(static_cast<size_t>(place.tail - place.row) - layout_->fixed_bytes());
    } else {
      parsed.add(parsed.lines, std::move(wrong));
    }
    ++parsed.lines;
    if (parsed.bad > 0 && policy == BadLines::kStop) break;
  }
  return parsed;
}

}  // namespace flota
