// What a server does with the files that it finds in its folder: the reader of records, and what it makes of them.
#include "log_target.h"
#include "record_mutator.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const flota::testing::Payload input(std::as_bytes(std::span(data, size)));
  flota::fuzz::log_target(input.bytes());
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  return flota::fuzz::mutate_records(data, size, max_size, seed);
}
