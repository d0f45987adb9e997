#pragma once

#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

// Pieces of text and what they stand for.
namespace flota {

// The id of a text, before buckets: the same on every machine and for ever, so it is only ever added to. Eight bytes at
// a time; the length tells apart texts that differ by zero bytes at their ends. `salt` is the hash_text(0, …) of the
// space that ids belong to. Texts of one space and one length of up to eight bytes never share a hash; others do as
// random numbers do. Up to 7 bytes behind the text are read, if they are before `readable`.
inline uint64_t hash_text(uint64_t salt, std::string_view text, const char* readable = nullptr) {
  auto mix = [](uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  };
  const char* at = text.data();
  size_t left = text.size();
  uint64_t hash = salt;
  for (; left > 8; at += 8, left -= 8) {
    uint64_t word = 0;
    std::memcpy(&word, at, 8);
    hash = mix(hash ^ word);
  }
  if (left > 0) {
    uint64_t word = 0;
    if (at + 8 <= readable) {
      std::memcpy(&word, at, 8);
      word &= ~uint64_t{0} >> (64 - 8 * left);
    } else {
      std::memcpy(&word, at, left);
    }
    hash = mix(hash ^ word);
  }
  return mix(hash + text.size() * 0x9e3779b97f4a7c15ull);
}

// A key of an unbounded table, or a number below `buckets`.
inline int64_t hashed_id(uint64_t hash, uint64_t buckets) {
  return static_cast<int64_t>(buckets == 0 ? hash >> 1 : hash % buckets);
}

// A whole number of 64 bits, signed or not; false: it is none, or does not fit.
inline bool parse_id(std::string_view text, int64_t& out) {
  const bool negative = !text.empty() && text[0] == '-';
  if (negative) text.remove_prefix(1);
  if (text.empty() || text.size() > 20) return false;
  uint64_t value = 0;
  for (char c : text) {
    const auto digit = static_cast<uint64_t>(c) - '0';
    if (digit > 9) return false;
    // 20 digits may overflow; 19 cannot.
    if (text.size() == 20 && (value > UINT64_MAX / 10 || value * 10 > UINT64_MAX - digit)) return false;
    value = value * 10 + digit;
  }
  if (negative && value > uint64_t{1} << 63) return false;
  out = static_cast<int64_t>(negative ? 0 - value : value);
  return true;
}

// Moves the first `count` (1 to 8) characters of a word to its end, with zeros before them; false: not all are digits.
inline bool eight_digits(uint64_t& word, size_t count) {
  const uint64_t shift = 64 - 8 * count;
  // Zeros come in below: a word's first character is its lowest byte.
  word = count == 8 ? word : (word << shift) | (0x3030303030303030ull >> (8 * count));
  constexpr uint64_t kHigh = 0xf0f0f0f0f0f0f0f0ull;
  return (word & kHigh) == 0x3030303030303030ull && ((word + 0x0606060606060606ull) & kHigh) == 0x3030303030303030ull;
}

// The number that eight digits stand for.
inline uint32_t value_of_digits(uint64_t word) {
  word -= 0x3030303030303030ull;
  word = word * 10 + (word >> 8);  // pairs, in every other byte
  constexpr uint64_t kPairs = 0x000000ff000000ffull;
  const uint64_t high = (word & kPairs) * (100 + (1000000ull << 32));
  const uint64_t low = ((word >> 16) & kPairs) * (1 + (10000ull << 32));
  return static_cast<uint32_t>((high + low) >> 32);
}

// A finite number, all of the text; false: it is none, or a double cannot hold it (1e400, 1e-400). Bytes behind the
// text are read as hash_text() reads them.
inline bool parse_number(std::string_view text, double& out, const char* readable = nullptr) {
  if (text.size() - 1 < 8 && text.data() + 8 <= readable) {
    // Most are a few digits: all at once, since their number is hard to foretell.
    uint64_t word = 0;
    std::memcpy(&word, text.data(), 8);
    if (eight_digits(word, text.size())) {
      out = static_cast<double>(value_of_digits(word));
      return true;
    }
  }
  const bool negative = text.size() > 1 && text[0] == '-';
  std::string_view digits = negative ? text.substr(1) : text;
  if (!digits.empty() && digits.size() <= 15) {
    int64_t value = 0;
    bool whole = true;
    for (char c : digits) {
      const auto digit = static_cast<unsigned char>(c - '0');
      whole &= digit <= 9;
      value = value * 10 + digit;
    }
    if (whole) {
      out = negative ? -static_cast<double>(value) : static_cast<double>(value);
      return true;
    }
  }
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  const char* end = text.data() + text.size();
  auto [stopped, error] = std::from_chars(text.data(), end, out);
  return error == std::errc() && stopped == end && std::isfinite(out);
}

// As much of a text as an error message can bear, between quotes.
inline std::string quoted(std::string_view text) {
  constexpr size_t kMost = 40;
  std::string out = "'";
  for (char c : text.substr(0, kMost)) out += c >= ' ' && c < 127 ? c : '?';
  return out + (text.size() > kMost ? "…'" : "'");
}

// Finds delimiters and newlines one after another, 64 bytes at a time. Requires: a delimiter that is not zero.
class Cutter {
 public:
  Cutter(const char* begin, const char* end, char delimiter) : base_(begin), end_(end), delimiter_(delimiter) {
    if (base_ < end_) load();
  }

  // The next delimiter or newline; the end of the text when there are no more.
  const char* next() {
    while (mask_ == 0) {
      if (end_ - base_ <= 64) {
        base_ = end_;
        return end_;
      }
      base_ += 64;
      load();
    }
    const char* found = base_ + std::countr_zero(mask_);
    mask_ &= mask_ - 1;
    return found;
  }

 private:
  void load() {
    char last[64];
    const char* from = base_;
    if (end_ - base_ < 64) {
      std::memset(last, 0, sizeof last);
      std::memcpy(last, base_, static_cast<size_t>(end_ - base_));
      from = last;
    }
#if defined(__AVX2__)
    auto half = [&](const char* at) {
      const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
      const __m256i hits = _mm256_or_si256(_mm256_cmpeq_epi8(bytes, _mm256_set1_epi8(delimiter_)),
                                           _mm256_cmpeq_epi8(bytes, _mm256_set1_epi8('\n')));
      return static_cast<uint64_t>(static_cast<uint32_t>(_mm256_movemask_epi8(hits)));
    };
    mask_ = half(from) | half(from + 32) << 32;
#else
    mask_ = 0;
    for (size_t i = 0; i < 64; ++i) {
      if (from[i] == delimiter_ || from[i] == '\n') mask_ |= uint64_t{1} << i;
    }
#endif
  }

  const char* base_;
  const char* end_;
  char delimiter_;
  uint64_t mask_ = 0;
};

}  // namespace flota
