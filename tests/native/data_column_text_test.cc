#include <random>

#include "data/column_text.h"
#include "data_reference.h"
#include "data_rows.h"
#include "testing.h"

using namespace flota;
using namespace flota::testing;

namespace {

constexpr auto kFloats = FieldKind::kFloats;
constexpr auto kIds = FieldKind::kIds;
constexpr auto kFloatList = FieldKind::kFloatList;
constexpr auto kIdList = FieldKind::kIdList;

struct Outcome {
  Samples samples;
  Parsed parsed;
};

Outcome parse(const std::shared_ptr<const Layout>& layout, const std::vector<TextColumn>& columns, char delimiter,
              std::string_view text, BadLines policy = BadLines::kStop) {
  // Of exactly this size, so that a sanitizer sees a read beyond it.
  const std::unique_ptr<char[]> memory(new char[text.size()]);
  std::copy(text.begin(), text.end(), memory.get());
  Outcome outcome{Samples(layout), {}};
  const ColumnText parser = value_of(ColumnText::make(layout, columns, delimiter));
  outcome.parsed = parser.parse({memory.get(), text.size()}, policy, outcome.samples);
  return outcome;
}

TextColumn column(std::string name, Conversion conversion, uint32_t field, uint32_t position = 0) {
  TextColumn made;
  made.name = std::move(name);
  made.conversion = conversion;
  made.field = field;
  made.position = position;
  return made;
}

TextColumn skipped() { return column("skipped", Conversion::kSkip, 99); }

TextColumn list(std::string name, Conversion conversion, uint32_t field, char separator) {
  TextColumn made = column(std::move(name), conversion, field);
  made.separator = separator;
  return made;
}

TextColumn with_missing(TextColumn made, double missing) {
  made.missing = missing;
  return made;
}

// One of each conversion, a list, and one that is left out.
const auto kLayout = layout_of({{kFloats, 3}, {kIds, 3}, {kIdList}});

std::vector<TextColumn> every_column() {
  TextColumn price = column("price", Conversion::kNumber, 0, 1);
  price.shift = 1;
  price.scale = 2;
  TextColumn user = column("user", Conversion::kHash, 1, 0);
  user.salt = hash_text(0, "user");
  TextColumn country = column("country", Conversion::kVocabulary, 1, 2);
  country.vocabulary = std::make_shared<Vocabulary>(std::vector<std::string>{"AT", "DE", "CH"});
  return {column("click", Conversion::kLabel, 0, 0),
          with_missing(price, -1),
          skipped(),
          with_missing(column("views", Conversion::kLogNumber, 0, 2), 0),
          user,
          list("history", Conversion::kRawId, 2, '|'),
          with_missing(column("item", Conversion::kRawId, 1, 1), 7),
          country};
}

Outcome parse(std::string_view text, BadLines policy = BadLines::kStop) {
  return parse(kLayout, every_column(), '\t', text, policy);
}

std::string fault_of(std::string_view line) {
  const Outcome outcome = parse(line);
  BOOST_TEST(outcome.samples.size() == 0u);
  return outcome.parsed.faults.empty() ? "" : outcome.parsed.faults[0].what;
}

std::string refusal(const std::shared_ptr<const Layout>& layout, std::vector<TextColumn> columns, char by = '\t') {
  return message_of(ColumnText::make(layout, std::move(columns), by));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(data_column_text)

BOOST_AUTO_TEST_CASE(a_line_becomes_a_sample) {
  const Outcome outcome = parse("1\t4\tx\t9\tanna\t5||-6|\t12\tDE\n");
  BOOST_TEST(outcome.parsed.lines == 1u);
  BOOST_TEST(outcome.parsed.bad == 0u);
  const int64_t anna = hashed_id(hash_text(hash_text(0, "user"), "anna"), 0);
  const SampleValues expected = {{{1, 1.5f, std::log(10.f)}, {}}, {{}, {anna, 12, 2}}, {{}, {5, -6}}};
  BOOST_TEST((bytes_of(outcome.samples.row(0)) == row_of(*kLayout, expected)));
}

BOOST_AUTO_TEST_CASE(an_empty_text_is_what_is_missing_or_a_text_like_others) {
  const Outcome outcome = parse("0\t\t\t\t\t\t\t\n");
  BOOST_TEST(outcome.parsed.bad == 0u);
  const int64_t nobody = hashed_id(hash_text(hash_text(0, "user"), ""), 0);
  const SampleValues expected = {{{0, -1, 0}, {}}, {{}, {nobody, 7, 0}}, {{}, {}}};
  BOOST_TEST((bytes_of(outcome.samples.row(0)) == row_of(*kLayout, expected)));
}

BOOST_AUTO_TEST_CASE(lines_may_end_in_any_of_the_usual_ways) {
  const std::string line = "1\t4\t\t9\tanna\t5|6\t12\tDE";
  const auto expected = bytes_of(parse(line).samples.row(0));
  for (const std::string& text : {line + "\n", line + "\r\n", line + "\r", line + "\n" + line, line + "\r\n" + line}) {
    const Outcome outcome = parse(text);
    BOOST_TEST(outcome.parsed.bad == 0u);
    for (size_t i = 0; i < outcome.samples.size(); ++i) BOOST_TEST((bytes_of(outcome.samples.row(i)) == expected));
  }
  BOOST_TEST(parse("").parsed.lines == 0u);
  BOOST_TEST(parse(std::string_view()).parsed.lines == 0u);
}

BOOST_AUTO_TEST_CASE(faults_say_what_is_wrong_with_which_column) {
  BOOST_TEST(fault_of("\n") == "1 columns by tabs, not 8");
  BOOST_TEST(fault_of("x\ty") == "2 columns by tabs, not 8");
  BOOST_TEST(fault_of("1\t4\t\t9\ta\t5\t12\tDE\t") == "9 columns by tabs, not 8");
  BOOST_TEST(fault_of("2\t4\t\t9\ta\t5\t12\tDE") == "the label '2' of column 'click' is neither 0 nor 1");
  BOOST_TEST(fault_of("\t4\t\t9\ta\t5\t12\tDE") == "the label '' of column 'click' is neither 0 nor 1");
  BOOST_TEST(fault_of("1\tx\t\t9\ta\t5\t12\tDE") == "column 'price': 'x' is no number");
  BOOST_TEST(fault_of("1\tinf\t\t9\ta\t5\t12\tDE") == "column 'price': 'inf' is no number");
  BOOST_TEST(fault_of("1\t1e300\t\t9\ta\t5\t12\tDE") == "column 'price': '1e300' is too large a number");
  BOOST_TEST(fault_of("1\t4\t\t 9\ta\t5\t12\tDE") == "column 'views': ' 9' is no number");
  BOOST_TEST(fault_of("1\t4\t\t9\ta\t5|x\t12\tDE") == "column 'history': 'x' is no whole number");
  BOOST_TEST(fault_of("1\t4\t\t9\ta\t5\t99999999999999999999\tDE") ==
             "column 'item': '99999999999999999999' is no whole number");
  const auto layout = layout_of({{kFloats, 1}});
  auto fault = [&](Conversion conversion, char by, std::string_view text) {
    return parse(layout, {column("x", conversion, 0)}, by, text).parsed.faults.at(0).what;
  };
  BOOST_TEST(fault(Conversion::kNumber, ',', "\n") == "column 'x': it is empty");
  BOOST_TEST(fault(Conversion::kNumber, ',', "1,2") == "2 columns by ',', not 1");
  BOOST_TEST(fault(Conversion::kNumber, ',', {"\0", 1}) == "column 'x': '?' is no number");
}

BOOST_AUTO_TEST_CASE(the_first_bad_line_stops_unless_bad_lines_are_skipped) {
  const std::string good = "1\t4\t\t9\tanna\t5|6\t12\tDE\n";
  const std::string text = good + "bad\n" + good + "\n" + good;
  const Outcome stopped = parse(text);
  BOOST_TEST(stopped.samples.size() == 1u);
  BOOST_TEST(stopped.parsed.lines == 2u);
  BOOST_TEST(stopped.parsed.faults.at(0).line == 1u);
  const Outcome skipped_over = parse(text, BadLines::kSkip);
  BOOST_TEST(skipped_over.samples.size() == 3u);
  BOOST_TEST(skipped_over.parsed.lines == 5u);
  BOOST_TEST(skipped_over.parsed.bad == 2u);
  BOOST_TEST(skipped_over.parsed.faults.at(1).line == 3u);
}

BOOST_AUTO_TEST_CASE(a_vocabulary_counts_from_one) {
  const Vocabulary words({"b", "a", "", "long word"});
  BOOST_TEST(words.size() == 4u);
  BOOST_TEST(words.find("b") == 1);
  BOOST_TEST(words.find("a") == 2);
  BOOST_TEST(words.find("") == 3);
  BOOST_TEST(words.find("long word") == 4);
  BOOST_TEST(words.find("c") == 0);
}

BOOST_AUTO_TEST_CASE(buckets_bound_ids) {
  TextColumn user = column("user", Conversion::kHash, 0);
  user.buckets = 10;
  const auto layout = layout_of({{kIds, 1}});
  std::string text;
  for (int i = 0; i < 1000; ++i) text += std::to_string(i) + "\n";
  const Outcome outcome = parse(layout, {user}, ',', text);
  std::vector<int> seen(10);
  for (size_t i = 0; i < outcome.samples.size(); ++i) {
    int64_t id = 0;
    std::memcpy(&id, outcome.samples.row(i).data(), sizeof id);
    ++seen.at(static_cast<size_t>(id));
  }
  for (int count : seen) BOOST_TEST(count > 50);
}

BOOST_AUTO_TEST_CASE(logarithms_of_small_counts_are_those_of_the_formula) {
  const auto layout = layout_of({{kFloats, 1}});
  std::string text;
  std::vector<float> expected;
  auto add = [&](const std::string& number) {
    text += number + "\n";
    const double value = std::stod(number);
    expected.push_back(value <= 0 ? 0 : static_cast<float>(std::log1p(value)));
  };
  for (int i = -3; i < 9000; ++i) add(std::to_string(i));
  for (const char* number : {"0.5", "4095.5", "1e300", "1e-300", "-1e300", "-0", "-0.5"}) add(number);
  const Outcome outcome = parse(layout, {column("x", Conversion::kLogNumber, 0)}, '\t', text);
  BOOST_TEST(outcome.samples.size() == expected.size());
  std::vector<float> found(expected.size());
  for (size_t i = 0; i < found.size(); ++i) std::memcpy(&found[i], outcome.samples.row(i).data(), sizeof(float));
  BOOST_TEST((bits_of(found) == bits_of(expected)));
}

BOOST_AUTO_TEST_CASE(columns_that_do_not_fit_their_fields_are_refused) {
  const auto layout = layout_of({{kFloats, 1}, {kIds, 1}, {kIdList}, {kFloatList}});
  const TextColumn number = column("n", Conversion::kNumber, 0);
  const TextColumn id = column("i", Conversion::kHash, 1);
  BOOST_TEST(refusal(layout, {}) == "lines must have at least one column");
  for (char by : {'\n', '\0'}) {
    BOOST_TEST(refusal(layout, {number}, by) == "neither a newline nor a zero can stand between columns");
  }
  BOOST_TEST(refusal(layout, {column("n", Conversion::kNumber, 4)}) == "column 'n': there is no such field");
  BOOST_TEST(refusal(layout, {column("n", Conversion::kNumber, 1)}) == "column 'n': its field holds another kind");
  BOOST_TEST(refusal(layout, {column("n", Conversion::kRawId, 0)}) == "column 'n': its field holds another kind");
  BOOST_TEST(refusal(layout, {column("n", Conversion::kNumber, 0, 1)}) == "column 'n': it is out of its field");
  BOOST_TEST(refusal(layout, {list("n", Conversion::kNumber, 0, '|')}) == "column 'n': lists have a separator");
  BOOST_TEST(refusal(layout, {column("n", Conversion::kRawId, 2)}) == "column 'n': lists have a separator");
  BOOST_TEST(refusal(layout, {column("n", Conversion::kVocabulary, 1)}) == "column 'n': it needs a vocabulary");
  BOOST_TEST(refusal(layout, {list("n", Conversion::kNumber, 3, '|')}) ==
             "column 'n': lists of numbers are not read from columns");
  BOOST_TEST(refusal(layout, {list("n", Conversion::kRawId, 2, '\t')}) ==
             "column 'n': its values need a separator of their own");
  const auto lists = layout_of({{kIdList}, {kIdList}});
  BOOST_TEST(refusal(lists, {list("b", Conversion::kRawId, 1, '|'), list("a", Conversion::kRawId, 0, '|')}) ==
             "column 'a': lists must come in the order of their fields");
}

// A list that nothing fills would have a length out of thin air.
BOOST_AUTO_TEST_CASE(columns_that_leave_values_out_or_fill_them_twice_are_refused) {
  for (size_t missing = 0; missing < every_column().size(); ++missing) {
    std::vector<TextColumn> columns = every_column();
    const bool needed = columns[missing].conversion != Conversion::kSkip;
    columns.erase(columns.begin() + static_cast<std::ptrdiff_t>(missing));
    BOOST_TEST(refusal(kLayout, columns) == (needed ? "columns must fill each value of a sample, and only once" : ""));
  }
  std::vector<TextColumn> twice = every_column();
  twice.push_back(twice[0]);
  BOOST_TEST(refusal(kLayout, twice) == "columns must fill each value of a sample, and only once");
  BOOST_TEST(refusal(kLayout, {skipped()}) == "columns must fill each value of a sample, and only once");
}

// It comes as a double.
BOOST_AUTO_TEST_CASE(a_missing_id_that_a_double_does_not_hold_is_refused) {
  const auto layout = layout_of({{kIds, 1}});
  const TextColumn id = column("i", Conversion::kRawId, 0);
  for (double missing : {0.0, -1.0, 0x1p53, -0x1p53}) BOOST_TEST(refusal(layout, {with_missing(id, missing)}) == "");
  for (double missing : {0.5, 0x1p54, 0x1p63, -0x1p64, 1e300, double{INFINITY}, double{NAN}}) {
    BOOST_TEST(refusal(layout, {with_missing(id, missing)}) ==
               "column 'i': the id of a missing text must be a whole number of at most 53 bits");
  }
}

// The room that a line gets is guessed from its length: the shortest values give the most.
BOOST_AUTO_TEST_CASE(a_long_line_of_the_shortest_values_fits) {
  const auto layout = layout_of({{kIdList}, {kIdList}, {kIds, 1}});
  for (size_t count : {1, 2, 3, 511, 512, 20'000, 300'001}) {
    std::string values = "1";
    for (size_t i = 1; i < count; ++i) values += "|1";
    const std::string line = values + "\t" + values + "\t";
    const Outcome outcome = parse(layout,
                                  {list("a", Conversion::kRawId, 0, '|'), list("b", Conversion::kRawId, 1, '|'),
                                   with_missing(column("c", Conversion::kRawId, 2), 3)},
                                  '\t', line);
    BOOST_TEST(outcome.samples.size() == 1u);
    const std::vector<int64_t> ones(count, 1);
    BOOST_TEST((bytes_of(outcome.samples.row(0)) == row_of(*layout, {{{}, ones}, {{}, ones}, {{}, {3}}})));
    BOOST_TEST(outcome.samples.row(0).size() <= layout->fixed_bytes() + 4 * line.size() + 8 * 3);
  }
}

BOOST_AUTO_TEST_CASE(lines_are_read_as_a_slow_reader_reads_them) {
  std::mt19937_64 random(1);
  const std::vector<TextColumn> columns = every_column();
  const std::vector<std::vector<std::string>> texts = {
      {"0", "1", "1", "0", "1", "2", ""},      {"4", "", "0.5", "-1e3", "1e39", "x"}, {"", "anything", "\r"},
      {"0", "7", "4096", "4095", "1e5", ""},   {"", "a", "a rather long text", "b"},  {"", "|", "1|2", "||3|", "1|x"},
      {"", "18446744073709551615", "5", "-5"}, {"AT", "DE", "", "??", "CH"}};
  size_t good = 0;
  for (int round = 0; round < 5000; ++round) {
    std::string text;
    for (size_t line = random() % 6; line > 0; --line) {
      for (size_t i = 0; i < texts.size(); ++i) {
        if (random() % 100 == 0) continue;
        text += texts[i][random() % texts[i].size()];
        if (i + 1 < texts.size() || random() % 100 == 0) text += '\t';
      }
      if (line > 1 || random() % 2 == 0) text += random() % 3 == 0 ? "\r\n" : "\n";
    }
    const Outcome outcome = parse(text, BadLines::kSkip);
    std::vector<std::vector<std::byte>> expected;
    const std::vector<std::string> lines = lines_of(text);
    for (const std::string& line : lines) {
      if (const auto sample = column_sample(*kLayout, columns, '\t', line))
        expected.push_back(row_of(*kLayout, *sample));
    }
    good += expected.size();
    std::vector<std::vector<std::byte>> found;
    for (size_t i = 0; i < outcome.samples.size(); ++i) found.push_back(bytes_of(outcome.samples.row(i)));
    if (found != expected || outcome.parsed.lines != lines.size() ||
        outcome.parsed.bad != lines.size() - expected.size()) {
      BOOST_TEST(false, "differs for:\n" << text);
    }
  }
  BOOST_TEST(good > 1000u);
}

BOOST_AUTO_TEST_SUITE_END()
