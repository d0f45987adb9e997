#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace flota {

// CRC-32C (Castagnoli) of `bytes`, continuing from the checksum of what came before (0 at the beginning).
uint32_t crc32c(std::span<const std::byte> bytes, uint32_t before = 0);

}  // namespace flota
