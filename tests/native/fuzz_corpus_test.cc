// The corpus of the fuzz targets: that it is there, that the targets survive it, and how it is made.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "../fuzz/frame_fuzz.cc"
#include "testing.h"

using namespace flota;
using namespace flota::testing;

// Only the driver of a fuzz target mutates.
extern "C" size_t LLVMFuzzerMutate(uint8_t*, size_t size, size_t) { return size; }

namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<std::byte>;

const fs::path kCorpus = fs::path(__FILE__).parent_path().parent_path() / "fuzz" / "corpus" / "frame";

Bytes frame_of(MessageKind kind, const Bytes& payload, bool checked, uint64_t request = 1) {
  Bytes frame(kHeaderBytes);
  const uint16_t flags = checked ? kFlagChecksum : 0;
  encode_header({kind, flags, request, payload.size()}, std::span(frame).first<kHeaderBytes>());
  frame.insert(frame.end(), payload.begin(), payload.end());
  if (!checked) return frame;
  const uint64_t sum = crc32c(payload);
  const auto trailer = std::as_bytes(std::span(&sum, 1));
  frame.insert(frame.end(), trailer.begin(), trailer.end());
  return frame;
}

Bytes joined(const Bytes& a, const Bytes& b) {
  Bytes all = a;
  all.insert(all.end(), b.begin(), b.end());
  return all;
}

// Requests that find the tables which service_fuzz makes.
Bytes retargeted(Bytes payload, const std::string& table) {
  const uint64_t id = hash_name(table);
  std::memcpy(payload.data(), &id, sizeof(id));
  return payload;
}

// File names and contents: each message as a frame with and without a checksum, and bare; requests for the tables of
// service_fuzz; several frames in a row; and the ways in which a frame can be wrong.
std::map<std::string, Bytes> corpus() {
  std::map<std::string, Bytes> files;
  Bytes conversation;
  for (const Sample& sample : all_samples()) {
    const std::string name = sample.name;
    files[name + ".frame"] = frame_of(sample.kind, sample.payload, true);
    files[name + ".unchecked"] = frame_of(sample.kind, sample.payload, false);
    files[name + ".payload"] = sample.payload;
    conversation = joined(conversation, frame_of(sample.kind, sample.payload, true, files.size()));
  }
  files["conversation"] = conversation;
  files["statistics.frame"] = frame_of(MessageKind::kStatistics, {}, true);
  files["shutdown.frame"] = frame_of(MessageKind::kShutdown, {}, true);
  files["rows_reply.frame"] = frame_of(MessageKind::kReply, sample_rows_reply(), true);

  const Bytes pull = frame_of(MessageKind::kPull, retargeted(sample_pull(), "users"), true);
  const Bytes pull_dense =
      frame_of(MessageKind::kPullDense, encoded(PullDense{hash_name("tower/weight"), {0, 2}}), true);
  const Bytes page = frame_of(MessageKind::kExport, encoded(Export{hash_name("users"), 0, 770, 10}), true);
  const Bytes block = frame_of(MessageKind::kExport, encoded(Export{hash_name("tower/weight"), 0, 2, 1}), true);
  files["users_pull.frame"] = pull;
  files["tower_pull.frame"] = pull_dense;
  files["users_pull_and_export"] = joined(pull, joined(page, block));
  Writer push;
  PushHead head = sample_push_head(2, 16);
  head.table = hash_name("users");
  head.encode(push);
  const std::array<Key, 2> keys = {1, 42};
  const std::array<float, 32> values = {1, -1, 0.5};
  push.put_array(std::span<const Key>(keys));
  push.put_array(std::span<const float>(values));
  const Bytes users_push = frame_of(MessageKind::kPush, taken(push), true);
  files["users_push_twice"] = joined(users_push, users_push);
  Writer dense;
  head.table = hash_name("tower/weight");
  head.count = 1;
  head.dim = 0;
  head.encode(dense);
  const std::array<uint32_t, 1> blocks = {2};
  const std::array<float, 36> block_values = {0.25};
  dense.put_array(std::span<const uint32_t>(blocks));
  dense.put_array(std::span<const float>(block_values));
  files["tower_push.frame"] = frame_of(MessageKind::kPushDense, taken(dense), true);
  head.element = Storage::kFloat16;
  Writer half;
  head.encode(half);
  const std::array<uint16_t, 36> half_values = {0x3c00, 0x7c00};  // one of them an infinity
  half.put_array(std::span<const uint32_t>(blocks));
  half.put_array(std::span<const uint16_t>(half_values));
  files["tower_push_half.frame"] = frame_of(MessageKind::kPushDense, taken(half), true);
  files["tower_pull_half.frame"] = frame_of(
      MessageKind::kPullDense, encoded(PullDense{hash_name("tower/weight"), {0, 2}, 0, Storage::kBFloat16}), true);
  files["advance_of_one.frame"] = frame_of(MessageKind::kAdvance, encoded(Advance{"a", 1, 0, 0, 1, 1, false}), true);
  LeaseRequest lease = sample_lease();
  lease.wait_ms = 0;
  lease.ttl_ms = 100;
  const Bytes take = frame_of(MessageKind::kLease, encoded(lease), true);
  const Bytes restore = frame_of(MessageKind::kRestoreLeases, encoded(sample_lease_states()), true);
  const Bytes states = frame_of(MessageKind::kLeaseStates, {}, true);
  files["lease_twice_and_restore"] = joined(joined(take, take), joined(states, joined(restore, take)));
  const std::array<std::byte, 5> text = {std::byte{9}};
  const Bytes letter =
      frame_of(MessageKind::kSend, encoded(Send{{"c", 0, 0, 1, 0, 0, 1, true, text.size()}, text}), true);
  const Bytes first = frame_of(MessageKind::kReceive, encoded(Receive{"c", 0, 1, 0, 0}), true);
  const Bytes second = frame_of(MessageKind::kReceive, encoded(Receive{"c", 0, 1, 1, 0}), true);
  files["send_and_receive"] = joined(joined(letter, first), joined(second, joined(letter, second)));
  files["barrier_of_one.frame"] = frame_of(MessageKind::kBarrier, encoded(Barrier{"b", 0, 0, 1, 1, {}}), true);

  Bytes wrong = pull;
  wrong[4] = std::byte{2};
  files["wrong_version"] = wrong;
  wrong = pull;
  wrong.back() ^= std::byte{1};
  wrong[kHeaderBytes + 3] ^= std::byte{1};
  files["wrong_checksum"] = wrong;
  files["truncated"] = Bytes(pull.begin(), pull.begin() + 50);
  Bytes large(kHeaderBytes);
  encode_header({MessageKind::kPush, kFlagChecksum, 1, ~uint64_t{7}}, std::span(large).first<kHeaderBytes>());
  files["too_large"] = large;
  return files;
}

Bytes read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(fuzz_corpus)

BOOST_AUTO_TEST_CASE(the_corpus_holds_every_message_of_this_version) {
  for (const auto& [name, bytes] : corpus()) {
    BOOST_TEST((read_file(kCorpus / name) == bytes),
               name << " differs; write it again: flota_tests --run_test=fuzz_corpus/write_the_corpus");
  }
}

BOOST_AUTO_TEST_CASE(the_target_survives_the_corpus) {
  size_t files = 0;
  for (const auto& entry : fs::directory_iterator(kCorpus)) {
    const Bytes bytes = read_file(entry.path());
    BOOST_TEST(LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()) == 0);
    ++files;
  }
  BOOST_TEST(files >= corpus().size());
}

BOOST_AUTO_TEST_CASE(the_target_survives_every_truncation_of_the_corpus) {
  for (const auto& [name, bytes] : corpus()) {
    for (size_t length = 0; length < std::min<size_t>(bytes.size(), 400); length += 4) {
      LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), length);
    }
  }
  BOOST_TEST(true);
}

// Writes the files of corpus() into the source tree; others there, such as inputs that once failed, stay.
BOOST_AUTO_TEST_CASE(write_the_corpus, *boost::unit_test::disabled()) {
  fs::create_directories(kCorpus);
  for (const auto& [name, bytes] : corpus()) {
    std::ofstream file(kCorpus / name, std::ios::binary);
    file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    BOOST_TEST(file.good());
  }
}

BOOST_AUTO_TEST_SUITE_END()
