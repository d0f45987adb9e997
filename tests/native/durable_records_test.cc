// Files of records: what was written whole is read, a torn end is an end, and any other damage is named.
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>

#include <cstring>

#include "durable/folder.h"
#include "durable/log.h"
#include "durable/record_file.h"
#include "durable/snapshot_process.h"
#include "durable_folder.h"

using namespace flota;
using namespace flota::testing;

namespace {

const FileHead kHead{FileKind::kLog, 3, 1, 2, 77};

struct Read {
  std::vector<std::string> texts;
  bool torn = false;
  uint64_t end = 0;
};

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Result<Read> read_all(std::span<const std::byte> bytes) {
  auto source = [bytes](uint64_t offset, std::span<std::byte> into) -> Result<size_t> {
    const size_t count = std::min(into.size(), bytes.size() - static_cast<size_t>(offset));
    std::memcpy(into.data(), bytes.data() + offset, count);
    return count;
  };
  RecordReader reader(source, bytes.size(), "the log");
  FLOTA_TRY(reader.head(FileKind::kLog));
  Read read;
  for (;;) {
    FLOTA_ASSIGN(const auto record, reader.next());
    if (!record) break;
    read.texts.push_back(text_of(record->payload));
  }
  read.torn = reader.torn();
  read.end = reader.end();
  return read;
}

const std::vector<std::string> kTexts = {"a", "", "twelve bytes", std::string(100, 'x')};

// A log with these records; `ends` is where each of them ends.
Bytes sample_log(const std::filesystem::path& path, std::vector<uint64_t>* ends = nullptr) {
  Log log(value_of(Log::make_file(path, kHead)), FileHead::kBytes, 0);
  for (const auto& text : kTexts) {
    // In two parts: where they meet does not show.
    const auto bytes = std::as_bytes(std::span(text));
    value_of(log.append(7, {bytes.first(bytes.size() / 2), bytes.subspan(bytes.size() / 2)}));
    if (ends != nullptr) ends->push_back(FileHead::kBytes + log.bytes());
  }
  return read_file(path);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(durable_records, *boost::unit_test::timeout(120))

BOOST_AUTO_TEST_CASE(what_was_appended_is_read) {
  const TemporaryFolder folder;
  const auto read = value_of(read_all(sample_log(folder / "log")));
  BOOST_TEST(read.texts == kTexts);
  BOOST_TEST(!read.torn);
}

BOOST_AUTO_TEST_CASE(a_log_torn_at_any_byte_has_the_records_that_are_whole) {
  const TemporaryFolder folder;
  std::vector<uint64_t> ends;
  const Bytes log = sample_log(folder / "log", &ends);
  for (size_t size = FileHead::kBytes; size <= log.size(); ++size) {
    const auto read = value_of(read_all(std::span(log).first(size)));
    const auto whole = static_cast<size_t>(std::upper_bound(ends.begin(), ends.end(), size) - ends.begin());
    BOOST_TEST_REQUIRE(read.texts.size() == whole);
    BOOST_TEST_REQUIRE(read.end == (whole == 0 ? FileHead::kBytes : ends[whole - 1]));
    BOOST_TEST_REQUIRE(read.torn == (size != read.end));
    // What the machine leaves behind an end that never reached the disk.
    Bytes padded(read.end + size % 50);
    std::copy_n(log.begin(), read.end, padded.begin());
    BOOST_TEST_REQUIRE(value_of(read_all(padded)).texts.size() == whole);
  }
  BOOST_TEST(code_of(read_all(std::span(log).first(FileHead::kBytes - 1))) == ErrorCode::kMalformed);
}

BOOST_AUTO_TEST_CASE(every_flipped_byte_is_noticed_and_named) {
  const TemporaryFolder folder;
  std::vector<uint64_t> ends;
  Bytes log = sample_log(folder / "log", &ends);
  for (size_t i = 0; i < log.size(); ++i) {
    for (const int bit : {0x01, 0x80, 0xff}) {
      const std::byte before = log[i];
      log[i] ^= static_cast<std::byte>(bit);
      const auto read = read_all(log);
      log[i] = before;
      BOOST_TEST_REQUIRE((code_of(read) == ErrorCode::kMalformed || code_of(read) == ErrorCode::kVersion),
                         "byte " << i);
      BOOST_TEST_REQUIRE(contains(message_of(read), "the log"));
      if (i < FileHead::kBytes) continue;
      const auto record = static_cast<size_t>(std::upper_bound(ends.begin(), ends.end(), i) - ends.begin());
      const uint64_t begin = record == 0 ? FileHead::kBytes : ends[record - 1];
      const std::string where = "at byte " + std::to_string(begin) + ", in record " + std::to_string(record);
      BOOST_TEST_REQUIRE(contains(message_of(read), where), message_of(read) << ", not " << where);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_record_that_does_not_fit_is_not_there_and_the_next_one_may_be) {
  const TemporaryFolder folder;
  signal(SIGXFSZ, SIG_IGN);
  Log log(value_of(Log::make_file(folder / "log", kHead)), FileHead::kBytes, 0);
  const Bytes large(5000);
  value_of(log.append(1, {large}));
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  rlimit full = before;
  full.rlim_cur = 8000;
  setrlimit(RLIMIT_FSIZE, &full);
  const auto refused = log.append(1, {large});
  const auto small = log.append(1, {std::span(large).first(100)});
  setrlimit(RLIMIT_FSIZE, &before);
  BOOST_TEST(code_of(refused) == ErrorCode::kNoSpace);
  BOOST_TEST(contains(message_of(refused), folder.path().string()));
  value_of(small);
  value_of(log.append(1, {large}));
  value_of(log.sync());
  const auto read = value_of(read_all(read_file(folder / "log")));
  BOOST_TEST(read.texts.size() == 3u);
  BOOST_TEST(!read.torn);
}

BOOST_AUTO_TEST_CASE(a_log_goes_on_in_the_next_file_and_ends_the_one_before) {
  const TemporaryFolder folder;
  Log log(value_of(Log::make_file(folder / "one", kHead)), FileHead::kBytes, 0);
  const Bytes record(8);
  value_of(log.append(1, {record}));
  value_of(log.rotate(value_of(Log::make_file(folder / "two", kHead))));
  value_of(log.append(2, {record}));
  value_of(log.sync());
  auto one = value_of(read_records(folder / "one"));
  value_of(one.head(FileKind::kLog));
  BOOST_TEST(value_of(one.next())->kind == 1);
  BOOST_TEST(value_of(one.next())->kind == kEndRecord);
  BOOST_TEST(!value_of(one.next()).has_value());
  BOOST_TEST(value_of(read_all(read_file(folder / "two"))).texts.size() == 1u);
}

BOOST_AUTO_TEST_CASE(a_folder_is_one_process_s_and_keeps_two_snapshots_with_their_logs) {
  const TemporaryFolder temporary;
  auto folder = value_of(Folder::open(temporary / "deep/er"));
  const auto second = Folder::open(temporary / "deep/er");
  BOOST_TEST(code_of(second) == ErrorCode::kBusy);
  BOOST_TEST(contains(message_of(second), std::to_string(getpid())));
  for (uint64_t generation = 1; generation <= 5; ++generation) {
    write_file(folder.log(generation), {});
    if (generation == 1) continue;
    write_file(folder.unfinished(generation), {});
    value_of(folder.publish(generation));
    value_of(folder.prune());
  }
  BOOST_TEST(value_of(folder.snapshots()) == (std::vector<uint64_t>{4, 5}));
  BOOST_TEST(value_of(folder.logs()) == (std::vector<uint64_t>{4, 5}));
}

BOOST_AUTO_TEST_CASE(a_copy_of_the_process_sees_memory_as_it_was_and_says_why_it_failed) {
  const TemporaryFolder folder;
  const File file = value_of(File::open(folder / "file", O_RDWR | O_CREAT));
  std::string text = "before";
  auto ended = [](SnapshotProcess& process, Deadline deadline) {
    for (;;) {
      if (auto status = process.poll(deadline)) return *status;
      std::this_thread::yield();
    }
  };
  SnapshotProcess process;
  value_of(process.begin(file, [&]() -> Result<void> {
    iovec part{text.data(), text.size()};
    return file.write_at(0, {&part, 1});
  }));
  text = "after";
  value_of(ended(process, patience()));
  BOOST_TEST(text_of(read_file(folder / "file")) == "before");

  value_of(process.begin(file, [] { return Result<void>(Error{ErrorCode::kNoSpace, "it is full"}); }));
  const auto full = ended(process, patience());
  BOOST_TEST(code_of(full) == ErrorCode::kNoSpace);
  BOOST_TEST(message_of(full) == "it is full");

  value_of(process.begin(file, []() -> Result<void> {
    for (;;) pause();
  }));
  BOOST_TEST(code_of(ended(process, Deadline::after(milliseconds(1)))) == ErrorCode::kDeadline);
  BOOST_TEST(!process.at_work());

  // As where SIGCHLD is ignored: the kernel waits for it, and tells nobody.
  const auto handler = signal(SIGCHLD, SIG_IGN);
  value_of(process.begin(file, [] { return Result<void>(); }));
  value_of(ended(process, patience()));
  value_of(process.begin(file, [] { return Result<void>(Error{ErrorCode::kNoSpace, "it is full"}); }));
  BOOST_TEST(message_of(ended(process, patience())) == "it is full");
  value_of(process.begin(file, []() -> Result<void> {
    raise(SIGKILL);
    return {};
  }));
  BOOST_TEST(code_of(ended(process, patience())) == ErrorCode::kSystem);
  signal(SIGCHLD, handler);
}

BOOST_AUTO_TEST_SUITE_END()
