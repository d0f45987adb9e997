// Shuffles of all workers' samples, the workers simulated: their letters are handed over in any order.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "data/store.h"
#include "data_reference.h"
#include "data_rows.h"
#include "testing.h"

using namespace flota;
using namespace flota::testing;

namespace {

const auto kLayout =
    layout_of({{FieldKind::kIds, 1}, {FieldKind::kFloats, 1}, {FieldKind::kFloatList}, {FieldKind::kIdList}});

using Counts = std::vector<uint64_t>;
// The numbers of the samples that each worker has, in its order.
using Hands = std::vector<std::vector<uint32_t>>;

// Samples `first`, `first` + 1, …
SampleStore numbered(uint64_t first, uint64_t count) {
  SampleStore store(kLayout);
  for (uint64_t i = 0; i < count; ++i) {
    store.append(row_of(*kLayout, numbered_sample(*kLayout, static_cast<uint32_t>(first + i))));
  }
  return store;
}

std::vector<std::unique_ptr<GlobalShuffle>> begin(const Counts& counts, uint64_t seed) {
  std::vector<std::unique_ptr<GlobalShuffle>> workers;
  uint64_t first = 0;
  for (uint32_t rank = 0; rank < counts.size(); ++rank) {
    SampleStore store = numbered(first, counts[rank]);
    workers.push_back(value_of(GlobalShuffle::make(store, counts, rank, seed)));
    BOOST_TEST(store.size() == 0u);
    first += counts[rank];
  }
  return workers;
}

// Numbers of a worker's samples, each seen to be whole.
std::vector<uint32_t> finish(GlobalShuffle& worker) {
  SampleStore store(kLayout);
  value_of(worker.finish(store));
  std::vector<uint32_t> numbers;
  for (const std::byte* row : store.rows(0, store.size())) {
    const std::vector<Column> columns = gather(*kLayout, {&row, 1});
    const SampleValues sample = sample_of(columns, 0);
    numbers.push_back(static_cast<uint32_t>(sample[0].ids[0]));
    if (row_of(*kLayout, sample) != row_of(*kLayout, numbered_sample(*kLayout, numbers.back()))) {
      BOOST_TEST(false, "sample " << numbers.back() << " is not whole");
    }
  }
  return numbers;
}

// What they have after a shuffle whose letters of `letter_bytes` arrive in an order that `delivery` makes.
Hands shuffled(const Counts& counts, uint64_t seed, size_t letter_bytes = 200, uint64_t delivery = 0) {
  auto workers = begin(counts, seed);
  std::vector<GlobalShuffle::Letter> letters;
  for (const auto& worker : workers) {
    for (;;) {
      auto some = value_of(worker->next(letter_bytes));
      if (some.empty()) break;
      std::move(some.begin(), some.end(), std::back_inserter(letters));
    }
    BOOST_TEST(value_of(worker->next(letter_bytes)).empty());
  }
  std::mt19937_64 random(delivery);
  std::shuffle(letters.begin(), letters.end(), random);
  for (const GlobalShuffle::Letter& letter : letters) value_of(workers.at(letter.to)->receive(letter.bytes));
  Hands hands;
  for (const auto& worker : workers) hands.push_back(finish(*worker));
  return hands;
}

uint64_t sum(const Counts& counts) {
  uint64_t total = 0;
  for (uint64_t count : counts) total += count;
  return total;
}

// One of the two workers of a small shuffle, which has seen nothing yet, and what the other sends it.
struct Pair {
  std::unique_ptr<GlobalShuffle> worker;
  std::vector<std::byte> letter;
};

Pair pair_of_workers(size_t receiver = 0) {
  auto workers = begin({20, 20}, 3);
  auto letters = value_of(workers[1 - receiver]->next(1 << 20));
  BOOST_TEST(letters.size() == 1u);
  return {std::move(workers[receiver]), letters.at(0).bytes};
}

template <class T>
void put(std::vector<std::byte>& bytes, size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(data_shuffle)

BOOST_AUTO_TEST_CASE(every_sample_ends_with_one_worker_and_workers_have_equal_numbers) {
  for (const Counts& counts : std::vector<Counts>{{0},
                                                  {1},
                                                  {10'000},
                                                  {0, 0},
                                                  {0, 1},
                                                  {1, 0, 0, 0, 0},
                                                  {5, 0, 5},
                                                  {1, 1, 1},
                                                  {0, 9000},
                                                  {4096, 4097, 1},
                                                  {100, 7, 0, 5000, 13},
                                                  {1, 2, 3, 4, 5}}) {
    const Hands hands = shuffled(counts, 11);
    const uint64_t total = sum(counts);
    std::vector<uint32_t> all;
    for (size_t worker = 0; worker < hands.size(); ++worker) {
      const uint64_t workers = counts.size();
      BOOST_TEST(hands[worker].size() == total * (worker + 1) / workers - total * worker / workers);
      all.insert(all.end(), hands[worker].begin(), hands[worker].end());
    }
    std::sort(all.begin(), all.end());
    BOOST_TEST(all.size() == total);
    for (size_t i = 0; i < all.size(); ++i) {
      if (all[i] != i) BOOST_TEST(false, "sample " << i << " is missing or doubled");
    }
  }
}

BOOST_AUTO_TEST_CASE(sample_g_is_at_the_place_of_the_permutation) {
  const Counts counts = {300, 0, 41, 700};
  const Hands hands = shuffled(counts, 5);
  std::vector<uint32_t> order;
  for (const auto& hand : hands) order.insert(order.end(), hand.begin(), hand.end());
  const Permutation permutation(5, sum(counts));
  for (uint32_t g = 0; g < sum(counts); ++g) BOOST_TEST(order.at(permutation(g)) == g);
}

BOOST_AUTO_TEST_CASE(the_result_depends_on_the_seed_and_the_data_alone) {
  const Counts counts = {1000, 0, 300, 77};
  const Hands expected = shuffled(counts, 1);
  // Neither on how letters are cut and travel, nor on who had the samples.
  for (uint64_t delivery : {1, 2, 3}) BOOST_TEST((shuffled(counts, 1, 200, delivery) == expected));
  for (size_t letter_bytes : {size_t{0}, size_t{1}, size_t{5000}, size_t{1} << 40}) {
    BOOST_TEST((shuffled(counts, 1, letter_bytes) == expected));
  }
  BOOST_TEST((shuffled({0, 1377, 0, 0}, 1) == expected));
  BOOST_TEST((shuffled(counts, 2) != expected));
}

BOOST_AUTO_TEST_CASE(a_local_order_before_it_does_not_matter) {
  SampleStore store = numbered(0, 100);
  store.shuffle(9);
  auto worker = value_of(GlobalShuffle::make(store, {100}, 0, 4));
  BOOST_TEST(value_of(worker->next(1)).empty());
  BOOST_TEST((finish(*worker) == shuffled({100}, 4).at(0)));
}

BOOST_AUTO_TEST_CASE(each_worker_gets_samples_of_all_workers_evenly) {
  const Counts counts(5, 20'000);
  const Hands hands = shuffled(counts, 21, 1 << 20);
  double chi_square = 0;
  for (const auto& hand : hands) {
    std::vector<double> from(5);
    for (uint32_t number : hand) ++from[number / 20'000];
    for (double count : from) chi_square += (count - 4000) * (count - 4000) / 4000;
  }
  // 16 degrees of freedom.
  BOOST_TEST(chi_square < 16 + 6 * std::sqrt(32.0));
}

BOOST_AUTO_TEST_CASE(sending_and_receiving_go_on_at_the_same_time) {
  const Counts counts = {20'000, 20'000};
  auto workers = begin(counts, 8);
  std::vector<std::vector<GlobalShuffle::Letter>> letters(2);
  for (;;) {
    auto some = value_of(workers[1]->next(1000));
    if (some.empty()) break;
    std::move(some.begin(), some.end(), std::back_inserter(letters[1]));
  }
  bool failed = false;
  in_threads(2, [&](size_t thread) {
    if (thread == 0) {
      for (;;) {
        auto some = workers[0]->next(1000);
        if (!some || some->empty()) break;
        std::move(some->begin(), some->end(), std::back_inserter(letters[0]));
      }
    } else {
      for (const auto& letter : letters[1]) failed |= !workers[0]->receive(letter.bytes);
    }
  });
  BOOST_TEST(!failed);
  for (const auto& letter : letters[0]) value_of(workers[1]->receive(letter.bytes));
  BOOST_TEST((Hands{finish(*workers[0]), finish(*workers[1])} == shuffled(counts, 8)));
}

BOOST_AUTO_TEST_CASE(counts_that_cannot_be_are_refused) {
  auto refusal = [](Counts counts, uint32_t rank) {
    SampleStore store = numbered(0, 3);
    const std::string message = message_of(GlobalShuffle::make(store, std::move(counts), rank, 1));
    BOOST_TEST(store.size() == 3u);  // nothing was taken
    return message;
  };
  BOOST_TEST(refusal({}, 0) == "a shuffle's counts are not the workers'");
  BOOST_TEST(refusal({3}, 1) == "a shuffle's counts are not the workers'");
  BOOST_TEST(refusal({4, 3}, 0) == "a shuffle's counts are not the workers'");
  BOOST_TEST(refusal({3, uint64_t{1} << 32}, 0) == "more than 4 billion samples for a worker");
  // Together they are 0, and a shuffle of none would never end.
  BOOST_TEST(refusal({3, ~uint64_t{0} - 2}, 0) == "more than 4 billion samples for a worker");
}

BOOST_AUTO_TEST_CASE(a_shuffle_says_how_many_samples_are_missing) {
  Pair pair = pair_of_workers();
  SampleStore store = numbered(0, 1);
  BOOST_TEST(message_of(pair.worker->finish(store)) == "a shuffle is not over: 0 of 20 samples came");
  BOOST_TEST(store.size() == 1u);
}

BOOST_AUTO_TEST_CASE(truncated_letters_are_refused) {
  const Pair whole = pair_of_workers();
  size_t accepted = 0;
  for (size_t size = 0; size < whole.letter.size(); ++size) {
    Pair pair = pair_of_workers();
    const std::vector<std::byte> part(pair.letter.begin(), pair.letter.begin() + static_cast<std::ptrdiff_t>(size));
    const auto result = pair.worker->receive(part);
    accepted += result.has_value();
    if (!result) BOOST_TEST(code_of(result) == ErrorCode::kMalformed);
  }
  // Between samples only: before the first and after each but the last.
  uint64_t samples = 0;
  for (size_t at = 0; at < whole.letter.size(); ++samples) {
    uint64_t bytes = 0;
    std::memcpy(&bytes, whole.letter.data() + at + 8, sizeof bytes);
    at += 16 + bytes;
  }
  BOOST_TEST(accepted == samples);
}

BOOST_AUTO_TEST_CASE(letters_of_another_shape_are_refused) {
  const std::string shape = "a letter of a shuffle holds a sample of another shape";
  for (uint64_t bytes : {uint64_t{0}, uint64_t{8}, uint64_t{1} << 40, ~uint64_t{0}}) {
    Pair pair = pair_of_workers();
    put(pair.letter, 8, bytes);
    BOOST_TEST(message_of(pair.worker->receive(pair.letter)) == shape);
  }
  for (uint32_t length : {0xffffffffu, 0x80000000u, 1000u}) {
    for (size_t field : {2, 3}) {
      Pair pair = pair_of_workers();
      put(pair.letter, 16 + kLayout->offset(field), length);
      BOOST_TEST(message_of(pair.worker->receive(pair.letter)) == shape);
    }
  }
}

BOOST_AUTO_TEST_CASE(letters_for_others_are_refused) {
  for (uint64_t place : {uint64_t{20}, uint64_t{40}, ~uint64_t{0}, uint64_t{1} << 32}) {
    Pair pair = pair_of_workers();
    put(pair.letter, 0, place);
    BOOST_TEST(message_of(pair.worker->receive(pair.letter)) == "a letter of a shuffle holds another worker's sample");
  }
  for (uint64_t place : {0u, 19u, 40u}) {
    Pair pair = pair_of_workers(1);
    put(pair.letter, 0, place);
    BOOST_TEST(message_of(pair.worker->receive(pair.letter)) == "a letter of a shuffle holds another worker's sample");
  }
}

BOOST_AUTO_TEST_CASE(samples_that_come_twice_are_told) {
  Pair pair = pair_of_workers();
  while (!value_of(pair.worker->next(1 << 20)).empty()) {
  }
  value_of(pair.worker->receive(pair.letter));
  BOOST_TEST(message_of(pair.worker->receive(pair.letter)) == "more samples came than there are");

  Pair other = pair_of_workers();
  while (!value_of(other.worker->next(1 << 20)).empty()) {
  }
  // The second sample says that it is the first.
  uint64_t head[2] = {};
  std::memcpy(head, other.letter.data(), sizeof head);
  put(other.letter, 16 + head[1], head[0]);
  value_of(other.worker->receive(other.letter));
  SampleStore store(kLayout);
  BOOST_TEST(message_of(other.worker->finish(store)) == "a sample of a shuffle came twice");
}

BOOST_AUTO_TEST_CASE(a_finished_shuffle_stays_safe_to_use) {
  Pair pair = pair_of_workers();
  while (!value_of(pair.worker->next(1 << 20)).empty()) {
  }
  value_of(pair.worker->receive(pair.letter));
  BOOST_TEST(finish(*pair.worker).size() == 20u);
  BOOST_TEST(value_of(pair.worker->next(1)).empty());
  value_of(pair.worker->receive({}));
  BOOST_TEST(pair.worker->receive(std::span(pair.letter).first(9)).has_error());
  SampleStore store(kLayout);
  BOOST_TEST(pair.worker->finish(store).has_error());
}

BOOST_AUTO_TEST_SUITE_END()
