#include "wire/codec.h"

#include <string>
#include <vector>

#include "testing.h"

using namespace flota;
using namespace flota::testing;

BOOST_AUTO_TEST_SUITE(codec)

BOOST_AUTO_TEST_CASE(fields_are_little_endian_and_lie_as_written) {
  Writer out;
  out.put(uint32_t{0x04030201});
  out.put(uint16_t{0x0605});
  out.put(uint8_t{7});
  out.pad();
  out.put(1.0f);
  out.put(int32_t{-2});
  BOOST_TEST(hex(out.bytes()) ==
             "0102030405060700"
             "0000803ffeffffff");
}

BOOST_AUTO_TEST_CASE(strings_and_arrays_end_on_a_multiple_of_eight) {
  for (size_t length = 0; length <= 17; ++length) {
    Writer out;
    out.put_string(std::string(length, 'x'));
    BOOST_TEST(out.bytes().size() == 8 + padded(length));
    std::vector<uint8_t> array(length, 9);
    out.put_array(std::span<const uint8_t>(array));
    BOOST_TEST(out.bytes().size() == 8 + 2 * padded(length));
    Reader in(out.bytes());
    BOOST_TEST(in.get_string(100) == std::string(length, 'x'));
    auto back = in.get_array<uint8_t>(length);
    BOOST_TEST(std::equal(back.begin(), back.end(), array.begin(), array.end()));
    BOOST_TEST(in.finish("it").has_value());
  }
}

BOOST_AUTO_TEST_CASE(what_was_written_is_read_back) {
  const std::vector<uint64_t> numbers = {1, ~uint64_t{0}, 3};
  Writer out;
  out.put(uint64_t{5});
  out.put_string("name");
  out.put_array(std::span<const uint64_t>(numbers));
  out.put(2.5);
  Reader in(out.bytes());
  BOOST_TEST(in.get<uint64_t>() == 5u);
  BOOST_TEST(in.get_string(10) == "name");
  auto back = in.get_array<uint64_t>(3);
  BOOST_TEST(std::equal(back.begin(), back.end(), numbers.begin(), numbers.end()));
  BOOST_TEST(reinterpret_cast<uintptr_t>(back.data()) % 8 == 0u);
  BOOST_TEST(in.get<double>() == 2.5);
  BOOST_TEST(in.left() == 0u);
  BOOST_TEST(in.finish("it").has_value());
}

BOOST_AUTO_TEST_CASE(a_read_past_the_end_gives_zeros_and_is_remembered) {
  Writer out;
  out.put(~uint32_t{0});
  Reader in(out.bytes());
  BOOST_TEST(in.get<uint64_t>() == 0u);
  BOOST_TEST(!in.ok());
  BOOST_TEST(in.get<uint32_t>() == 0u);  // although four bytes are there
  BOOST_TEST(in.get_string(10).empty());
  BOOST_TEST(in.get_array<uint8_t>(1).empty());
  auto status = in.finish("it");
  BOOST_TEST(code_of(status) == ErrorCode::kMalformed);
  BOOST_TEST(contains(message_of(status), "it is shorter"));
}

BOOST_AUTO_TEST_CASE(bytes_that_nobody_reads_are_refused) {
  Writer out;
  out.put(uint64_t{1});
  out.put(uint64_t{2});
  Reader in(out.bytes());
  in.get<uint64_t>();
  auto status = in.finish("it");
  BOOST_TEST(code_of(status) == ErrorCode::kMalformed);
  BOOST_TEST(contains(message_of(status), "it is longer"));
}

BOOST_AUTO_TEST_CASE(a_string_over_its_limit_is_refused) {
  Writer out;
  out.put_string(std::string(11, 'x'));
  Reader fits(out.bytes());
  BOOST_TEST(fits.get_string(11).size() == 11u);
  BOOST_TEST(fits.ok());
  Reader in(out.bytes());
  BOOST_TEST(in.get_string(10).empty());
  BOOST_TEST(!in.ok());
}

BOOST_AUTO_TEST_CASE(an_array_that_cannot_be_there_is_refused_before_any_arithmetic_overflows) {
  Writer out;
  for (uint64_t i = 0; i < 4; ++i) out.put(i);
  for (uint64_t count : {uint64_t{5}, uint64_t{1} << 61, (uint64_t{1} << 61) + 1, ~uint64_t{0}}) {
    Reader in(out.bytes());
    BOOST_TEST(in.get_array<uint64_t>(count).empty());
    BOOST_TEST(!in.ok());
  }
}

BOOST_AUTO_TEST_CASE(an_array_without_its_padding_is_refused) {
  const std::vector<std::byte> bytes(12);
  Reader in(bytes);
  BOOST_TEST(in.get_array<uint32_t>(3).empty());
  BOOST_TEST(!in.ok());
}

BOOST_AUTO_TEST_CASE(an_empty_message_is_a_message) {
  Reader in({});
  BOOST_TEST(in.finish("it").has_value());
  BOOST_TEST(in.get_array<uint64_t>(0).empty());
  BOOST_TEST(in.ok());
}

BOOST_AUTO_TEST_SUITE_END()
