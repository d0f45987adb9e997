#include "table/replica.h"

#include <utility>

namespace flota {

void Replica::fill(std::span<const Key> keys, const float* rows) { table_.push(PushKind::kAssign, Step{}, keys, rows); }

void Replica::touch(std::span<const Key> keys) {
  const size_t before = before_.keys.size();
  for (Key key : keys) {
    if (touched_.insert(key).second) before_.keys.push_back(key);
  }
  const auto fresh = std::span(before_.keys).subspan(before);
  before_.values.resize(before_.keys.size() * table_.dim());
  table_.pull(fresh, std::span(before_.values).subspan(before * table_.dim()), Missing::kInitial);
}

Replica::Moves Replica::take_moves() {
  Moves moves = std::exchange(before_, {});
  touched_.clear();
  std::vector<float> now(moves.values.size());
  table_.pull(moves.keys, now, Missing::kInitial);
  for (size_t i = 0; i < now.size(); ++i) moves.values[i] = now[i] - moves.values[i];
  return moves;
}

}  // namespace flota
