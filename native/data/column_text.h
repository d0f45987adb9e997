#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/parsed.h"
#include "data/samples.h"

namespace flota {

// Words and their ids: 1, 2, … in the order given; 0 is for all others.
class Vocabulary {
 public:
  explicit Vocabulary(const std::vector<std::string>& words);

  size_t size() const { return ids_.size(); }
  int64_t find(std::string_view word) const {
    auto found = ids_.find(word);
    return found == ids_.end() ? 0 : found->second;
  }

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view word) const;
  };
  boost::unordered_flat_map<std::string, int64_t, Hash, std::equal_to<>> ids_;
};

// What the text of a column stands for.
enum class Conversion : uint8_t {
  kSkip = 0,
  kNumber = 1,      // (number - shift) / scale
  kLogNumber = 2,   // log(1 + number); 0 for a negative one
  kLabel = 3,       // 0 or 1
  kHash = 4,        // an id by hash_text()
  kRawId = 5,       // the id itself
  kVocabulary = 6,  // a word's number
};

struct TextColumn {
  std::string name;
  Conversion conversion = Conversion::kSkip;
  uint32_t field = 0;
  uint32_t position = 0;  // in a field that is a matrix
  double shift = 0;
  double scale = 1;
  std::optional<double> missing = std::nullopt;  // what an empty text stands for; of ids, a whole number
  uint64_t salt = 0;
  uint64_t buckets = 0;  // 0: ids of 63 bits
  char separator = 0;    // between the values of a list
  std::shared_ptr<const Vocabulary> vocabulary = {};
};

// Lines of columns between delimiters, without quotes. Thread safety: any thread, once made.
class ColumnText {
 public:
  static Result<ColumnText> make(std::shared_ptr<const Layout> layout, std::vector<TextColumn> columns, char delimiter);

  // Appends a sample for each line. The last line may lack its newline.
  Parsed parse(std::string_view text, BadLines policy, Samples& out) const;

 private:
  // A column as each line needs it.
  struct Step {
    const Vocabulary* vocabulary = nullptr;
    uint64_t salt = 0;
    uint64_t buckets = 0;
    double shift = 0;
    double scale = 1;
    int64_t missing_id = 0;
    float missing_number = 0;
    uint32_t offset = 0;  // of the value in a row, or of a list's length
    Conversion conversion = Conversion::kSkip;
    bool may_miss = false;
    char separator = 0;
  };
  struct Place {
    std::byte* row;
    std::byte* tail;
    const char* readable;  // the end of the text
  };

  static Step step_of(const TextColumn& column, const Layout& layout);
  static bool id_of(const Step& step, std::string_view text, const char* readable, int64_t& id);
  // False: the text is wrong; fault_of() tells why.
  static bool convert(const Step& step, std::string_view text, Place& place);
  static bool convert_list(const Step& step, std::string_view text, Place& place);
  std::string fault_of(size_t column, std::string_view text) const;
  std::string wrong_count(size_t count) const;

  std::shared_ptr<const Layout> layout_;
  std::vector<TextColumn> columns_;
  std::vector<Step> steps_;  // of each column
  char delimiter_ = '\t';
};

}  // namespace flota
