#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <random>
#include <set>

#include "data/text.h"
#include "data_reference.h"
#include "testing.h"

using namespace flota;
using namespace flota::testing;

namespace {

std::string text_of(std::mt19937_64& random, size_t length, std::string_view letters) {
  std::string text(length, ' ');
  for (char& c : text) c = letters[random() % letters.size()];
  return text;
}

std::optional<int64_t> parsed_id(std::string_view text) {
  int64_t id = 0;
  return parse_id(text, id) ? std::optional(id) : std::nullopt;
}

bool same_bits(std::optional<double> a, std::optional<double> b) {
  if (!a || !b) return a.has_value() == b.has_value();
  return std::bit_cast<uint64_t>(*a) == std::bit_cast<uint64_t>(*b);
}

// What stands behind a number that may be read, or may not, makes no difference to it.
std::optional<double> parsed_number(std::string_view text) {
  double number = 0;
  const auto alone = parse_number(text, number) ? std::optional(number) : std::nullopt;
  for (const char after : {'\t', '0', '9', '\xff', '\0'}) {
    const std::string longer = std::string(text) + std::string(8, after);
    const std::string_view first = std::string_view(longer).substr(0, text.size());
    double again = 0;
    const bool found = parse_number(first, again, longer.data() + longer.size());
    BOOST_REQUIRE(same_bits(alone, found ? std::optional(again) : std::nullopt));
  }
  return alone;
}

// All places that a cutter finds, the end last.
std::vector<size_t> cuts_of(const char* begin, const char* end, char delimiter) {
  Cutter cutter(begin, end, delimiter);
  std::vector<size_t> places;
  const char* place = nullptr;
  do {
    place = cutter.next();
    places.push_back(static_cast<size_t>(place - begin));
  } while (place != end);
  return places;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(data_text)

// Checkpoints hold rows under these numbers. They come from a Python transcription of the formula.
BOOST_AUTO_TEST_CASE(hashes_of_texts_never_change) {
  BOOST_TEST(hash_text(0, "") == 0u);
  BOOST_TEST(hash_text(0, "a") == 0x43d345cde3090b7eu);
  BOOST_TEST(hash_text(0, "C1") == 0xc7ef52049bfda189u);
  BOOST_TEST(hash_text(0, std::string_view("\0", 1)) == 0xe220a8397b1dcdafu);
  BOOST_TEST(hash_text(0, "68fd1e64") == 0x45c39a78eaac88e9u);
  BOOST_TEST(hash_text(0, "123456789") == 0xb56dcf0629103df6u);
  BOOST_TEST(hash_text(0, "0123456789abcdef") == 0x31d84d7513b35dfcu);
  BOOST_TEST(hash_text(0, "0123456789abcdefg") == 0xa36d64d428295ac1u);
  BOOST_TEST(hash_text(0, "K\xc3\xb6ln") == 0xdb31afe6726d2dd2u);
  BOOST_TEST(hash_text(hash_text(0, "C1"), "68fd1e64") == 0x2e0929d61efb5b00u);
  BOOST_TEST(hash_text(hash_text(0, "C1"), "") == 0xeb01e5788db24fefu);
  BOOST_TEST(hash_text(~uint64_t{0}, "x") == 0xfef7b5100ec8603eu);
}

BOOST_AUTO_TEST_CASE(ids_of_texts_never_change) {
  BOOST_TEST(hashed_id(0x45c39a78eaac88e9u, 0) == 0x22e1cd3c75564474);
  BOOST_TEST(hashed_id(~uint64_t{0}, 0) == INT64_MAX);
  BOOST_TEST(hashed_id(0x45c39a78eaac88e9u, 1000) == 0x45c39a78eaac88e9 % 1000);
  BOOST_TEST(hashed_id(~uint64_t{0}, 1) == 0);
}

// With what is readable behind a text it is read in one go; the bytes there must not count.
BOOST_AUTO_TEST_CASE(a_hash_does_not_depend_on_what_follows_the_text) {
  std::mt19937_64 random(1);
  for (size_t length = 0; length <= 40; ++length) {
    const std::string text = text_of(random, length, "abcdefgh\xff");
    for (size_t behind = 0; behind <= 16; ++behind) {
      // Of exactly this size, so that a sanitizer sees a read beyond it.
      const std::unique_ptr<char[]> memory(new char[length + behind]);
      std::memcpy(memory.get(), text.data(), length);
      for (size_t i = 0; i < behind; ++i) memory[length + i] = static_cast<char>(random());
      const std::string_view part(memory.get(), length);
      BOOST_TEST(hash_text(7, part, memory.get() + length + behind) == hash_text(7, text));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_million_short_texts_have_ids_of_their_own) {
  std::vector<uint64_t> ids;
  std::mt19937_64 random(2);
  std::set<std::string> texts = {""};
  for (int a = 0; a < 256; ++a) texts.insert(std::string(1, static_cast<char>(a)));
  for (int a = 0; a < 65536; ++a) texts.insert({static_cast<char>(a >> 8), static_cast<char>(a)});
  while (texts.size() < 400'000) texts.insert(text_of(random, 1 + random() % 8, "0123456789abcdef"));
  while (texts.size() < 500'000)
    texts.insert(text_of(random, 1 + random() % 8, std::string_view("\0\1\2\4\x80\xff 0", 8)));
  for (const std::string& text : texts) ids.push_back(hash_text(9, text) >> 1);
  // And numbers, as most ids are.
  for (int i = 20'000'000; i < 20'500'000; ++i) ids.push_back(hash_text(9, std::to_string(i) + "#") >> 1);
  std::sort(ids.begin(), ids.end());
  BOOST_TEST((std::adjacent_find(ids.begin(), ids.end()) == ids.end()));
  BOOST_TEST(ids.size() >= 1'000'000u);
}

// There are more texts of up to eight bytes than hashes, so no promise can be made beyond equal lengths.
BOOST_AUTO_TEST_CASE(texts_of_different_lengths_can_share_a_hash) {
  BOOST_TEST(hash_text(0, "\x24\x08\xa1\xbb\x69\xd6\xeb\x08") == hash_text(0, "a"));
}

BOOST_AUTO_TEST_CASE(texts_that_differ_in_one_bit_or_by_zeros_have_different_hashes) {
  std::string text = "the quick brown fox jumps";
  std::set<uint64_t> hashes = {hash_text(0, text)};
  for (size_t bit = 0; bit < text.size() * 8; ++bit) {
    std::string changed = text;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << bit % 8));
    hashes.insert(hash_text(0, changed));
  }
  for (size_t zeros = 1; zeros <= 20; ++zeros) hashes.insert(hash_text(0, text + std::string(zeros, '\0')));
  for (size_t zeros = 1; zeros <= 20; ++zeros) hashes.insert(hash_text(0, std::string(zeros, '\0')));
  BOOST_TEST(hashes.size() == 1 + text.size() * 8 + 40);
}

BOOST_AUTO_TEST_CASE(ids_are_read_to_the_last_bit) {
  BOOST_TEST((parsed_id("0") == 0));
  BOOST_TEST((parsed_id("-0") == 0));
  BOOST_TEST((parsed_id("-1") == -1));
  BOOST_TEST((parsed_id("9223372036854775807") == INT64_MAX));
  BOOST_TEST((parsed_id("-9223372036854775808") == INT64_MIN));
  BOOST_TEST((parsed_id("18446744073709551615") == -1));
  BOOST_TEST((parsed_id("9223372036854775808") == INT64_MIN));
  BOOST_TEST((parsed_id("00000000000000000042") == 42));
}

BOOST_AUTO_TEST_CASE(what_is_no_id_is_refused) {
  for (std::string_view text : {"",
                                "-",
                                "+1",
                                "--1",
                                "-+1",
                                " 1",
                                "1 ",
                                "1.0",
                                "1e3",
                                "0x10",
                                "a",
                                "18446744073709551616",
                                "99999999999999999999",
                                "-9223372036854775809",
                                "-18446744073709551615",
                                "000000000000000000001",
                                "1\r",
                                "\xff",
                                "/",
                                ":",
                                "1\xb1"}) {
    BOOST_TEST(!parsed_id(text).has_value(), "took " << quoted(text));
  }
  BOOST_TEST(!parsed_id(std::string_view("1\0", 2)).has_value());
}

BOOST_AUTO_TEST_CASE(ids_are_read_as_a_slow_reader_reads_them) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 300'000; ++i) {
    std::string text = text_of(random, random() % 22, i % 4 == 0 ? "0123456789-+ e." : "0123456789");
    if (i % 3 == 0) text.insert(0, "-");
    if (i % 5 == 0) text = std::to_string(static_cast<int64_t>(random()));
    if (parsed_id(text) != id_in(text)) BOOST_TEST(false, "differs for " << quoted(text));
  }
}

BOOST_AUTO_TEST_CASE(numbers_are_read_as_the_nearest_double) {
  for (const char* text : {"0",
                           "-0",
                           "-0.0",
                           "1",
                           "+1",
                           "+1.5",
                           "-1.5e-3",
                           "1E+5",
                           ".5",
                           "5.",
                           "+.5",
                           "123456789012345",
                           "1234567890123456",
                           "999999999999999",
                           "-999999999999999",
                           "9007199254740993",
                           "0.1",
                           "2.2250738585072011e-308",
                           "4.9e-324",
                           "1.7976931348623157e308",
                           "0e999",
                           "00000000000000000000000000000000000000001",
                           "179769313486231570000000000000000000000000000000000000000000000000000000000000000000000"}) {
    BOOST_TEST(same_bits(parsed_number(text), std::strtod(text, nullptr)), text);
  }
}

BOOST_AUTO_TEST_CASE(what_is_no_finite_number_is_refused) {
  for (std::string_view text : {"",      "-",   "+",     ".",    "nan",   "-nan",   "NaN",   "inf", "+inf", "-Infinity",
                                "1e400", "1e",  "1e+",   "0x10", "0x1p3", "++1",    "+-1",   "-+1", "--1",  " 1",
                                "1 ",    "1,5", "1_000", "1f",   "e5",    "1e-400", "1.2.3", "1\r", "/",    ":"}) {
    BOOST_TEST(!parsed_number(text).has_value(), "took " << quoted(text));
  }
  BOOST_TEST(!parsed_number(std::string_view("1\0", 2)).has_value());
  BOOST_TEST(!parsed_number(std::string_view("\0", 1)).has_value());
}

BOOST_AUTO_TEST_CASE(digits_are_the_only_characters_of_whole_numbers) {
  std::mt19937_64 random(11);
  for (size_t length = 1; length <= 9; ++length) {
    for (size_t place = 0; place < length; ++place) {
      std::string text = text_of(random, length, "0123456789");
      for (int c = 0; c < 256; ++c) {
        text[place] = static_cast<char>(c);
        const bool point = c == '.' && length > 1;
        const bool exponent = (c == 'e' || c == 'E') && place > 0 && place + 1 < length;
        const bool sign = (c == '-' || c == '+') && place == 0 && length > 1;
        const bool expected = (c >= '0' && c <= '9') || point || sign;
        const auto found = parsed_number(text);
        if (!exponent && found.has_value() != expected) BOOST_TEST(false, quoted(text));
        if (found) BOOST_TEST(same_bits(found, std::strtod(text.c_str(), nullptr)), text);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(numbers_are_read_as_a_slow_reader_reads_them) {
  std::mt19937_64 random(4);
  for (int i = 0; i < 300'000; ++i) {
    std::string text = text_of(random, random() % 20, i % 4 == 0 ? "0123456789-+.eE x" : "0123456789");
    if (i % 3 == 0) text.insert(0, "-");
    if (i % 5 == 0) text.insert(random() % (text.size() + 1), ".");
    if (i % 7 == 0) text += "e" + std::to_string(static_cast<int>(random() % 800) - 400);
    if (!same_bits(parsed_number(text), number_in(text))) BOOST_TEST(false, "differs for " << quoted(text));
  }
}

BOOST_AUTO_TEST_CASE(quotes_are_short_and_printable) {
  BOOST_TEST(quoted("") == "''");
  BOOST_TEST(quoted("a\tb\x7f") == "'a?b?'");
  BOOST_TEST(quoted(std::string(40, 'x')) == "'" + std::string(40, 'x') + "'");
  BOOST_TEST(quoted(std::string(41, 'x')) == "'" + std::string(40, 'x') + "…'");
}

BOOST_AUTO_TEST_CASE(a_cutter_finds_what_a_search_finds_wherever_the_text_begins) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 20'000; ++i) {
    const size_t length = random() % 300;
    const size_t shift = i % 64;
    const char delimiter = "\t,;\xff\x01"[i % 5];
    std::string letters(1 + random() % 40, 'x');
    letters += delimiter;
    letters += '\n';
    letters += '\0';
    const std::string text = text_of(random, length, letters);
    const std::unique_ptr<char[]> memory(new char[shift + length]);
    std::memcpy(memory.get() + shift, text.data(), length);
    std::vector<size_t> expected;
    for (size_t at = 0; at < length; ++at) {
      if (text[at] == delimiter || text[at] == '\n') expected.push_back(at);
    }
    expected.push_back(length);
    const char* begin = memory.get() + shift;
    if (cuts_of(begin, begin + length, delimiter) != expected) BOOST_TEST(false, "differs, length " << length);
  }
}

BOOST_AUTO_TEST_CASE(a_cutter_stays_at_the_end) {
  const std::string text = std::string(63, 'x') + "\n" + std::string(64, 'x');
  const char* end = text.data() + text.size();
  Cutter cutter(text.data(), end, '\t');
  BOOST_TEST((cutter.next() == text.data() + 63));
  for (int i = 0; i < 3; ++i) BOOST_TEST((cutter.next() == end));
  Cutter empty(nullptr, nullptr, '\t');
  for (int i = 0; i < 3; ++i) BOOST_TEST((empty.next() == nullptr));
}

BOOST_AUTO_TEST_SUITE_END()
