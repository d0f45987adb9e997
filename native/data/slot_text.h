#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/parsed.h"
#include "data/samples.h"

namespace flota {

// Where the values of one slot go.
struct Slot {
  std::string name;
  uint32_t field = 0;
  uint32_t position = 0;  // in a field that is a matrix: the first of its places
  uint32_t width = 0;     // how many values there must be; a list takes any number
  bool binary = false;    // of floats: each must be 0 or 1
};

// Text as Paddle's data generators print it: a sample a line; for each slot in order the number of its values and then
// the values, between spaces. Thread safety: any thread, once made.
class SlotText {
 public:
  static Result<SlotText> make(std::shared_ptr<const Layout> layout, std::vector<Slot> slots);

  // Appends a sample for each line. The last line may lack its newline; an empty line is a fault.
  Parsed parse(std::string_view text, BadLines policy, Samples& out) const;

 private:
  Result<size_t> parse_line(std::string_view line, std::byte* row) const;

  std::shared_ptr<const Layout> layout_;
  std::vector<Slot> slots_;
};

}  // namespace flota
