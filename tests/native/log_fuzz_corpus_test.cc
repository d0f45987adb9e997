// What log_fuzz begins with: the target survives it.
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
  BOOST_TEST(files >= 2u);
}

BOOST_AUTO_TEST_SUITE_END()
