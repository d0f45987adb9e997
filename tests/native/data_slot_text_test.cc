#include <random>

#include "data/slot_text.h"
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

Outcome parse(const std::shared_ptr<const Layout>& layout, const std::vector<Slot>& slots, std::string_view text,
              BadLines policy = BadLines::kStop) {
  // Of exactly this size, so that a sanitizer sees a read beyond it.
  const std::unique_ptr<char[]> memory(new char[text.size()]);
  std::copy(text.begin(), text.end(), memory.get());
  Outcome outcome{Samples(layout), {}};
  outcome.parsed = value_of(SlotText::make(layout, slots)).parse({memory.get(), text.size()}, policy, outcome.samples);
  return outcome;
}

// A click, and the items it followed.
const auto kLayout = layout_of({{kFloats, 1}, {kIds, 2}, {kIdList}, {kFloatList}});
const std::vector<Slot> kSlots = {
    {"click", 0, 0, 1}, {"user", 1, 0, 1}, {"items", 2}, {"item", 1, 1, 1}, {"scores", 3}};

std::string fault_of(std::string_view line) {
  const Outcome outcome = parse(kLayout, kSlots, line);
  BOOST_TEST(outcome.samples.size() == 0u);
  return outcome.parsed.faults.empty() ? "" : outcome.parsed.faults[0].what;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(data_slot_text)

BOOST_AUTO_TEST_CASE(a_line_becomes_a_sample) {
  const Outcome outcome = parse(kLayout, kSlots, "1 1 1 7 3 10 11 -12 1 8 1 0.5\n");
  BOOST_TEST(outcome.parsed.lines == 1u);
  BOOST_TEST(outcome.parsed.bad == 0u);
  const SampleValues expected = {{{1}, {}}, {{}, {7, 8}}, {{}, {10, 11, -12}}, {{0.5f}, {}}};
  BOOST_TEST((bytes_of(outcome.samples.row(0)) == row_of(*kLayout, expected)));
}

BOOST_AUTO_TEST_CASE(spaces_tabs_and_carriage_returns_may_stand_anywhere_between_words) {
  const Outcome plain = parse(kLayout, kSlots, "1 1 1 7 1 10 1 8 0\n1 0 1 7 0 1 8 0\n");
  const Outcome spaced = parse(kLayout, kSlots, "  1\t1 1   7 1 10 1 8 0 \r\n\t1 0 1 7 0 1 8 0\t\r");
  BOOST_TEST(plain.samples.size() == 2u);
  BOOST_TEST(spaced.samples.size() == 2u);
  for (size_t i = 0; i < 2; ++i) {
    BOOST_TEST((bytes_of(plain.samples.row(i)) == bytes_of(spaced.samples.row(i))));
  }
}

BOOST_AUTO_TEST_CASE(the_last_line_may_lack_its_newline) {
  BOOST_TEST(parse(kLayout, kSlots, "1 1 1 7 0 1 8 0").samples.size() == 1u);
  BOOST_TEST(parse(kLayout, kSlots, "").parsed.lines == 0u);
  BOOST_TEST(parse(kLayout, kSlots, {}).samples.size() == 0u);
}

BOOST_AUTO_TEST_CASE(faults_say_what_is_wrong_with_which_slot) {
  BOOST_TEST(fault_of("\n") == "the line ends before slot 'click'");
  BOOST_TEST(fault_of("1 1 1 7") == "the line ends before slot 'items'");
  BOOST_TEST(fault_of("x 1") == "slot 'click' must begin with the number of its values, not with 'x'");
  BOOST_TEST(fault_of("1.0 1") == "slot 'click' must begin with the number of its values, not with '1.0'");
  BOOST_TEST(fault_of("-1 1") == "slot 'click' must begin with the number of its values, not with '-1'");
  BOOST_TEST(fault_of("18446744073709551615 1") ==
             "slot 'click' must begin with the number of its values, not with '18446744073709551615'");
  BOOST_TEST(fault_of("2 1 1") == "slot 'click' has 2 values, not 1");
  BOOST_TEST(fault_of("0 1 1") == "slot 'click' has 0 values, not 1");
  BOOST_TEST(fault_of("99999999999 1 1") == "slot 'click' has 99999999999 values, not 1");
  BOOST_TEST(fault_of("1 1 1 7 99999999999 1") == "slot 'items' says 99999999999 values, more than the line holds");
  BOOST_TEST(fault_of("1 1 1 7 9 1") == "slot 'items' says 9 values, more than the line holds");
  BOOST_TEST(fault_of("1 1 1 7 3 1 2") == "slot 'items' says 3 values, and the line ends after 2");
  BOOST_TEST(fault_of("1 1 1 7.5") == "slot 'user': '7.5' is no whole number");
  BOOST_TEST(fault_of("1 1 1 +7") == "slot 'user': '+7' is no whole number");
  BOOST_TEST(fault_of("1 nan") == "slot 'click': 'nan' is no number");
  BOOST_TEST(fault_of("1 1e400") == "slot 'click': '1e400' is no number");
  BOOST_TEST(fault_of("1 1e39") == "slot 'click': '1e39' is too large a number");
  BOOST_TEST(fault_of("1 1 1 7 0 1 8 0 5") == "'5' follows the last slot, 'scores'");
  BOOST_TEST(fault_of({"1 1\0 1 7", 8}) == "slot 'click': '1?' is no number");
}

BOOST_AUTO_TEST_CASE(the_first_bad_line_stops) {
  const Outcome outcome = parse(kLayout, kSlots, "1 1 1 7 0 1 8 0\nbad\n1 1 1 7 0 1 8 0\n");
  BOOST_TEST(outcome.samples.size() == 1u);
  BOOST_TEST(outcome.parsed.lines == 2u);
  BOOST_TEST(outcome.parsed.bad == 1u);
  BOOST_TEST(outcome.parsed.faults.at(0).line == 1u);
}

BOOST_AUTO_TEST_CASE(bad_lines_can_be_skipped_and_the_first_of_them_are_told) {
  std::string text;
  for (int i = 0; i < 30; ++i) text += i % 2 == 0 ? "1 1 1 7 0 1 8 0\n" : "bad\n";
  const Outcome outcome = parse(kLayout, kSlots, text, BadLines::kSkip);
  BOOST_TEST(outcome.samples.size() == 15u);
  BOOST_TEST(outcome.parsed.lines == 30u);
  BOOST_TEST(outcome.parsed.bad == 15u);
  BOOST_TEST(outcome.parsed.faults.size() == Parsed::kMostTold);
  for (size_t i = 0; i < outcome.parsed.faults.size(); ++i) BOOST_TEST(outcome.parsed.faults[i].line == 2 * i + 1);
}

// A list that nothing fills would have a length out of thin air.
BOOST_AUTO_TEST_CASE(slots_that_leave_values_out_or_fill_them_twice_are_refused) {
  const auto layout = layout_of({{kIds, 2}, {kIdList}, {kFloatList}});
  const std::vector<Slot> right = {{"a", 0, 0, 1}, {"b", 0, 1, 1}, {"c", 1}, {"d", 2}};
  BOOST_TEST(SlotText::make(layout, right).has_value());
  for (size_t missing = 0; missing < right.size(); ++missing) {
    std::vector<Slot> slots = right;
    slots.erase(slots.begin() + static_cast<std::ptrdiff_t>(missing));
    BOOST_TEST(message_of(SlotText::make(layout, slots)) == "slots must fill each value of a sample, and only once");
  }
  std::vector<Slot> twice = right;
  twice.push_back({"e", 0, 1, 1});
  BOOST_TEST(message_of(SlotText::make(layout, twice)) == "slots must fill each value of a sample, and only once");
}

BOOST_AUTO_TEST_CASE(slots_that_do_not_fit_their_fields_are_refused) {
  const auto layout = layout_of({{kIds, 2}, {kIdList}, {kFloatList}});
  BOOST_TEST(message_of(SlotText::make(layout, {})) == "slot text needs at least one slot");
  BOOST_TEST(message_of(SlotText::make(layout, {{"a", 3}})) == "slot 'a' has no such field");
  BOOST_TEST(message_of(SlotText::make(layout, {{"a", 0, 0, 0}})) == "slot 'a' does not fit its field");
  BOOST_TEST(message_of(SlotText::make(layout, {{"a", 0, 1, 2}})) == "slot 'a' does not fit its field");
  BOOST_TEST(message_of(SlotText::make(layout, {{"a", 0, 0xffffffff, 1}})) == "slot 'a' does not fit its field");
  BOOST_TEST(message_of(SlotText::make(layout, {{"a", 0, 0, 2}, {"c", 2}, {"b", 1}})) ==
             "lists must come in the order of their fields");
}

// The room that a line gets is guessed from its length: the shortest words give the most values.
BOOST_AUTO_TEST_CASE(a_long_line_of_the_shortest_values_fits) {
  const auto layout = layout_of({{kIdList}, {kFloatList}, {kIdList}});
  const std::vector<Slot> slots = {{"a", 0}, {"b", 1}, {"c", 2}};
  for (size_t count : {1, 2, 3, 511, 512, 20'000, 300'001}) {
    auto list = [&](size_t values) {
      std::string text = std::to_string(values);
      for (size_t i = 0; i < values; ++i) text += " 1";
      return text;
    };
    const std::string line = list(count) + " " + list(count) + " " + list(count + 1);
    const Outcome outcome = parse(layout, slots, line);
    BOOST_TEST(outcome.samples.size() == 1u);
    const SampleValues expected = {{{}, std::vector<int64_t>(count, 1)},
                                   {std::vector<float>(count, 1), {}},
                                   {{}, std::vector<int64_t>(count + 1, 1)}};
    BOOST_TEST((bytes_of(outcome.samples.row(0)) == row_of(*layout, expected)));
    BOOST_TEST(outcome.samples.row(0).size() <= layout->fixed_bytes() + 4 * line.size() + 8 * 4);
  }
}

BOOST_AUTO_TEST_CASE(lines_are_read_as_a_slow_reader_reads_them) {
  std::mt19937_64 random(1);
  const std::vector<std::string> words = {"0", "1", "2",   "3", "1", "1", "-1", "7.5", "18446744073709551615", "1e39",
                                          "",  "x", "-0.", "4", "2", "1", "1",  "0",   "12345678901234567",    "nan"};
  size_t good = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (size_t line = random() % 6; line > 0; --line) {
      if (random() % 2 == 0) {
        for (size_t i = random() % 14; i > 0; --i) text += words[random() % words.size()] + " \t"[random() % 2];
      } else {
        text += "1 " + std::to_string(random() % 100) + " 1 5 ";
        const size_t count = random() % 5;
        text += std::to_string(count);
        for (size_t i = 0; i < count; ++i) text += " " + words[random() % 4];
        text += random() % 8 == 0 ? " 1 8 1" : " 1 8 2 0.25 3e2";
      }
      if (line > 1 || random() % 2 == 0) text += random() % 3 == 0 ? "\r\n" : "\n";
    }
    const Outcome outcome = parse(kLayout, kSlots, text, BadLines::kSkip);
    std::vector<std::vector<std::byte>> expected;
    const std::vector<std::string> lines = lines_of(text);
    for (const std::string& line : lines) {
      if (const auto sample = slot_sample(*kLayout, kSlots, line)) expected.push_back(row_of(*kLayout, *sample));
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
