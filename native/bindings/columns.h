#pragma once

#include <nanobind/nanobind.h>

#include <vector>

#include "data/samples.h"

// What the answer of a batch is in Python: an array a matrix, (values, offsets) a list.
#define FLOTA_BATCH_COLUMNS "list[object]"

namespace flota {

// The columns of a batch as numpy arrays that own their memory.
nanobind::list to_arrays(std::vector<Column>&& columns);

}  // namespace flota
