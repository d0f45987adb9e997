#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "common/result.h"

// Little-endian fields in a fixed order. Everything is padded so that arrays begin on multiples of eight bytes and can
// be used where they lie.
namespace flota {

static_assert(std::endian::native == std::endian::little, "the wire is little-endian and so must be the host");

constexpr size_t padded(size_t bytes) { return (bytes + 7) & ~size_t{7}; }

class Writer {
 public:
  template <class T>
  void put(T value) {
    static_assert(std::is_trivially_copyable_v<T>);
    append(&value, sizeof(value));
  }
  void put_string(std::string_view text) {
    put(static_cast<uint32_t>(text.size()));
    put(uint32_t{0});
    append(text.data(), text.size());
    pad();
  }
  template <class T>
  void put_array(std::span<const T> values) {
    append(values.data(), values.size_bytes());
    pad();
  }
  void pad() {
    while (bytes_.size() % 8 != 0) bytes_.push_back(std::byte{0});
  }

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  void append(const void* data, size_t size) {
    size_t old = bytes_.size();
    bytes_.resize(old + size);
    if (size > 0) std::memcpy(bytes_.data() + old, data, size);
  }
  std::vector<std::byte> bytes_;
};

// Reads what Writer wrote. A read past the end gives zeros and is remembered: check ok() once, before using anything.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <class T>
  T get() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value{};
    if (const std::byte* at = take(sizeof(T))) std::memcpy(&value, at, sizeof(T));
    return value;
  }

  std::string get_string(size_t limit) {
    auto size = get<uint32_t>();
    get<uint32_t>();
    if (size > limit) {
      ok_ = false;
      return {};
    }
    const std::byte* at = take(size);
    std::string text = at ? std::string(reinterpret_cast<const char*>(at), size) : std::string();
    skip_padding();
    return text;
  }

  // `count` values where they lie in the message. Requires: the message lies on a multiple of eight bytes.
  template <class T>
  std::span<const T> get_array(uint64_t count) {
    if (count > left() / sizeof(T)) {
      ok_ = false;
      return {};
    }
    const std::byte* at = take(count * sizeof(T));
    skip_padding();
    if (!ok_ || count == 0) return {};
    return {reinterpret_cast<const T*>(at), count};
  }

  bool ok() const { return ok_; }
  size_t left() const { return bytes_.size() - at_; }

  // Whether everything was read, no more and no less.
  Result<void> finish(const char* what) const {
    if (!ok_) return Error{ErrorCode::kMalformed, std::string(what) + " is shorter than its fields say"};
    if (left() != 0) return Error{ErrorCode::kMalformed, std::string(what) + " is longer than its fields say"};
    return {};
  }

 private:
  const std::byte* take(size_t size) {
    if (!ok_ || size > left()) {
      ok_ = false;
      return nullptr;
    }
    const std::byte* at = bytes_.data() + at_;
    at_ += size;
    return at;
  }
  void skip_padding() { take(padded(at_) - at_); }

  std::span<const std::byte> bytes_;
  size_t at_ = 0;
  bool ok_ = true;
};

}  // namespace flota
