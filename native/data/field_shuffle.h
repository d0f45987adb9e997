#pragma once

#include <cstdint>
#include <span>

#include "data/store.h"

namespace flota {

// The same samples in the same order, but with these parts taken from samples of a random order, each once: what a
// model loses by it is what the parts were worth. Requires: parts of the store's layout, each field once if it is a
// list.
SampleStore shuffle_fields(const SampleStore& source, std::span<const Part> parts, uint64_t seed);

}  // namespace flota
