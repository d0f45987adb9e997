#include "data/field_shuffle.h"

#include <cstring>
#include <vector>

#include "data/permutation.h"

namespace flota {
namespace {

constexpr size_t round_up(size_t bytes) { return (bytes + 7) / 8 * 8; }

uint32_t length_at(const Layout& layout, const std::byte* row, uint32_t list) {
  uint32_t length = 0;
  std::memcpy(&length, row + layout.offset(list), sizeof length);
  return length;
}

// Goes through the lists of a row, one after another.
class Lists {
 public:
  Lists(const Layout& layout, const std::byte* row) : layout_(layout), row_(row), next_(row + layout.fixed_bytes()) {}

  std::span<const std::byte> next(uint32_t list) {
    const size_t bytes = round_up(length_at(layout_, row_, list) * layout_.fields()[list].element_bytes());
    const std::span<const std::byte> values(next_, bytes);
    next_ += bytes;
    return values;
  }

 private:
  const Layout& layout_;
  const std::byte* row_;
  const std::byte* next_;
};

}  // namespace

SampleStore shuffle_fields(const SampleStore& source, std::span<const Part> parts, uint64_t seed) {
  const Layout& layout = source.layout();
  std::vector<bool> taken(layout.fields().size());
  for (const Part& part : parts) taken[part.field] = layout.fields()[part.field].is_list();
  const Permutation permutation(seed, source.size());
  const std::vector<const std::byte*> rows = source.rows(0, source.size());
  SampleStore out(source.shared_layout());
  std::vector<std::byte> row;
  for (size_t i = 0; i < rows.size(); ++i) {
    const std::byte* donor = rows[permutation(i)];
    row.assign(rows[i], rows[i] + layout.fixed_bytes());
    for (const Part& part : parts) {
      const Field& field = layout.fields()[part.field];
      const size_t from = layout.offset(part.field) + part.position * field.element_bytes();
      const size_t bytes = field.is_list() ? sizeof(uint32_t) : part.width * field.element_bytes();
      std::memcpy(row.data() + from, donor + from, bytes);
    }
    Lists own(layout, rows[i]);
    Lists others(layout, donor);
    for (uint32_t list : layout.lists()) {
      const std::span<const std::byte> kept = own.next(list);
      const std::span<const std::byte> given = others.next(list);
      const std::span<const std::byte> values = taken[list] ? given : kept;
      row.insert(row.end(), values.begin(), values.end());
    }
    out.append(row);
  }
  return out;
}

}  // namespace flota
