#include "server/board.h"

#include <algorithm>

namespace flota {

Result<PostReply> Board::post(const Post& message) {
  auto bytes = std::make_shared<const std::vector<std::byte>>(message.note.begin(), message.note.end());
  const std::lock_guard lock(mutex_);
  const auto found = notes_.find({message.topic, message.rank});
  const size_t before = found == notes_.end() ? 0 : found->second.bytes->size();
  if (bytes_ - before + bytes->size() > kMostBytes) {
    return Error{ErrorCode::kTooLarge, "the notes of all workers take more memory than they may, " +
                                           std::to_string(kMostBytes >> 20) + " MiB; this one was not taken"};
  }
  bytes_ += bytes->size() - before;
  notes_[{message.topic, message.rank}] = {++version_, Deadline::Clock::now(), std::move(bytes)};
  PostReply reply;
  if (const auto wish = notes_.find({Topic::kWish, 0}); wish != notes_.end()) {
    reply.wish_version = wish->second.version;
    if (reply.wish_version != message.known) reply.wish = *wish->second.bytes;
  }
  return reply;
}

std::vector<Note> Board::notes(uint32_t parts, uint64_t since, size_t enough) const {
  const auto now = Deadline::Clock::now();
  std::vector<std::pair<const std::pair<Topic, uint32_t>*, const Pinned*>> newer;
  std::vector<Note> found;
  const std::lock_guard lock(mutex_);
  for (const auto& [place, pinned] : notes_) {
    const uint32_t part = place.first == Topic::kState   ? Observe::kStates
                          : place.first == Topic::kTrace ? Observe::kTraces
                                                         : 0;
    if ((parts & part) != 0 && pinned.version > since) newer.emplace_back(&place, &pinned);
  }
  std::ranges::sort(newer, {}, [](const auto& one) { return one.second->version; });
  size_t bytes = 0;
  for (const auto& [place, pinned] : newer) {
    const auto age = std::chrono::duration_cast<std::chrono::milliseconds>(now - pinned->when);
    found.push_back({place->first, place->second, pinned->version, static_cast<uint64_t>(age.count()), *pinned->bytes});
    bytes += pinned->bytes->size();
    if (bytes > enough) break;
  }
  return found;
}

void Board::leave(uint32_t rank) {
  const std::lock_guard lock(mutex_);
  for (const Topic topic : {Topic::kState, Topic::kTrace}) {
    const auto found = notes_.find({topic, rank});
    if (found == notes_.end()) continue;
    bytes_ -= found->second.bytes->size();
    notes_.erase(found);
  }
}

}  // namespace flota
