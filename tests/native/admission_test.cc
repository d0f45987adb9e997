#include <set>
#include <thread>

#include "sparse_rows.h"
#include "table/sparse_table.h"
#include "testing.h"

using namespace flota;

namespace {

TableSpec spec_with(const AdmissionSpec& admission, Storage storage = Storage::kFloat32) {
  TableSpec spec;
  spec.name = "users";
  spec.dim = 3;
  spec.storage = storage;
  spec.seed = 5;
  spec.init = {InitKind::kConstant, 2};
  spec.rule.lr = 1;
  spec.admission = admission;
  BOOST_TEST_REQUIRE(validate(spec).has_value());
  return spec;
}

AdmissionSpec by_count(double count, uint64_t waiting = 1 << 20) {
  return {AdmissionKind::kCount, count, 0, 0, 0, waiting};
}

std::vector<Key> numbers(Key first, size_t count) {
  std::vector<Key> keys(count);
  for (size_t i = 0; i < count; ++i) keys[i] = first + i;
  return keys;
}

void push(SparseTable& table, const std::vector<Key>& keys, uint64_t step, const Shown& shown = {}) {
  const std::vector<float> gradients(keys.size() * table.dim(), 1.0f);
  table.push(PushKind::kGradient, Step{1, 1, step}, keys, gradients.data(), shown);
}

std::vector<float> pull(SparseTable& table, const std::vector<Key>& keys) {
  std::vector<float> rows(keys.size() * table.dim());
  table.pull(keys, rows, Missing::kCreate);
  return rows;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(admission)

BOOST_AUTO_TEST_CASE(each_key_is_let_in_by_the_push_that_makes_it_enough) {
  for (const Storage storage : {Storage::kFloat32, Storage::kBFloat16}) {
    SparseTable table(spec_with(by_count(4), storage));
    const auto keys = numbers(100, 5000);
    for (uint64_t step = 1; step <= 3; ++step) {
      push(table, keys, step);
      BOOST_TEST(table.rows() == 0);
      BOOST_TEST(table.waiting() == keys.size());
    }
    for (const float value : pull(table, keys)) BOOST_TEST_REQUIRE(value == 0);
    push(table, keys, 4);
    BOOST_TEST(table.rows() == keys.size());
    BOOST_TEST(table.waiting() == 0);
    for (const float value : pull(table, keys)) BOOST_TEST_REQUIRE(value == 2);
    push(table, keys, 5);
    for (const float value : pull(table, keys)) BOOST_TEST_REQUIRE(value == 1);
  }
}

BOOST_AUTO_TEST_CASE(old_and_new_keys_of_a_push_do_not_mix) {
  // Rows that are there learn, whatever is let in beside them, also where the index grows meanwhile.
  SparseTable table(spec_with(by_count(2)));
  SparseTable all(spec_with({}));
  uint64_t step = 0;
  for (Key round = 0; round < 40; ++round) {
    const auto keys = numbers(round * 97, 400);
    push(table, keys, ++step);
    push(all, keys, step);
  }
  // A key of n pushes has learnt from all but two.
  const auto keys = numbers(0, 40 * 97 + 400);
  const auto rows = pull(table, keys);
  for (size_t i = 0; i < keys.size(); ++i) {
    size_t pushes = 0;
    for (Key round = 0; round < 40; ++round) pushes += keys[i] >= round * 97 && keys[i] < round * 97 + 400;
    const float expected = pushes < 2 ? 0.0f : 2.0f - static_cast<float>(pushes - 2);
    BOOST_TEST_REQUIRE(rows[i * 3] == expected);
  }
}

BOOST_AUTO_TEST_CASE(a_key_that_stands_twice_is_counted_twice) {
  SparseTable table(spec_with(by_count(2)));
  push(table, {7, 7, 7, 8}, 1);
  // The second let it in, the third found its row.
  BOOST_TEST(pull(table, {7})[0] == 1);
  BOOST_TEST(table.rows() == 1);
}

BOOST_AUTO_TEST_CASE(chances_are_drawn_by_seed_key_and_push_alone) {
  const AdmissionSpec half{AdmissionKind::kProbability, 0, 0.5, 0, 0, 0};
  SparseTable one(spec_with(half));
  SparseTable other(spec_with(half));
  const auto keys = numbers(0, 10000);
  auto reversed = keys;
  std::reverse(reversed.begin(), reversed.end());
  push(one, keys, 1, {nullptr, nullptr, 11});
  push(other, reversed, 1, {nullptr, nullptr, 11});
  BOOST_TEST(one.missing(keys) == other.missing(keys), boost::test_tools::per_element());
  BOOST_TEST(one.rows() > 4700);
  BOOST_TEST(one.rows() < 5300);
  // More appearances, more chances.
  SparseTable often(spec_with(half));
  const std::vector<float> shows(keys.size(), 4.0f);
  push(often, keys, 1, {shows.data(), nullptr, 11});
  BOOST_TEST(often.rows() > 9200);
  BOOST_TEST(often.rows() < 9550);
  SparseTable again(spec_with(half));
  push(again, keys, 1, {nullptr, nullptr, 12});
  BOOST_TEST(again.missing(keys).size() > 0);
  BOOST_TEST((again.missing(keys) != one.missing(keys)));
}

BOOST_AUTO_TEST_CASE(scores_let_in_go_on_and_decay) {
  SparseTable table(spec_with({AdmissionKind::kShowClick, 3, 0, 0.5, 1, 1 << 20}));
  const std::vector<float> shows = {2, 2};
  const std::vector<float> clicks = {2, 0};
  push(table, {1, 2}, 1, {shows.data(), clicks.data(), 0});  // scores 2 and 1
  BOOST_TEST(table.rows() == 0);
  push(table, {1, 2}, 2, {shows.data(), clicks.data(), 0});  // 4 and 2
  BOOST_TEST(table.rows() == 1);
  push(table, {1, 2}, 3, {shows.data(), clicks.data(), 0});  // 6 and 3
  BOOST_TEST(table.rows() == 2);
  BOOST_TEST(table.shrink({.decay = 0.5f, .min_score = 2}) == 1);  // 3 and 1.5
  const RowPage page = table.export_shard(shard_of(1), 0, 10);
  BOOST_TEST_REQUIRE(page.state.size() == kScoreFloats);
  BOOST_TEST(page.state[0] == 3);
  BOOST_TEST(page.state[1] == 3);
}

BOOST_AUTO_TEST_CASE(a_shard_that_is_full_forgets_what_it_saw_the_longest_ago) {
  SparseTable table(spec_with(by_count(2, 4 * kShards)));
  std::vector<Key> of_one_shard;
  for (Key key = 0; of_one_shard.size() < 9; ++key) {
    if (shard_of(key) == 5) of_one_shard.push_back(key);
  }
  for (size_t i = 0; i < 4; ++i) push(table, {of_one_shard[i]}, 10 + i);
  BOOST_TEST(table.waiting() == 4);
  push(table, {of_one_shard[4]}, 14);
  BOOST_TEST(table.waiting() == 3);
  BOOST_TEST(table.forgotten() == 2);
  push(table, {of_one_shard[0], of_one_shard[3]}, 15);
  BOOST_TEST(table.rows() == 1);
  BOOST_TEST((table.missing(std::vector<Key>{of_one_shard[3]}).empty()));
}

BOOST_AUTO_TEST_CASE(waiting_keys_go_out_and_in_in_pages) {
  SparseTable table(spec_with(by_count(3)));
  const auto keys = numbers(0, 20000);
  push(table, keys, 7);
  SparseTable other(spec_with(by_count(3)));
  std::set<Key> seen;
  for (uint32_t shard = 0; shard < kShards; ++shard) {
    for (uint64_t cursor = 0, done = 0; !done;) {
      const RowPage page = table.export_waiting(shard, cursor, 4);
      BOOST_TEST_REQUIRE(page.keys.size() <= 4u);
      for (const Key key : page.keys) {
        BOOST_TEST_REQUIRE(shard_of(key) == shard);
        BOOST_TEST_REQUIRE(seen.insert(key).second);
      }
      other.import_waiting(page);
      cursor = page.next;
      done = page.done;
    }
  }
  BOOST_TEST(seen.size() == keys.size());
  push(other, keys, 8);
  push(other, keys, 9);
  BOOST_TEST(other.rows() == keys.size());
}

BOOST_AUTO_TEST_CASE(removed_rows_leave_the_others_alone) {
  TableSpec spec = spec_with({});
  spec.rule = {.kind = RuleKind::kAdagrad, .lr = 0.1};
  SparseTable table(spec);
  std::vector<Key> keys;
  for (Key i = 0; i < 30000; ++i) keys.push_back(hash_key(i));
  push(table, keys, 1);
  const size_t bytes = table.bytes();
  table.begin_era(50);
  table.keep_removed(50);
  std::vector<Key> stay;
  for (const Key key : keys) {
    if (key % 3 == 0) stay.push_back(key);
  }
  push(table, stay, 2);
  const auto before = pull(table, stay);
  BOOST_TEST(table.shrink({.unseen_since = 50}) == keys.size() - stay.size());
  BOOST_TEST(table.rows() == stay.size());
  BOOST_TEST(pull(table, stay) == before, boost::test_tools::per_element());
  size_t removed = 0;
  for (uint32_t shard = 0; shard < kShards; ++shard) {
    for (uint64_t cursor = 0, done = 0; !done;) {
      const RowPage page = table.export_removed(shard, cursor, 7, 50);
      removed += page.keys.size();
      cursor = page.next;
      done = page.done;
    }
  }
  BOOST_TEST(removed == keys.size() - stay.size());
  // Their places are taken again, by rows that begin anew.
  push(table, keys, 60);
  BOOST_TEST(table.rows() == keys.size());
  BOOST_TEST(table.bytes() < bytes + bytes / 4);
  table.remove_rows(stay);
  BOOST_TEST(table.rows() == keys.size() - stay.size());
  BOOST_TEST(table.shrink({.all = true}) == keys.size() - stay.size());
  BOOST_TEST(table.rows() == 0);
  push(table, keys, 61);
  BOOST_TEST(table.rows() == keys.size());
}

BOOST_AUTO_TEST_CASE(pushes_pulls_shrinks_and_eras_at_the_same_time) {
  SparseTable table(spec_with(by_count(2)));
  std::vector<std::thread> threads;
  for (Key part = 0; part < 3; ++part) {
    threads.emplace_back([&, part] {
      for (uint64_t step = 1; step <= 60; ++step) {
        const auto keys = numbers(part * 500 + step * 10, 1000);
        push(table, keys, step);
        pull(table, keys);
      }
    });
  }
  threads.emplace_back([&] {
    for (uint64_t era = 100; era < 130; ++era) {
      table.begin_era(era);
      table.shrink({.unseen_since = era - 2, .min_norm = 0.01});
      for (uint32_t shard = 0; shard < kShards; shard += 16) {
        table.export_shard(shard, 0, 100, era);
        table.export_waiting(shard, 0, 100);
      }
    }
  });
  for (auto& thread : threads) thread.join();
  push(table, numbers(0, 100), 200);
  push(table, numbers(0, 100), 201);
  BOOST_TEST(table.missing(numbers(0, 100)).empty());
}

BOOST_AUTO_TEST_SUITE_END()
