// A client's calls about what becomes of rows over time.
#include <numeric>

#include "client/client.h"
#include "client/small_call.h"
#include "client/with_lane.h"

namespace flota {

Result<std::vector<EraReply>> Client::era(const RemoteTable& table, Era era, Time time) {
  era.table = table.id;
  std::vector<EraReply> replies(servers());
  const std::string what = "begin an era of table '" + table.spec.name + "'";
  FLOTA_TRY(with_lane(what, time, [&](Lane& lane, Deadline deadline) {
    Writer payload;
    era.encode(payload);
    std::vector<Lane::Request> requests;
    for (uint32_t server = 0; server < servers(); ++server) {
      requests.push_back(
          {server, small_call(MessageKind::kEra, payload, [&replies, server](auto bytes) -> Result<void> {
             FLOTA_ASSIGN(replies[server], EraReply::decode(bytes));
             return {};
           })});
    }
    return lane.exchange(requests, deadline);
  }));
  return replies;
}

Result<uint64_t> Client::shrink(const RemoteTable& table, const ShrinkOptions& options, Time time) {
  std::vector<uint64_t> removed(servers());
  // In order with pushes that were made before.
  auto status = ordered_push([&, this] {
    return with_lane("shrink table '" + table.spec.name + "'", time, [&](Lane& lane, Deadline deadline) {
      std::vector<uint64_t> opened;
      std::vector<Lane::Request> requests;
      for (uint32_t server = 0; server < servers(); ++server) {
        // Made once: a request that is sent again keeps its number.
        const PushHead head = push_head(table, {});
        opened.push_back(head.sequence);
        Shrink message{table.id,        head.worker,   head.sequence,     head.oldest,      options.era, head.epoch,
                       options.max_age, options.decay, options.min_score, options.min_norm, options.all};
        Writer payload;
        message.encode(payload);
        requests.push_back(
            {server, small_call(MessageKind::kShrink, payload, [&removed, server](auto bytes) -> Result<void> {
               FLOTA_ASSIGN(ShrinkReply reply, ShrinkReply::decode(bytes));
               removed[server] = reply.removed;
               return {};
             })});
      }
      auto exchanged = lane.exchange(requests, deadline);
      for (uint64_t sequence : opened) end_push(sequence);
      return tell_doubt(exchanged);
    });
  });
  FLOTA_TRY(status);
  return std::accumulate(removed.begin(), removed.end(), uint64_t{0});
}

}  // namespace flota
