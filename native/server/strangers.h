#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace flota {

// Which of too many peers that have not proven the secret is sent away for the next one. `sources` says who each is
// (source_of()), oldest first: it is the oldest of the source that has most. So a flood from one place drives out its
// own, and one from many places has to be faster than an honest peer's handshake. Requires: sources is not empty.
size_t first_to_go(std::span<const std::string* const> sources);

}  // namespace flota
