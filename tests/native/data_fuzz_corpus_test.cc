// What data_fuzz begins with: the target survives it.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "../fuzz/data_target.h"
#include "testing.h"

using namespace flota;

namespace {

namespace fs = std::filesystem;

const fs::path kCorpus = fs::path(__FILE__).parent_path().parent_path() / "fuzz" / "corpus" / "data";

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void run(std::string_view input) { fuzz::data_target(reinterpret_cast<const uint8_t*>(input.data()), input.size()); }

}  // namespace

BOOST_AUTO_TEST_SUITE(data_fuzz_corpus)

BOOST_AUTO_TEST_CASE(the_target_survives_the_corpus_and_every_truncation_of_it) {
  size_t files = 0;
  for (const auto& entry : fs::directory_iterator(kCorpus)) {
    const std::string input = read_file(entry.path());
    for (size_t size = 0; size <= input.size(); ++size) run(std::string_view(input).substr(0, size));
    ++files;
  }
  BOOST_TEST(files >= 16u);
}

BOOST_AUTO_TEST_CASE(the_target_survives_the_corpus_under_every_choice) {
  for (const auto& entry : fs::directory_iterator(kCorpus)) {
    const std::string input = read_file(entry.path());
    for (size_t choice = 0; choice < std::min(input.size(), fuzz::kChoices); ++choice) {
      for (int value = 0; value < 256; value += 3) {
        std::string changed = input;
        changed[choice] = static_cast<char>(value);
        run(changed);
      }
    }
  }
  BOOST_TEST(true);
}

BOOST_AUTO_TEST_SUITE_END()
