#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/result.h"
#include "wire/codec.h"

// The messages by which workers send each other blocks of bytes through servers. Each is as in wire/messages.h.
namespace flota {

// What a letter's sending begins with; `size` bytes and their padding follow.
struct SendHead {
  static constexpr uint64_t kMaxBytes = uint64_t{8} << 20;

  std::string channel;
  uint32_t from = 0;
  uint32_t to = 0;
  uint32_t world = 0;
  uint64_t incarnation = 0;  // of the sender: higher after each restart
  uint64_t sequence = 0;     // how many this sender has sent this receiver on this channel before
  uint64_t wait_ms = 0;
  bool last = false;  // the sender has no more for this receiver on this channel
  uint64_t size = 0;

  Result<void> check() const;
  void encode(Writer& out) const;
};
struct Send : SendHead {
  std::span<const std::byte> bytes;

  void encode(Writer& out) const;
  static Result<Send> decode(std::span<const std::byte> payload);
};

struct Receive {
  std::string channel;
  uint32_t to = 0;
  uint32_t world = 0;
  uint64_t taken = 0;  // letters that the receiver has got on this channel: they are forgotten
  uint64_t wait_ms = 0;

  Result<void> check() const;
  void encode(Writer& out) const;
  static Result<Receive> decode(std::span<const std::byte> payload);
};

// What the answer to a receive begins with; `size` bytes and their padding follow.
struct LetterHead {
  static constexpr size_t kBytes = 16;

  bool over = false;  // nobody sends any more; all else is 0
  bool last = false;  // the sender's last
  uint32_t from = 0;
  uint64_t size = 0;

  void encode(Writer& out) const;
  static Result<LetterHead> decode(Reader& in);
};
struct LetterReply : LetterHead {
  std::span<const std::byte> bytes;

  void encode(Writer& out) const;
  static Result<LetterReply> decode(std::span<const std::byte> payload);
};

// A letter that was sent and not yet read; copies share the bytes.
struct Letter {
  bool over = false;  // there are no more, and this is none
  bool last = false;
  uint32_t from = 0;
  std::shared_ptr<const std::vector<std::byte>> bytes;
};

}  // namespace flota
