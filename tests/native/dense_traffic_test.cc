// How dense parameters travel: in fewer bits, and only when they have changed.
#include "cluster.h"
#include "common/elements.h"

using namespace flota;
using namespace flota::testing;

namespace {

constexpr uint64_t kSize = 100;

struct Parameter {
  explicit Parameter(uint32_t servers) : cluster(servers), client(cluster.client()), versions(servers, 0) {
    TableSpec spec = uncut(kSize);
    spec.init = {InitKind::kConstant, 0.5};
    Slicing slicing;
    slicing.min_block = 16;
    table = value_of(client->create_dense(spec, slicing, kTime));
  }

  Result<void> push(std::span<const float> values, PushKind kind, Storage element, std::vector<uint64_t> seen = {}) {
    const DensePush one{&table, values, {kind, 1, 1, 1}, element, std::move(seen)};
    return client->push_dense(std::span(&one, 1), kTime);
  }
  Result<void> pull(std::span<float> out, Storage element = Storage::kFloat32) {
    const DensePull one{&table, out, element, versions};
    return client->pull_dense(std::span(&one, 1), kTime);
  }

  Cluster cluster;
  std::unique_ptr<Client> client;
  RemoteTable table;
  std::vector<uint64_t> versions;  // 0: send what was written to only
};

std::vector<float> narrowed(std::span<const float> values, Storage element) {
  std::vector<std::byte> bytes(values.size() * element_bytes(element));
  std::vector<float> back(values.size());
  narrow(element, values.data(), bytes.data(), values.size());
  widen(element, bytes.data(), back.data(), back.size());
  return back;
}

std::vector<float> thirds() {
  std::vector<float> values(kSize);
  for (size_t i = 0; i < kSize; ++i) values[i] = static_cast<float>(i) / 3 - 10;
  return values;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(dense_traffic)

BOOST_AUTO_TEST_CASE(values_travel_in_the_precision_asked_for_and_are_kept_in_float32) {
  for (uint32_t servers : {1u, 3u}) {
    for (Storage element : kStorages) {
      Parameter parameter(servers);
      const auto values = thirds();
      // An assignment is exact, whatever else travels as.
      value_of(parameter.push(values, PushKind::kAssign, element));
      std::vector<float> out(kSize);
      value_of(parameter.pull(out));
      BOOST_TEST((out == values));
      parameter.versions.assign(servers, PullDense::kNoVersion);
      value_of(parameter.pull(out, element));
      BOOST_TEST((out == narrowed(values, element)));
      // The gradient is narrowed on its way, the sum is not.
      value_of(parameter.push(values, PushKind::kGradient, element));
      const auto gradient = narrowed(values, element);
      value_of(parameter.pull(out));
      for (size_t i = 0; i < kSize; ++i) BOOST_TEST(out[i] == values[i] - gradient[i]);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_large_parameter_travels_in_pieces) {
  Cluster cluster(2);
  auto client = cluster.client();
  TableSpec spec = uncut(300'001);
  auto table = value_of(client->create_dense(spec, {}, kTime));
  const auto values = some_values(spec.size(), 3);
  value_of(client->push_dense(table, values, {PushKind::kAssign, 0, 1, 1}, kTime));
  for (Storage element : kStorages) {
    std::vector<float> out(spec.size());
    const DensePull one{&table, out, element};
    value_of(client->pull_dense(std::span(&one, 1), kTime));
    BOOST_TEST((out == narrowed(values, element)));
  }
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_is_refused_and_changes_nothing) {
  Parameter parameter(2);
  std::vector<float> values(kSize, 1);
  value_of(parameter.push(values, PushKind::kAssign, Storage::kFloat32));
  for (float large : {65520.0f, -1e6f}) {
    values[70] = large;
    auto refused = parameter.push(values, PushKind::kGradient, Storage::kFloat16);
    BOOST_TEST(code_of(refused) == ErrorCode::kNonFinite);
    BOOST_TEST(contains(message_of(refused), "element 70 is " + std::to_string(large) + ", which float16 cannot hold"));
  }
  std::vector<float> out(kSize);
  value_of(parameter.pull(out));
  BOOST_TEST((out == std::vector<float>(kSize, 1)));
  // The greatest that does fit.
  values[70] = 65519.0f;
  value_of(parameter.push(values, PushKind::kDelta, Storage::kFloat16));
  // On the way back it has become too large.
  auto refused = parameter.pull(out, Storage::kFloat16);
  BOOST_TEST(code_of(refused) == kNoError);
  value_of(parameter.push(values, PushKind::kDelta, Storage::kFloat16));
  refused = parameter.pull(out, Storage::kFloat16);
  BOOST_TEST(code_of(refused) == ErrorCode::kNonFinite);
  BOOST_TEST(contains(message_of(refused), "element 70 is 131009.000000, which float16 cannot hold"));
  value_of(parameter.pull(out, Storage::kBFloat16));
  BOOST_TEST(out[70] == 131072.0f);
}

BOOST_AUTO_TEST_CASE(the_limits_of_overflow_are_those_of_rounding) {
  for (Storage element : {Storage::kFloat16, Storage::kBFloat16}) {
    for (uint32_t bits : {0x477fefffu, 0x477ff000u, 0x7f7f7fffu, 0x7f7f8000u, 0x7f7fffffu, 0x7f800000u, 0x7fc00000u}) {
      for (uint32_t sign : {0u, 0x80000000u}) {
        std::vector<float> values(65, 1.0f);
        values[64] = std::bit_cast<float>(bits | sign);
        const bool becomes_infinite =
            std::isfinite(values[64]) && !std::isfinite(narrowed(std::span(values).subspan(64), element)[0]);
        BOOST_TEST(first_overflow(element, values.data(), 65) == (becomes_infinite ? 64u : 65u));
        std::swap(values[3], values[64]);
        BOOST_TEST(first_overflow(element, values.data(), 65) == (becomes_infinite ? 3u : 65u));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(nothing_is_sent_before_every_block_was_written_to) {
  Parameter parameter(1);
  std::vector<float> out(kSize, 7);
  value_of(parameter.pull(out));
  BOOST_TEST((out == std::vector<float>(kSize, 7)));
  BOOST_TEST(parameter.versions[0] == 0u);
  value_of(parameter.push(thirds(), PushKind::kAssign, Storage::kFloat32));
  value_of(parameter.pull(out));
  BOOST_TEST((out == thirds()));
  BOOST_TEST(parameter.versions[0] == 1u);
}

BOOST_AUTO_TEST_CASE(what_has_not_changed_is_not_sent_again) {
  Parameter parameter(3);
  value_of(parameter.push(thirds(), PushKind::kAssign, Storage::kFloat32));
  std::vector<float> out(kSize);
  auto sent = [&] { return statistic(*parameter.client, "elements_pulled", parameter.table.spec.name); };
  value_of(parameter.pull(out));
  BOOST_TEST(sent() == kSize);
  const auto versions = parameter.versions;
  value_of(parameter.pull(out));
  BOOST_TEST(sent() == kSize);
  BOOST_TEST(parameter.versions == versions, boost::test_tools::per_element());
  value_of(parameter.push(thirds(), PushKind::kDelta, Storage::kFloat32));
  value_of(parameter.pull(out));
  BOOST_TEST(sent() == 2 * kSize);
  BOOST_TEST(out[3] == 2 * thirds()[3]);
}

BOOST_AUTO_TEST_CASE(an_imported_block_is_a_change) {
  Parameter parameter(1);
  const auto values = thirds();
  const std::vector<Key> block = {0};
  const std::vector<uint64_t> one = {1};
  value_of(parameter.client->import_rows(parameter.table,
                                         {parameter.table.id, 0, true, kSize, 0, block, one, one, values, {}}, kTime));
  std::vector<float> out(kSize);
  value_of(parameter.pull(out));
  BOOST_TEST((out == values));
  BOOST_TEST(parameter.versions[0] == 1u);
}

BOOST_AUTO_TEST_CASE(the_staleness_of_dense_pushes_is_counted) {
  Parameter parameter(1);
  value_of(parameter.push(thirds(), PushKind::kAssign, Storage::kFloat32));
  std::vector<float> out(kSize);
  value_of(parameter.pull(out));
  const auto seen = parameter.versions;
  for (int times = 0; times < 3; ++times)
    value_of(parameter.push(thirds(), PushKind::kGradient, Storage::kFloat32, seen));
  const std::string& name = parameter.table.spec.name;
  BOOST_TEST(statistic(*parameter.client, "staleness_count", name) == 3u);
  BOOST_TEST(statistic(*parameter.client, "staleness_sum", name) == 0u + 1 + 2);
  BOOST_TEST(statistic(*parameter.client, "staleness_max", name) == 2u);
}

BOOST_AUTO_TEST_SUITE_END()
