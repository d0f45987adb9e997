#include "server/strangers.h"

#include <string_view>
#include <unordered_map>

namespace flota {

size_t first_to_go(std::span<const std::string* const> sources) {
  std::unordered_map<std::string_view, size_t> counts;
  for (const std::string* source : sources) ++counts[*source];
  size_t chosen = 0;
  for (size_t i = 1; i < sources.size(); ++i) {
    if (counts[*sources[i]] > counts[*sources[chosen]]) chosen = i;
  }
  return chosen;
}

}  // namespace flota
