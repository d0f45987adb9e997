// A client's calls about who the job's workers are.
#include "client/client.h"
#include "client/small_call.h"
#include "client/with_lane.h"

namespace flota {

Result<TeamReply> Client::team(TeamRequest message, Time time) {
  const bool all = message.part == TeamPart::kLeave;
  std::vector<TeamReply> answers(all ? servers() : 1);
  if (message.part == TeamPart::kJoin || message.part == TeamPart::kPin) message.wait_ms = wait_at_server(time);
  const char* const what = message.part == TeamPart::kJoin    ? "join the job"
                           : message.part == TeamPart::kScale ? "change the number of workers"
                           : message.part == TeamPart::kLeave ? "leave the job"
                                                              : "ask for the number of workers";
  FLOTA_TRY(with_lane(what, time, [&](Lane& lane, Deadline deadline) {
    Writer payload;
    message.encode(payload);
    std::vector<Lane::Request> requests;
    for (uint32_t server = 0; server < answers.size(); ++server) {
      requests.push_back(
          {server, small_call(MessageKind::kTeam, payload, [&answers, server](auto bytes) -> Result<void> {
             FLOTA_ASSIGN(answers[server], TeamReply::decode(bytes));
             return {};
           })});
    }
    return lane.exchange(requests, deadline);
  }));
  return answers[0];
}

}  // namespace flota
