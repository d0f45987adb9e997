#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include "wire/stream.h"

// Streams without a peer.
namespace flota::testing {

// Gives the input in pieces, as a network does, and then is closed; keeps what is written.
class MemoryStream : public BufferedStream {
 public:
  using Piece = std::function<size_t()>;

  explicit MemoryStream(
      std::vector<std::byte> input = {}, Piece piece = [] { return SIZE_MAX; })
      : input_(std::move(input)), piece_(std::move(piece)) {}

  const std::vector<std::byte>& output() const { return output_; }
  void close() override {}

 protected:
  Result<size_t> read_some(std::span<std::byte> out, Deadline) override {
    size_t count = std::min({out.size(), input_.size() - at_, std::max<size_t>(1, piece_())});
    if (count == 0) return Error{ErrorCode::kUnavailable, "the connection was closed"};
    std::memcpy(out.data(), input_.data() + at_, count);
    at_ += count;
    return count;
  }
  Result<void> write_all(std::span<const std::byte> bytes, Deadline) override {
    output_.insert(output_.end(), bytes.begin(), bytes.end());
    return {};
  }

 private:
  std::vector<std::byte> input_;
  Piece piece_;
  size_t at_ = 0;
  std::vector<std::byte> output_;
};

// Shows the input where it lies, so that a sanitizer sees a read beyond it, and takes nothing. Without buffers: cheap
// enough to be made for every input of a fuzz target.
class SpanStream : public Stream {
 public:
  SpanStream(std::span<const std::byte> input, bool in_memory, size_t peek_limit)
      : input_(input), in_memory_(in_memory), peek_limit_(peek_limit) {}

  Result<std::span<const std::byte>> peek(size_t bytes, Deadline) override {
    if (bytes > input_.size()) return Error{ErrorCode::kUnavailable, "the connection was closed"};
    return input_.first(bytes);
  }
  size_t peek_limit() const override { return peek_limit_; }
  bool has_input() const override { return !input_.empty(); }
  void consume(size_t bytes) override { input_ = input_.subspan(bytes); }
  Result<void> read(std::span<std::byte> out, Deadline deadline) override {
    FLOTA_ASSIGN(auto bytes, peek(out.size(), deadline));
    if (!out.empty()) std::memcpy(out.data(), bytes.data(), out.size());
    consume(out.size());
    return {};
  }
  Result<std::span<std::byte>> reserve(size_t, Deadline) override { return closed(); }
  void commit(size_t) override {}
  Result<void> write(std::span<const std::byte>, Deadline) override { return closed(); }
  Result<void> flush(Deadline) override { return closed(); }
  void close() override {}
  bool in_memory() const override { return in_memory_; }

 private:
  static Error closed() { return {ErrorCode::kUnavailable, "nobody reads this"}; }

  std::span<const std::byte> input_;
  bool in_memory_;
  size_t peek_limit_;
};

}  // namespace flota::testing
