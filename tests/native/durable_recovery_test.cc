// A server's folder gives back what the server was, or says what is wrong with it.
#include <algorithm>

#include "cluster.h"
#include "durable/log.h"
#include "durable_folder.h"
#include "server/recovery.h"

using namespace flota;
using namespace flota::testing;

namespace {

// Keeps what a service saves.
class KeptRecords final : public Journal {
 public:
  std::vector<std::pair<int, Bytes>> records;

  Result<void> write(RecordKind kind, std::initializer_list<std::span<const std::byte>> parts) override {
    Bytes bytes;
    for (const auto& part : parts) bytes.insert(bytes.end(), part.begin(), part.end());
    records.emplace_back(static_cast<int>(kind), std::move(bytes));
    return {};
  }
};

// All that a service is, in no order.
std::vector<std::pair<int, Bytes>> state_of(Service& service) {
  KeptRecords kept;
  value_of(service.save(kept));
  std::sort(kept.records.begin(), kept.records.end());
  return kept.records;
}

struct Attempt {
  Result<Recovered> recovered;
  std::string said;
};

Attempt recover_folder(const std::filesystem::path& path, bool before_damage = false, uint32_t count = 1) {
  auto folder = value_of(Folder::open(path));
  std::string said;
  RecoveryOptions options;
  options.count = count;
  options.before_damage = before_damage;
  options.service = [] { return std::make_unique<Service>(milliseconds(1000), kDefaultMaxPayload, [] {}); };
  options.say = [&](LogLevel, const std::string& line) { said += line + "\n"; };
  auto recovered = recover(folder, options);
  return {std::move(recovered), said};
}

ServerOptions durable(const std::filesystem::path& path, milliseconds snapshot_time = std::chrono::hours(1)) {
  ServerOptions options;
  options.durable.folder = path.string();
  options.durable.snapshot_time = snapshot_time;
  return options;
}

TableSpec admitting() {
  TableSpec spec = sparse_spec(2, RuleKind::kAdagrad);
  spec.name = "admitting";
  spec.admission.kind = AdmissionKind::kShowClick;
  spec.admission.threshold = 2;
  spec.admission.show_weight = 1;
  spec.admission.click_weight = 2;
  spec.admission.waiting = 1 << 20;
  return spec;
}

// What a few requests of every kind leave behind.
void train(Client& client, uint64_t seed) {
  const auto rows = value_of(client.create_sparse(zeros(3), kTime));
  const auto shown = value_of(client.create_sparse(admitting(), kTime));
  const auto dense = value_of(client.create_dense(uncut(40, RuleKind::kAdam), {}, kTime));
  const auto keys = some_keys(5, seed);
  pulled(client, rows, some_keys(3, seed + 50));
  value_of(client.push(rows, keys, some_values(15, seed), {PushKind::kGradient, 1, -1, 1}, kTime));
  for (int i = 0; i < 2; ++i) {
    value_of(client.push(shown, keys, some_values(10, seed + 1), {PushKind::kGradient, 2, -1, 1}, kTime));
  }
  value_of(client.push(shown, some_keys(3, seed + 2), some_values(6, seed), {PushKind::kGradient, 2, -1, 1}, kTime));
  value_of(client.push_dense(dense, some_values(40, seed), {PushKind::kGradient, 3, -1, 1}, kTime));
}

// Logs 1 and 2, and snapshot 2 between them.
void make_folder(const std::filesystem::path& path) {
  {
    Cluster cluster(1, durable(path));
    train(*cluster.client(), 1);
  }
  {
    // Taken a moment after it listens: what was recovered counts as nothing new, so something must be.
    Cluster cluster(1, durable(path, milliseconds(1)));
    auto client = cluster.client();
    train(*client, 2);
    BOOST_TEST_REQUIRE(reaches(*client, "snapshots", 1));
  }
  Cluster cluster(1, durable(path));
  train(*cluster.client(), 3);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(durable_recovery, *boost::unit_test::timeout(300))

BOOST_AUTO_TEST_CASE(a_snapshot_and_the_log_since_give_what_all_logs_give) {
  const TemporaryFolder folder;
  make_folder(folder.path());
  auto with = recover_folder(folder.path());
  auto state = value_of(std::move(with.recovered));
  BOOST_TEST(state.snapshot >= 2u);
  const auto expected = state_of(*state.service);
  BOOST_TEST(expected.size() > 150u);
  for (uint64_t generation = 2; generation <= state.snapshot; ++generation) {
    std::filesystem::remove(folder / ("snapshot-" + std::to_string(generation)));
  }
  auto without = value_of(std::move(recover_folder(folder.path()).recovered));
  BOOST_TEST(without.snapshot == 0u);
  BOOST_TEST((state_of(*without.service) == expected));
}

BOOST_AUTO_TEST_CASE(a_log_is_recovered_up_to_any_byte_it_is_torn_at_and_refused_for_any_flipped_one) {
  const TemporaryFolder folder;
  {
    Cluster cluster(1, durable(folder.path()));
    auto client = cluster.client();
    const auto table = value_of(client->create_sparse(zeros(1), kTime));
    const std::vector<Key> key = {7};
    const std::vector<float> one = {1};
    for (int i = 0; i < 5; ++i) value_of(client->push(table, key, one, {PushKind::kDelta, 0, 1, 1}, kTime));
  }
  const auto path = folder / "log-1";
  Bytes log = read_file(path);
  uint64_t least = 0;
  for (size_t size = 0; size <= log.size(); ++size) {
    write_file(path, std::span(log).first(size));
    const auto state = value_of(std::move(recover_folder(folder.path()).recovered));
    BOOST_TEST_REQUIRE(state.records >= least);
    least = state.records;
  }
  BOOST_TEST(least == 6u);
  for (size_t i = 0; i < log.size(); ++i) {
    log[i] ^= std::byte{0x10};
    write_file(path, log);
    log[i] ^= std::byte{0x10};
    const auto attempt = recover_folder(folder.path());
    BOOST_TEST_REQUIRE(!attempt.recovered.has_value(), "byte " << i);
    BOOST_TEST_REQUIRE(contains(message_of(attempt.recovered), path.string()));
    BOOST_TEST_REQUIRE(contains(message_of(attempt.recovered), "byte"));
  }
}

BOOST_AUTO_TEST_CASE(a_damaged_log_is_cut_before_the_damage_when_that_is_asked_for) {
  const TemporaryFolder folder;
  make_folder(folder.path());
  const auto whole = value_of(std::move(recover_folder(folder.path()).recovered));
  const auto path = folder / ("log-" + std::to_string(whole.generation));
  Bytes log = read_file(path);
  const Bytes before = log;
  log[log.size() / 2] ^= std::byte{1};
  write_file(path, log);
  const auto refused = recover_folder(folder.path());
  BOOST_TEST(code_of(refused.recovered) == ErrorCode::kMalformed);
  BOOST_TEST(contains(message_of(refused.recovered), "--recover_before_damage"));
  BOOST_TEST((read_file(path) == log));
  const auto cut = recover_folder(folder.path(), true);
  const auto& state = value_of(std::move(recover_folder(folder.path(), true).recovered));
  BOOST_TEST(cut.recovered.has_value());
  BOOST_TEST(state.log_records < whole.log_records);
  BOOST_TEST((read_file(path.string() + ".damaged-1") == log));
  BOOST_TEST(std::equal(before.begin(), before.begin() + static_cast<ptrdiff_t>(state.end), read_file(path).begin()));
}

BOOST_AUTO_TEST_CASE(when_any_byte_of_the_newest_snapshot_is_flipped_the_one_before_gives_the_same) {
  const TemporaryFolder folder;
  {
    Cluster cluster(1, durable(folder.path(), milliseconds(1)));
    auto client = cluster.client();
    const auto table = value_of(client->create_sparse(zeros(1), kTime));
    const std::vector<Key> keys = {7, 8};
    const std::vector<float> ones = {1, 1};
    value_of(client->push(table, keys, ones, {PushKind::kDelta, 0, 1, 1}, kTime));
    BOOST_TEST_REQUIRE(reaches(*client, "snapshots", 1));
  }
  const auto whole = value_of(std::move(recover_folder(folder.path()).recovered));
  const auto expected = state_of(*whole.service);
  const auto path = folder / ("snapshot-" + std::to_string(whole.snapshot));
  Bytes snapshot = read_file(path);
  for (size_t i = 0; i < snapshot.size(); ++i) {
    snapshot[i] ^= std::byte{0x04};
    write_file(path, snapshot);
    snapshot[i] ^= std::byte{0x04};
    auto attempt = recover_folder(folder.path());
    const auto state = value_of(std::move(attempt.recovered));
    BOOST_TEST_REQUIRE(state.snapshot < whole.snapshot);
    BOOST_TEST_REQUIRE((state_of(*state.service) == expected), "byte " << i);
    BOOST_TEST_REQUIRE(contains(attempt.said, "DAMAGED: " + path.string()));
    std::filesystem::remove(path.string() + ".damaged-1");
  }
}

// As when a server dies after it was filled from a checkpoint, before the snapshot of that had its name.
BOOST_AUTO_TEST_CASE(a_log_that_has_ended_with_nothing_in_it_is_nothing) {
  const TemporaryFolder folder;
  {
    auto made = value_of(Log::make_file(folder / "log-1", FileHead{FileKind::kLog, 1, 0, 1, 7}));
    Log log(std::move(made), FileHead::kBytes, 0);
    value_of(log.rotate(value_of(Log::make_file(folder / "log-2", FileHead{FileKind::kLog, 2, 0, 1, 7}))));
  }
  const auto state = value_of(recover_folder(folder.path()).recovered);
  BOOST_TEST(state.records == 0u);
  BOOST_TEST(state.snapshot == 0u);
}

BOOST_AUTO_TEST_CASE(a_log_that_is_cut_off_before_the_next_one_is_damage) {
  const TemporaryFolder folder;
  make_folder(folder.path());
  std::filesystem::remove(folder / "snapshot-2");
  const Bytes log = read_file(folder / "log-1");
  write_file(folder / "log-1", std::span(log).first(log.size() - kRecordHeadBytes));  // without its end
  const auto refused = recover_folder(folder.path());
  BOOST_TEST(code_of(refused.recovered) == ErrorCode::kMalformed);
  BOOST_TEST(contains(message_of(refused.recovered), "--recover_before_damage"));
  const auto attempt = recover_folder(folder.path(), true);
  BOOST_TEST(attempt.recovered.has_value());
  BOOST_TEST(contains(attempt.said, "put aside"));
}

BOOST_AUTO_TEST_CASE(what_was_written_down_is_replayed_whatever_the_largest_message_is_now) {
  const TemporaryFolder folder;
  constexpr uint64_t kElements = 100'000;
  {
    Cluster cluster(1, durable(folder.path()));
    auto client = cluster.client();
    const auto table = value_of(client->create_dense(uncut(kElements, RuleKind::kSgd), {}, kTime));
    value_of(client->push_dense(table, some_values(kElements, 1), {PushKind::kGradient, 1, -1, 1}, kTime));
  }
  auto opened = value_of(Folder::open(folder.path()));
  RecoveryOptions options;
  options.service = [] { return std::make_unique<Service>(milliseconds(1000), size_t{64} << 10, [] {}); };
  options.say = [](LogLevel, const std::string&) {};
  BOOST_TEST(recover(opened, options).has_value());
}

BOOST_AUTO_TEST_CASE(a_folder_of_another_server_is_refused) {
  const TemporaryFolder folder;
  {
    Cluster cluster(1, durable(folder.path()));
  }
  const auto attempt = recover_folder(folder.path(), false, 2);
  BOOST_TEST(code_of(attempt.recovered) == ErrorCode::kInvalidArgument);
  BOOST_TEST(contains(message_of(attempt.recovered), "is of server 0 of 1, and this is server 0 of 2"));
}

BOOST_AUTO_TEST_SUITE_END()
