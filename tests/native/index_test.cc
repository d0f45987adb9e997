#include "table/index.h"

#include <algorithm>
#include <random>
#include <unordered_map>
#include <vector>

#include "common/hash.h"
#include "testing.h"

using namespace flota;

namespace {

constexpr uint64_t kStep = uint64_t{1} << kSubtableBits;  // positions are multiples of it
constexpr uint64_t kLast = ~(kStep - 1);

PagePool pool;

std::vector<uint64_t> distinct_positions(size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<uint64_t> positions = {0, kStep, kLast, kLast - kStep, uint64_t{1} << 63};
  while (positions.size() < count) positions.push_back(random() & kLast);
  std::sort(positions.begin(), positions.end());
  positions.erase(std::unique(positions.begin(), positions.end()), positions.end());
  std::shuffle(positions.begin(), positions.end(), random);
  return positions;
}

// `count` neighbours: the same home line, however many lines there are.
std::vector<uint64_t> neighbours(uint64_t first, size_t count) {
  std::vector<uint64_t> positions;
  for (size_t i = 0; i < count; ++i) positions.push_back(first + i * kStep);
  return positions;
}

// Row numbers are places in `positions`, from 1 on.
Index filled(const std::vector<uint64_t>& positions) {
  Index index(pool);
  for (size_t i = 0; i < positions.size(); ++i) index.insert(positions[i], static_cast<uint32_t>(i + 1));
  return index;
}

size_t wrong_rows(const Index& index, const std::vector<uint64_t>& positions) {
  size_t wrong = 0;
  for (size_t i = 0; i < positions.size(); ++i) {
    const Entry* entry = index.find(positions[i]);
    wrong += entry == nullptr || entry->row() != i + 1 || entry->position() != positions[i];
  }
  return wrong;
}

// What lookups and export rely on: an entry lies in its home line, or in a later one that it reached through full lines
// only; entries fill a line from its front; the last line is not full.
size_t misplaced(const Index& index) {
  size_t wrong = 0;
  for (uint64_t i = 0; i < index.all_lines(); ++i) {
    const Line& line = index.lines()[i];
    bool empty_seen = false;
    for (const Entry& entry : line.entries) {
      if (entry.row() == 0) {
        empty_seen = true;
        continue;
      }
      wrong += empty_seen;
      const auto home = static_cast<uint64_t>(index.home(entry.position()) - index.lines());
      wrong += home > i;
      for (uint64_t before = home; before < i; ++before) wrong += !index.lines()[before].full();
    }
  }
  wrong += index.all_lines() > 0 && index.lines()[index.all_lines() - 1].full();
  return wrong;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(table_index)

BOOST_AUTO_TEST_CASE(an_empty_index_finds_nothing) {
  Index index(pool);
  BOOST_TEST(index.find(0) == nullptr);
  BOOST_TEST(index.find(kLast) == nullptr);
  BOOST_TEST(index.entries() == 0u);
  BOOST_TEST(index.bytes() == 0u);
}

BOOST_AUTO_TEST_CASE(finds_what_was_inserted_and_nothing_else) {
  auto positions = distinct_positions(200'000, 1);
  auto absent = std::vector<uint64_t>(positions.end() - 20'000, positions.end());
  positions.resize(positions.size() - absent.size());
  Index index = filled(positions);
  BOOST_TEST(index.entries() == positions.size());
  BOOST_TEST(wrong_rows(index, positions) == 0u);
  size_t found = 0;
  for (uint64_t position : absent) found += index.find(position) != nullptr;
  BOOST_TEST(found == 0u);
  BOOST_TEST(misplaced(index) == 0u);
}

BOOST_AUTO_TEST_CASE(every_entry_is_found_after_every_insertion) {
  auto positions = distinct_positions(600, 2);
  Index index(pool);
  for (size_t i = 0; i < positions.size(); ++i) {
    BOOST_TEST_REQUIRE(index.find(positions[i]) == nullptr);
    Entry* entry = index.insert(positions[i], static_cast<uint32_t>(i + 1));
    BOOST_TEST_REQUIRE(entry->position() == positions[i]);
    BOOST_TEST_REQUIRE(wrong_rows(index, {positions.begin(), positions.begin() + static_cast<long>(i) + 1}) == 0u);
    BOOST_TEST_REQUIRE(misplaced(index) == 0u);
  }
}

BOOST_AUTO_TEST_CASE(position_zero_is_not_mistaken_for_an_empty_entry) {
  // Empty entries hold position 0 and row 0.
  Index index(pool);
  BOOST_TEST(index.find(0) == nullptr);
  for (uint64_t i = 1; i <= 6; ++i) {
    index.insert(i * kStep, static_cast<uint32_t>(i));
    BOOST_TEST(index.find(0) == nullptr);
  }
  index.insert(0, 7);
  BOOST_TEST_REQUIRE(index.find(0) != nullptr);
  BOOST_TEST(index.find(0)->row() == 7u);
  for (uint64_t i = 1; i <= 6; ++i) BOOST_TEST(index.find(i * kStep)->row() == i);
}

BOOST_AUTO_TEST_CASE(neighbours_overflow_their_home_line_and_are_found) {
  for (uint64_t first : {uint64_t{0}, uint64_t{1} << 62, uint64_t{1} << 63, (uint64_t{1} << 63) - 700 * kStep}) {
    BOOST_TEST_CONTEXT("neighbours of " << first) {
      auto positions = neighbours(first, 1500);
      Index index = filled(positions);
      BOOST_TEST(wrong_rows(index, positions) == 0u);
      BOOST_TEST(misplaced(index) == 0u);
      BOOST_TEST(index.find(first + 1500 * kStep) == nullptr);
    }
  }
}

BOOST_AUTO_TEST_CASE(neighbours_among_random_positions_are_found) {
  auto positions = distinct_positions(20'000, 3);
  auto crowd = neighbours(uint64_t{3} << 61, 800);
  positions.insert(positions.begin() + 500, crowd.begin(), crowd.end());
  Index index = filled(positions);
  BOOST_TEST(wrong_rows(index, positions) == 0u);
  BOOST_TEST(misplaced(index) == 0u);
}

// Whoever chooses keys can choose these: hash_key() has an inverse. They must cost what other keys cost, in memory at
// least.
BOOST_AUTO_TEST_CASE(neighbours_at_the_end_of_the_range_take_no_more_memory_than_others) {
  for (size_t count : {20, 32}) {  // what the spare lines hold
    auto positions = neighbours(kLast - (count - 1) * kStep, count);
    Index index = filled(positions);
    BOOST_TEST(wrong_rows(index, positions) == 0u);
    BOOST_TEST(misplaced(index) == 0u);
  }
  auto positions = neighbours(kLast - 999 * kStep, 1000);
  Index index = filled(positions);
  BOOST_TEST(wrong_rows(index, positions) == 0u);
  BOOST_TEST(misplaced(index) == 0u);
  BOOST_TEST(index.bytes() < 1000 * 200u);
}

// The furthest that an entry is from its home, in lines.
ptrdiff_t furthest(const Index& index) {
  ptrdiff_t most = 0;
  for (uint64_t i = 0; i < index.all_lines(); ++i) {
    for (const Entry& entry : index.lines()[i].entries) {
      if (entry.row() != 0) most = std::max(most, &index.lines()[i] - index.home(entry.position()));
    }
  }
  return most;
}

BOOST_AUTO_TEST_CASE(keys_in_the_order_of_their_hashes_do_not_crowd) {
  auto positions = distinct_positions(20'000, 3);
  std::sort(positions.begin(), positions.end());
  const Index all = filled(positions);
  BOOST_TEST(wrong_rows(all, positions) == 0u);
  BOOST_TEST(misplaced(all) == 0u);
  BOOST_TEST(furthest(all) <= 17);

  // One shard alone: a sixteenth of the range, of a server among many.
  for (uint64_t& position : positions) position = ((position >> 4) & kLast) | uint64_t{3} << 60;
  positions.erase(std::unique(positions.begin(), positions.end()), positions.end());
  const Index shard = filled(positions);
  BOOST_TEST(wrong_rows(shard, positions) == 0u);
  BOOST_TEST(misplaced(shard) == 0u);
  BOOST_TEST(furthest(shard) <= 17);
}

BOOST_AUTO_TEST_CASE(keys_chosen_to_collide_take_bounded_memory) {
  const auto positions = neighbours(uint64_t{5} << 60, 3'000);
  const Index index = filled(positions);
  BOOST_TEST(wrong_rows(index, positions) == 0u);
  BOOST_TEST(index.bytes() <= positions.size() * 20 * sizeof(Line));
}

BOOST_AUTO_TEST_CASE(counters_survive_growth) {
  auto positions = distinct_positions(5'000, 4);
  Index index(pool);
  for (size_t i = 0; i < positions.size(); ++i) {
    index.insert(positions[i], static_cast<uint32_t>(i + 1))->set_counters(i, LastSeen(i * 37));
  }
  size_t wrong = 0;
  for (size_t i = 0; i < positions.size(); ++i) {
    const Entry* entry = index.find(positions[i]);
    wrong += entry->row() != i + 1 || entry->updates() != i || entry->last_seen() != i * 37;
  }
  BOOST_TEST(wrong == 0u);
}

BOOST_AUTO_TEST_CASE(a_fresh_entry_was_never_updated_and_never_seen) {
  Index index(pool);
  Entry* entry = index.insert(kLast, 1);
  BOOST_TEST(entry->updates() == 0u);
  BOOST_TEST(entry->last_seen() == 0u);
}

BOOST_AUTO_TEST_CASE(counters_are_exact_in_their_range_and_leave_key_and_row_alone) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 100'000; ++i) {
    const uint64_t position = random() & kLast;
    const auto row = static_cast<uint32_t>(1 + random() % Entry::kRowMask);
    const uint64_t updates = random() % (Entry::kMaxUpdates + 1);
    const uint64_t seen = random() % (uint64_t{1} << LastSeen::kBits);
    Entry entry{position, row};
    entry.set_counters(random() % 100, LastSeen(random()));  // what was there before does not matter
    entry.set_counters(updates, LastSeen(seen));
    if (entry.position() == position && entry.row() == row && entry.updates() == updates && entry.last_seen() == seen)
      continue;
    BOOST_FAIL("row " << row << ", updates " << updates << ", last seen " << seen << " did not come back");
  }
}

BOOST_AUTO_TEST_CASE(updates_stay_at_their_maximum) {
  Entry entry{kLast, 1};
  for (uint64_t updates : {Entry::kMaxUpdates, Entry::kMaxUpdates + 1, uint64_t{1} << 40, ~uint64_t{0}}) {
    entry.set_counters(updates, LastSeen(5));
    BOOST_TEST(entry.updates() == Entry::kMaxUpdates);
    BOOST_TEST(entry.last_seen() == 5u);
    BOOST_TEST(entry.row() == 1u);
  }
}

BOOST_AUTO_TEST_CASE(last_seen_is_rounded_down_to_18_significant_bits) {
  std::mt19937_64 random(6);
  std::vector<uint64_t> steps = {(1ull << 18) - 1, 1ull << 18,       (1ull << 18) + 1,
                                 (1ull << 19) - 1, 1'000'000'007,    ~0ull,
                                 1ull << 63,       (1ull << 63) - 1, (1ull << 46) + 1};
  for (int i = 0; i < 10'000; ++i) steps.push_back(random() >> random() % 46);
  for (uint64_t step : steps) {
    Entry entry{kLast, 9};
    entry.set_counters(3, LastSeen(step));
    const int dropped = std::max(0, static_cast<int>(std::bit_width(step)) - 18);
    BOOST_TEST(entry.last_seen() == step >> dropped << dropped);
    BOOST_TEST(entry.position() == kLast);
    // What was rounded once stays as it is: export, import and export again give the same.
    Entry again{kLast, 9};
    again.set_counters(3, LastSeen(entry.last_seen()));
    BOOST_TEST(again.last_seen() == entry.last_seen());
  }
}

BOOST_AUTO_TEST_CASE(a_key_comes_back_from_its_subtable_and_position) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 10'000; ++i) {
    const Key key = i == 0 ? 0 : random();
    const uint64_t hash = hash_key(key);
    BOOST_TEST_REQUIRE(unhash_key(hash_of_position(subtable_of_hash(hash), position_of_hash(hash))) == key);
    BOOST_TEST_REQUIRE(shard_of_hash(hash) / (kShards / kSubtables) == subtable_of_hash(hash));
  }
}

// Export walks lines and stops at a position: the first position of a line must be exactly where its home begins.
BOOST_AUTO_TEST_CASE(the_first_position_of_a_line_is_where_its_home_begins) {
  Index index = filled(distinct_positions(3'000, 8));
  for (uint64_t line = 0; line < index.home_lines(); ++line) {
    const auto first = static_cast<uint64_t>(index.first_position(line));
    BOOST_TEST_REQUIRE(index.home(first) == index.lines() + line);
    if (line > 0) BOOST_TEST_REQUIRE(index.home(first - 1) == index.lines() + line - 1);
  }
  BOOST_TEST((index.first_position(index.home_lines()) == static_cast<unsigned __int128>(1) << 64));
}

BOOST_AUTO_TEST_SUITE_END()
