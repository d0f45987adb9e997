// Files of samples and letters of a shuffle: see data_target.h.
#include <random>

#include "data_target.h"

// libFuzzer's, or the driver's in standalone_main.cc.
extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace flota::fuzz {
namespace {

// What texts are made of. Random bytes alone hardly ever make a whole line.
constexpr std::string_view kWords[] = {"0",
                                       "1",
                                       "2",
                                       "3",
                                       "1 1",
                                       "2 1 2",
                                       "\t",
                                       ",",
                                       "|",
                                       ":",
                                       ";",
                                       " ",
                                       "\n",
                                       "\r\n",
                                       "\r",
                                       "\xff",
                                       "-",
                                       "+",
                                       ".",
                                       "e",
                                       "7",
                                       "a",
                                       "bb",
                                       "0.5",
                                       "1e39",
                                       "1e400",
                                       "nan",
                                       "inf",
                                       "-0",
                                       "1e-400",
                                       "4096",
                                       "4095",
                                       "0x10",
                                       "-1",
                                       "1.5e3",
                                       "\t\t",
                                       "||",
                                       "1|2",
                                       "1\t0",
                                       "\n1",
                                       "99999999999",
                                       "18446744073709551615",
                                       "18446744073709551616",
                                       "-9223372036854775808",
                                       "123456789012345678",
                                       "a text of more than sixteen bytes",
                                       std::string_view("\0", 1)};

// Puts a word, or a stretch of the text itself, into the text; or takes some bytes out of it.
size_t mutate_text(uint8_t* data, size_t size, size_t max_size, std::mt19937_64& random) {
  const size_t at = kChoices + random() % (size - kChoices + 1);
  if (random() % 4 == 0) {
    const size_t length = std::min<size_t>(1 + random() % 8, size - at);
    std::memmove(data + at, data + at + length, size - at - length);
    return size - length;
  }
  std::string put(kWords[random() % std::size(kWords)]);
  if (random() % 4 == 0) {
    const size_t from = kChoices + random() % (size - kChoices + 1);
    put.assign(reinterpret_cast<const char*>(data) + from, std::min<size_t>(size - from, 1 + random() % 40));
  }
  put.resize(std::min(put.size(), max_size - size));
  std::memmove(data + at + put.size(), data + at, size - at);
  std::memcpy(data + at, put.data(), put.size());
  return size + put.size();
}

// Changes a number of the first sample of a letter.
void mutate_letter(uint8_t* data, size_t size, std::mt19937_64& random) {
  if (size < kChoices + 16) return;
  const uint64_t value = random() >> random() % 64;
  const size_t at = kChoices + random() % ((size - kChoices) / 8) * 8;
  std::memcpy(data + at, &value, 8);
}

// Letters as the other workers would send them to the one that receives.
size_t real_letters(uint8_t* data, size_t size, size_t max_size) {
  Input input;
  std::copy_n(data, std::min(size, kChoices), input.choices.begin());
  for (uint32_t rank = 0; rank < chosen_workers(input); ++rank) {
    if (rank == chosen_receiver(input)) continue;
    auto [store, counts] = chosen_shuffle(input, rank);
    auto shuffle = GlobalShuffle::make(store, counts, rank, input[kSeed]);
    auto some = (*shuffle)->next(1 << 20);
    for (const GlobalShuffle::Letter& letter : *some) {
      if (letter.to != chosen_receiver(input) || letter.bytes.size() > max_size - size) continue;
      std::memcpy(data + size, letter.bytes.data(), letter.bytes.size());
      size += letter.bytes.size();
    }
  }
  return size;
}

size_t mutate(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  std::mt19937_64 random(seed);
  if (max_size < kChoices || random() % 16 == 0) return LLVMFuzzerMutate(data, size, max_size);
  if (size < kChoices) {
    std::memset(data + size, 0, kChoices - size);
    size = kChoices;
  }
  if (random() % 4 == 0) data[random() % kChoices] = static_cast<uint8_t>(random());
  if (data[kWhat] % 3 == 2) {
    if (random() % 2 == 0) size = real_letters(data, kChoices, max_size);
    if (random() % 2 == 0) mutate_letter(data, size, random);
    return size;
  }
  for (uint64_t i = 1 + random() % 4; i > 0; --i) size = mutate_text(data, size, max_size, random);
  return size;
}

}  // namespace
}  // namespace flota::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  flota::fuzz::data_target(data, size);
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  return flota::fuzz::mutate(data, size, max_size, seed);
}
