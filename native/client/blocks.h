#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/result.h"
#include "common/spec.h"

namespace flota {

enum class SplitMethod : uint8_t { kRoundRobin = 1, kHashName = 2 };

// How a dense parameter is cut and spread (Fleet's slice_var_up, min_block_size and split_method).
struct Slicing {
  bool slice = true;          // false: the parameter stays whole on one server
  uint64_t min_block = 8192;  // elements; smaller parameters are not cut
  SplitMethod method = SplitMethod::kRoundRobin;
};

struct PlacedBlock {
  BlockSpec block;
  uint32_t server = 0;
};

// The blocks of a parameter of `size` elements, in order. A pure function of its arguments: every worker comes to the
// same answer.
std::vector<PlacedBlock> place_blocks(const std::string& name, uint64_t size, const Slicing& slicing, uint32_t servers);

}  // namespace flota
