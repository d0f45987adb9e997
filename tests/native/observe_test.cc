#include <map>
#include <set>

#include "cluster.h"
#include "common/histogram.h"
#include "server/board.h"
#include "server/heat.h"
#include "server/requests.h"

using namespace flota;
using namespace flota::testing;

namespace {

std::vector<std::byte> bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}
std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

PostReply posted(Board& board, Topic topic, uint32_t rank, const std::string& text, uint64_t known = 0) {
  const auto bytes = bytes_of(text);
  return value_of(board.post({topic, rank, known, bytes}));
}

std::string shown(const Board& board, uint32_t parts, uint64_t since = 0, size_t enough = 1 << 20) {
  std::string text;
  for (const Note& note : board.notes(parts, since, enough)) {
    text += std::string(to_string(note.topic)) + " " + std::to_string(note.rank) + " " + text_of(note.bytes) + ";";
  }
  return text;
}

uint64_t value_of_name(const ObserveReply& reply, const std::string& table, const std::string& name) {
  for (const Statistic& one : reply.statistics) {
    if (one.table == table && one.name == name) return one.value;
  }
  BOOST_FAIL("there is no " << name);
  return 0;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(observe)

BOOST_AUTO_TEST_CASE(buckets_follow_each_other_without_gaps_and_are_a_fifth_wide) {
  for (size_t bucket = 0; bucket < Histogram::kBuckets; ++bucket) {
    const uint64_t begin = Histogram::begin_of(bucket);
    BOOST_TEST(Histogram::bucket_of(begin) == bucket);
    if (bucket > 0) BOOST_TEST(Histogram::bucket_of(begin - 1) == bucket - 1);
    if (bucket > 4) BOOST_TEST(begin <= Histogram::begin_of(bucket - 1) * 5 / 4);
  }
  BOOST_TEST(Histogram::bucket_of(~uint64_t{0}) == Histogram::kBuckets - 1);
  BOOST_TEST(Histogram::begin_of(Histogram::kBuckets - 1) > 30'000'000'000u);
}

BOOST_AUTO_TEST_CASE(requests_are_counted_by_kind_from_all_threads) {
  Requests requests;
  std::vector<std::thread> threads;
  for (int i = 0; i < 12; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 1000; ++j) requests.add(MessageKind::kPull, std::chrono::microseconds(5), 100, 200);
      requests.add(MessageKind::kBarrier, std::chrono::seconds(1), 8, 8);
    });
  }
  for (auto& thread : threads) thread.join();
  const auto counts = requests.counts();
  BOOST_REQUIRE(counts.size() == 2u);
  BOOST_TEST((counts[0].kind == MessageKind::kPull));
  BOOST_TEST(counts[0].count == 12'000u);
  BOOST_TEST(counts[0].bytes_in == 1'200'000u);
  BOOST_TEST(counts[0].bytes_out == 2'400'000u);
  BOOST_TEST(counts[0].nanoseconds == 60'000'000u);
  BOOST_REQUIRE(counts[0].buckets.size() == 1u);
  BOOST_TEST(counts[0].buckets[0].first == Histogram::bucket_of(5000));
  BOOST_TEST(counts[0].buckets[0].second == 12'000u);
  BOOST_TEST((counts[1].kind == MessageKind::kBarrier));
  BOOST_TEST(counts[1].buckets.empty());  // it waits for people
}

BOOST_AUTO_TEST_CASE(a_key_that_every_pull_asks_for_is_hotter_than_one_that_few_do) {
  Heat heat;
  std::vector<Key> keys(1024);
  std::mt19937_64 random(7);
  for (int pull = 0; pull < 4000; ++pull) {
    for (Key& key : keys) key = 1'000'000 + random() % 10'000'000;
    keys[random() % 512] = 5;                           // in each of them
    if (pull % 3 == 0) keys[512 + random() % 512] = 6;  // in every third
    heat.sample(keys);
  }
  const TableHeat found = heat.look(2);
  BOOST_TEST(found.sampled > 12'000u);
  BOOST_TEST(found.sampled < 20'000u);
  BOOST_REQUIRE(found.keys.size() == 2u);
  BOOST_TEST(found.keys[0].key == 5u);
  BOOST_TEST(found.keys[0].count <= 4000u);
  uint64_t sum = 0;
  for (uint32_t shard : found.shards) sum += shard;
  BOOST_TEST(sum == found.sampled);
}

BOOST_AUTO_TEST_CASE(an_order_of_keys_that_repeats_itself_hides_none) {
  // A pull of exactly as many keys as lie between two of the sample, always in the same order.
  Heat heat;
  std::vector<Key> keys(Heat::kDistance);
  for (size_t i = 0; i < keys.size(); ++i) keys[i] = i;
  for (int pull = 0; pull < 8000; ++pull) heat.sample(keys);
  const TableHeat found = heat.look(1000);
  BOOST_TEST(found.keys.size() == keys.size());
  for (const auto& [key, count] : found.keys) BOOST_TEST(count > 8u);  // of about 31 each
}

BOOST_AUTO_TEST_CASE(what_was_hot_once_cools_down) {
  Heat heat;
  const std::vector<Key> before(size_t{1} << 20, 1);
  const std::vector<Key> after(size_t{1} << 20, 2);
  for (int i = 0; i < 64; ++i) heat.sample(before);
  for (int i = 0; i < 256; ++i) heat.sample(after);
  const TableHeat found = heat.look(2);
  BOOST_TEST(found.keys[0].key == 2u);
  BOOST_TEST(found.sampled < (1u << 18));
}

BOOST_AUTO_TEST_CASE(the_heat_of_all_shards_comes_over_the_wire) {
  ObserveReply reply;
  reply.heat = {{"users", 17, std::vector<uint32_t>(kShards, 3), {}}};
  Writer out;
  reply.encode(out);
  const ObserveReply found = value_of(ObserveReply::decode(out.bytes()));
  BOOST_REQUIRE(found.heat.size() == 1u);
  BOOST_TEST(found.heat[0].shards == reply.heat[0].shards);
}

BOOST_AUTO_TEST_CASE(the_heat_of_a_table_that_nobody_asked_is_nothing) {
  const TableHeat found = Heat().look(8);
  BOOST_TEST(found.sampled == 0u);
  BOOST_TEST(found.shards.empty());
  BOOST_TEST(found.keys.empty());
}

BOOST_AUTO_TEST_CASE(a_note_takes_the_place_of_the_one_before_it) {
  Board board;
  posted(board, Topic::kState, 0, "a");
  posted(board, Topic::kState, 1, "b");
  posted(board, Topic::kTrace, 0, "t");
  posted(board, Topic::kState, 0, "c");
  BOOST_TEST(shown(board, Observe::kStates) == "state 1 b;state 0 c;");
  BOOST_TEST(shown(board, Observe::kStates | Observe::kTraces) == "state 1 b;trace 0 t;state 0 c;");
  BOOST_TEST(shown(board, Observe::kHeat) == "");
  BOOST_TEST(shown(board, Observe::kAll, 3) == "state 0 c;");
  BOOST_TEST(shown(board, Observe::kAll, 0, 0) == "state 1 b;");  // and the rest when asked again
  board.leave(0);
  BOOST_TEST(shown(board, Observe::kAll) == "state 1 b;");
}

BOOST_AUTO_TEST_CASE(a_wish_comes_back_with_each_note_until_it_is_known) {
  Board board;
  BOOST_TEST(posted(board, Topic::kState, 0, "a").wish_version == 0u);
  posted(board, Topic::kWish, 0, "please");
  const PostReply first = posted(board, Topic::kState, 0, "b");
  BOOST_TEST(text_of(first.wish) == "please");
  const PostReply second = posted(board, Topic::kState, 0, "c", first.wish_version);
  BOOST_TEST(second.wish_version == first.wish_version);
  BOOST_TEST(second.wish.empty());
  BOOST_TEST(shown(board, Observe::kAll) == "state 0 c;");  // a wish is not shown
}

BOOST_AUTO_TEST_CASE(notes_take_bounded_memory) {
  Board board;
  const std::string large(most_bytes(Topic::kTrace), 'x');
  uint32_t taken = 0;
  for (uint32_t rank = 0; rank < 100; ++rank) {
    const auto bytes = bytes_of(large);
    const auto reply = board.post({Topic::kTrace, rank, 0, bytes});
    if (reply) {
      ++taken;
    } else {
      BOOST_TEST(code_of(reply) == ErrorCode::kTooLarge);
    }
  }
  BOOST_TEST(taken == 64u);
  posted(board, Topic::kTrace, 0, "small");  // in place of a large one
}

BOOST_AUTO_TEST_CASE(a_server_tells_who_looks_on_what_it_does) {
  Cluster cluster(2);
  auto worker = cluster.client();
  TableSpec spec = sparse_spec(2);
  spec.name = "users";
  const RemoteTable table = value_of(worker->create_sparse(spec, kTime));
  std::vector<Key> keys(20'000);
  for (size_t i = 0; i < keys.size(); ++i) keys[i] = i;
  std::vector<float> rows(keys.size() * 2);
  for (int i = 0; i < 3; ++i) value_of(worker->pull(table, keys, rows, true, kTime));
  const auto note = bytes_of("{}");
  value_of(worker->post({Topic::kState, 1, 0, note}, kTime));

  ClientOptions options = cluster.options();
  options.looks_on = true;
  auto looker = value_of(Client::connect(options, kTime));
  for (uint32_t server = 0; server < 2; ++server) {
    const ObserveReply found = value_of(looker->observe(server, {Observe::kAll, 0}, kTime));
    BOOST_TEST(value_of_name(found, "users", "rows_pulled") > 20'000u);
    BOOST_TEST(value_of_name(found, "", "memory_bytes") > 1'000'000u);
    const auto pulls = std::ranges::find(found.requests, MessageKind::kPull, &RequestCounts::kind);
    BOOST_REQUIRE((pulls != found.requests.end()));
    BOOST_TEST(pulls->count == 3u);
    BOOST_TEST(pulls->bytes_out > 3 * rows.size() / 3 * sizeof(float));
    BOOST_REQUIRE(found.heat.size() == 1u);
    BOOST_TEST(found.heat[0].table == "users");
    BOOST_TEST(found.heat[0].sampled > 30u);
    BOOST_TEST(found.notes.size() == (server == 0 ? 1u : 0u));
  }
  BOOST_TEST(code_of(looker->observe(2, {}, kTime)) == ErrorCode::kInvalidArgument);
}

BOOST_AUTO_TEST_CASE(who_looks_on_sees_the_servers_that_are_there) {
  Cluster cluster(2);
  ClientOptions options = cluster.options();
  options.looks_on = true;
  cluster.servers[1]->stop();
  auto looker = value_of(Client::connect(options, kTime));
  value_of(looker->observe(0, {Observe::kAll, 0}, kTime));
  BOOST_TEST(!looker->observe(1, {}, milliseconds(300)));
}

BOOST_AUTO_TEST_SUITE_END()
