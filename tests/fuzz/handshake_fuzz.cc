// What a stranger sends before it has proven the secret, to a server and, by a server, to a client: nothing may crash,
// read beyond its input or keep waiting, and nobody may be let in.
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "../native/memory_stream.h"
#include "wire/frame.h"
#include "wire/handshake.h"

namespace flota::fuzz {

// Input without a peer; what is written is taken and forgotten.
class Stranger : public testing::SpanStream {
 public:
  explicit Stranger(std::span<const std::byte> input) : SpanStream(input, false, 4096) {}

  Result<std::span<std::byte>> reserve(size_t bytes, Deadline) override {
    if (bytes > room_.size()) return Error{ErrorCode::kTooLarge, "no handshake is as long"};
    return std::span(room_).first(bytes);
  }
  Result<void> write(std::span<const std::byte>, Deadline) override { return {}; }
  Result<void> flush(Deadline) override { return {}; }

 private:
  std::array<std::byte, 4096> room_{};
};

constexpr uint32_t kMagic = 0x484c4f46;

// The first byte: which side is spoken to, and which fields are put right so that what lies behind them is reached.
inline void run(std::span<const std::byte> input) {
  if (input.empty()) return;
  const auto choice = static_cast<uint8_t>(input.front());
  std::vector<std::byte> bytes(input.begin() + 1, input.end());
  const auto put = [&](size_t at, const auto& value) {
    if (at + sizeof(value) <= bytes.size()) std::memcpy(bytes.data() + at, &value, sizeof(value));
  };
  const uint16_t version = kProtocolVersion;
  if (choice & 2) put(0, kMagic);
  if (choice & 4) put(4, version);
  if (choice & 8) put(6, version);                 // a server's newest; a client's flags
  if (choice & 16) put(kHelloBytes, uint32_t{0});  // a server's proof that says it lets one in
  Stranger stream(bytes);
  const std::string secret = "a secret that the input does not know";
  const ChannelBinding binding = choice & 32 ? kLocalBinding : kPlainBinding;
  if (choice & 1) {
    if (client_handshake(stream, secret, binding, choice & 64, Deadline::none())) std::abort();
  } else {
    bool wants_memory = false;
    if (server_handshake(stream, secret, binding, {0, 1, 7, true}, &wants_memory, Deadline::none())) std::abort();
  }
}

}  // namespace flota::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  flota::fuzz::run(std::as_bytes(std::span(data, size)));
  return 0;
}
