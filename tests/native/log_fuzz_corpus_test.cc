// What log_fuzz begins with: the target survives it.
#include <set>

#include "../fuzz/log_target.h"
#include "durable_folder.h"

using namespace flota;
using namespace flota::testing;

namespace {

const auto kCorpus = std::filesystem::path(__FILE__).parent_path().parent_path() / "fuzz" / "corpus" / "log";

}  // namespace

BOOST_AUTO_TEST_SUITE(log_fuzz_corpus)

BOOST_AUTO_TEST_CASE(the_target_survives_the_corpus_and_truncations_of_it) {
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kCorpus)) {
    const Bytes input = read_file(entry.path());
    for (size_t size = input.size() % 61; size <= input.size(); size += 61)
      fuzz::log_target(std::span(input).first(size));
    ++files;
  }
  BOOST_TEST(files >= 11u);
}

BOOST_AUTO_TEST_CASE(the_corpus_has_every_kind_of_record_and_all_of_it_is_replayed) {
  std::set<RecordKind> kinds;
  for (const auto& entry : std::filesystem::directory_iterator(kCorpus)) {
    const auto name = entry.path().filename().string();
    auto reader = read_records(entry.path());
    BOOST_REQUIRE_MESSAGE(reader, name);
    BOOST_REQUIRE_MESSAGE(reader->head(name.ends_with(".log") ? FileKind::kLog : FileKind::kSnapshot), name);
    Service service(std::chrono::milliseconds(1000), kDefaultMaxPayload, [] {});
    for (;;) {
      const auto record = reader->next();
      BOOST_REQUIRE_MESSAGE(record, name << ": " << record.error().message);
      if (!*record) break;
      const auto kind = static_cast<RecordKind>((*record)->kind);
      kinds.insert(kind);
      if (kind == RecordKind::kEnd) break;
      const auto status = service.replay(kind, (*record)->payload, reader->size());
      BOOST_REQUIRE_MESSAGE(status, name << ": " << status.error().message);
    }
  }
  for (int number = 1; number < 64; ++number) {
    const bool known =
        number <= static_cast<int>(RecordKind::kTeam) ||
        (number >= static_cast<int>(RecordKind::kHead) && number <= static_cast<int>(RecordKind::kTeams)) ||
        number == static_cast<int>(RecordKind::kEnd);
    BOOST_TEST(kinds.contains(static_cast<RecordKind>(number)) == known, "kind " << number);
  }
}

BOOST_AUTO_TEST_SUITE_END()
