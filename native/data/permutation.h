#pragma once

#include <bit>
#include <cstdint>

namespace flota {

// An order of 0 … size-1 that looks random and is a pure function of the seed: each place is computed by itself, so
// that processes which hold a part each agree on the whole. A Feistel network over the next even power of two, walked
// until it is back below `size`.
class Permutation {
 public:
  Permutation(uint64_t seed, uint64_t size)
      : seed_(seed),
        size_(size),
        half_((std::bit_width(size > 1 ? size - 1 : 1) + 1) / 2),
        rounds_(half_ <= 2 ? kRoundsOfFew : kRounds) {}

  // Requires: number < size.
  uint64_t operator()(uint64_t number) const {
    do {
      number = scramble(number);
    } while (number >= size_);
    return number;
  }

 private:
  static constexpr int kRounds = 6;
  // Rounds of one or two bits mix little: after six of them some places of up to 16 are 9% more likely than others.
  static constexpr int kRoundsOfFew = 12;

  uint64_t scramble(uint64_t number) const {
    const uint64_t mask = (uint64_t{1} << half_) - 1;
    uint64_t left = number >> half_;
    uint64_t right = number & mask;
    for (int round = 0; round < rounds_; ++round) {
      uint64_t z = right + seed_ + static_cast<uint64_t>(round + 1) * 0x9e3779b97f4a7c15ull;
      z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
      z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
      z ^= z >> 31;
      const uint64_t next = (left ^ z) & mask;
      left = right;
      right = next;
    }
    return left << half_ | right;
  }

  uint64_t seed_;
  uint64_t size_;
  int half_;
  int rounds_;
};

}  // namespace flota
