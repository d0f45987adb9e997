#pragma once

#include <array>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "wire/era_messages.h"
#include "wire/frame.h"
#include "wire/lease_messages.h"
#include "wire/mail_messages.h"
#include "wire/messages.h"
#include "wire/observe_messages.h"
#include "wire/rejoin_messages.h"
#include "wire/team_messages.h"

// One sample of every message, and what decodes it: for the tests of the wire and as the seed of the fuzz corpus.
namespace flota::testing {

// A payload on a multiple of eight bytes and exactly as long as it is, so that a sanitizer sees a read beyond it.
class Payload {
 public:
  explicit Payload(std::span<const std::byte> bytes) : bytes_(bytes.begin(), bytes.end()) {}
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

// Decodes, and encodes again what was decoded.
using Transcode = Result<std::vector<std::byte>> (*)(std::span<const std::byte>);

inline std::vector<std::byte> taken(const Writer& out) { return {out.bytes().begin(), out.bytes().end()}; }

template <class Message>
Result<std::vector<std::byte>> transcode(std::span<const std::byte> payload) {
  FLOTA_ASSIGN(Message message, Message::decode(payload));
  Writer out;
  message.encode(out);
  if constexpr (requires { message.keys, message.values; }) {
    out.put_array(message.keys);
    out.put_array(message.values);
    out.put_array(message.shows);
    out.put_array(message.clicks);
  } else if constexpr (requires { message.blocks, message.values; }) {
    out.put_array(message.blocks);
    out.put_array(message.values);
  } else if constexpr (std::is_same_v<Message, Pull>) {
    out.put_array(message.keys);
  }
  return taken(out);
}

struct Sample {
  const char* name;
  MessageKind kind;
  std::vector<std::byte> payload;
  Transcode transcode;
};

inline TableSpec sample_spec(bool dense) {
  TableSpec spec;
  spec.name = dense ? "tower/weight" : "users";
  spec.kind = dense ? TableKind::kDense : TableKind::kSparse;
  spec.storage = dense ? Storage::kBFloat16 : Storage::kFloat32;
  spec.allow_nonfinite = dense;
  spec.seed = 0x0102030405060708;
  spec.init = dense ? InitSpec{InitKind::kTruncatedNormal, 0, 1, -2, 2} : InitSpec{InitKind::kUniform, -0.5, 0.5};
  if (dense) {
    spec.shape = {4, 25};
    spec.rule.kind = RuleKind::kAdamW;
    spec.rule.steps = StepSource::kPush;
    spec.rule.weight_decay = 0.25;
    spec.rule.beta1 = 0.5;
    spec.rule.beta2 = 0.75;
    spec.rule.epsilon = 0.125;
    spec.rule.amsgrad = true;
    spec.blocks = {{0, 0, 48}, {2, 64, 36}};
  } else {
    spec.dim = 16;
    spec.rule.kind = RuleKind::kAdagrad;
    spec.rule.lr = 0.5;
    spec.rule.epsilon = 0.125;
    spec.rule.initial_accumulator = 2;
  }
  if (!dense) spec.admission = {AdmissionKind::kShowClick, 10, 0, 0.125, 1, 4096};
  return spec;
}

inline PushHead sample_push_head(uint32_t count, uint32_t dim) {
  PushHead head;
  head.table = 0x1112131415161718;
  head.worker = 0x2122232425262728;
  head.sequence = 9;
  head.oldest = 4;
  head.step = 1000;
  head.seen = 0x51;
  head.epoch = 3;
  head.rank = 2;
  head.kind = PushKind::kDelta;
  head.lr = 0.5;
  head.scale = 0.25;
  head.count = count;
  head.dim = dim;
  return head;
}

template <class Message>
std::vector<std::byte> encoded(const Message& message) {
  Writer out;
  message.encode(out);
  return taken(out);
}

inline std::vector<std::byte> sample_pull() {
  const std::array<Key, 3> keys = {0, 42, ~uint64_t{0}};
  Writer out;
  PullHead{0x1112131415161718, 3, 16, false}.encode(out);
  out.put_array(std::span<const Key>(keys));
  return taken(out);
}

inline std::vector<std::byte> sample_rows_reply() {
  const std::array<float, 6> values = {1, 2, 3, 4, 5, 6};
  Writer out;
  RowsHead{7, 2, 3}.encode(out);
  out.put_array(std::span<const float>(values));
  return taken(out);
}

inline std::vector<std::byte> sample_push() {
  const std::array<Key, 3> keys = {7, 8, 9};
  const std::array<float, 3> values = {1, -2, 0.5};
  Writer out;
  sample_push_head(3, 1).encode(out);
  out.put_array(std::span<const Key>(keys));
  out.put_array(std::span<const float>(values));
  return taken(out);
}

inline std::vector<std::byte> sample_push_told() {
  const std::array<Key, 3> keys = {7, 8, 9};
  const std::array<float, 3> values = {1, -2, 0.5};
  const std::array<float, 3> shows = {3, 1, 2};
  const std::array<float, 3> clicks = {1, 0, 2};
  PushHead head = sample_push_head(3, 1);
  head.told = 2;
  Writer out;
  head.encode(out);
  out.put_array(std::span<const Key>(keys));
  for (const auto& column : {values, shows, clicks}) out.put_array(std::span<const float>(column));
  return taken(out);
}

inline std::vector<std::byte> sample_push_dense() {
  const std::array<uint32_t, 3> blocks = {0, 2, 5};
  const std::array<float, 4> values = {1, 2, 3, 4};
  Writer out;
  sample_push_head(3, 0).encode(out);
  out.put_array(std::span<const uint32_t>(blocks));
  out.put_array(std::span<const float>(values));
  return taken(out);
}

inline std::vector<std::byte> sample_push_dense_half() {
  const std::array<uint32_t, 1> blocks = {2};
  const std::array<uint16_t, 3> values = {0x3f80, 0x4000, 0xbf80};
  PushHead head = sample_push_head(1, 0);
  head.element = Storage::kBFloat16;
  Writer out;
  head.encode(out);
  out.put_array(std::span<const uint32_t>(blocks));
  out.put_array(std::span<const uint16_t>(values));
  return taken(out);
}

inline std::vector<std::byte> sample_rows() {
  const std::array<Key, 2> keys = {5, 6};
  const std::array<uint64_t, 2> updates = {3, 4};
  const std::array<uint64_t, 2> last_seen = {30, 40};
  const std::array<float, 6> weights = {1, 2, 3, 4, 5, 6};
  const std::array<float, 2> state = {0.5, 0.25};
  return encoded(Rows{0x1112131415161718, 0x40, false, 3, 1, keys, updates, last_seen, weights, state});
}

inline std::vector<std::byte> sample_barrier() {
  const std::array<std::byte, 3> brings = {std::byte{1}, std::byte{2}, std::byte{3}};
  return encoded(Barrier{"epoch end", 3, 1, 4, 30'000, brings, 2});
}

inline std::vector<std::byte> sample_barrier_reply() {
  const std::array<std::byte, 3> bytes = {std::byte{1}, std::byte{2}, std::byte{3}};
  return encoded(BarrierReply{{bytes, {}}});
}

inline std::span<const std::byte> sample_position() {
  static constexpr std::array<std::byte, 3> kPosition = {std::byte{7}, std::byte{8}, std::byte{9}};
  return kPosition;
}

inline std::span<const uint64_t> sample_pushes() {
  static constexpr std::array<uint64_t, 3> kPushes = {3, 0, 2};
  return kPushes;
}

inline std::vector<std::byte> sample_post() {
  const std::array<std::byte, 3> note{std::byte{'{'}, std::byte{' '}, std::byte{'}'}};
  return encoded(Post{Topic::kState, 3, 2, note});
}

inline std::vector<std::byte> sample_observe_reply() {
  ObserveReply reply;
  reply.statistics = {{"", "requests", 12}, {"users", "rows", 345}};
  reply.requests = {{MessageKind::kPull, 12, 34'000, 560, 7800, {{3, 10}, {17, 2}}},
                    {MessageKind::kBarrier, 1, 9, 8, 7, {}}};
  reply.heat = {{"users", 17, {}, {{42, 9}, {0x2122232425262728, 8}}}, {"new", 0, {}, {}}};
  reply.notes = {{Topic::kState, 1, 5, 120, {std::byte{'{'}, std::byte{'}'}}}, {Topic::kTrace, 0, 6, 7, {}}};
  return encoded(reply);
}

inline std::vector<std::byte> sample_rejoin_reply() {
  RejoinReply reply;
  reply.incarnation = 3;
  reply.starts = 2;
  reply.steps = 1000;
  reply.position = sample_position();
  reply.last.applied = true;
  reply.last.step = 999;
  reply.last.count = 2000;
  reply.last.samples = 512;
  reply.last.group = "train";
  reply.last.position = sample_position();
  reply.last.ordinal = 1500;
  reply.last.pushes = sample_pushes();
  reply.passed.push_back({"epoch end", 5});
  reply.on_their_way.push_back({2, 17, 990});
  return encoded(reply);
}

inline std::vector<std::byte> sample_finish_step_reply() {
  const std::array<Key, 3> keys = {1, 2, 3};
  return encoded(FinishStepReply{{{0x1112131415161718, keys}, {0x2122232425262728, {}}}});
}

inline std::vector<std::byte> sample_changes_reply() {
  const std::array<Key, 2> keys = {1, 2};
  return encoded(ChangesReply{0x41, false, keys});
}

inline LeaseRequest sample_lease() {
  return {"train", 2, 1000, 3, 4, 1, 17, 30'000, 3, 4, true, 5000, {{7, 512, ShardProgress::kDone}, {11, 64, 0}}};
}

inline LeaseStates sample_lease_states() {
  return {{{"eval", 0, 0, 3, {}, {}}, {"train", 2, 10, 2, {{0, 2}, {4, 5}}, {{2, 512}, {7, 64}}}}};
}

inline std::vector<std::byte> sample_send(uint32_t world = 4, uint64_t wait_ms = 30'000) {
  const std::array<std::byte, 3> bytes = {std::byte{1}, std::byte{2}, std::byte{3}};
  return encoded(Send{{"shuffle/7", 1, 0, world, 2, 17, wait_ms, true, bytes.size()}, bytes});
}

inline std::vector<std::byte> sample_letter() {
  const std::array<std::byte, 3> bytes = {std::byte{1}, std::byte{2}, std::byte{3}};
  return encoded(LetterReply{{false, true, 1, bytes.size()}, bytes});
}

inline std::vector<Sample> all_samples() {
  const uint64_t table = 0x1112131415161718;
  return {
      {"create_sparse", MessageKind::kCreateTable, encoded(CreateTable{sample_spec(false)}), transcode<CreateTable>},
      {"create_dense", MessageKind::kCreateTable, encoded(CreateTable{sample_spec(true)}), transcode<CreateTable>},
      {"create_reply", MessageKind::kReply, encoded(CreateTableReply{table, true}), transcode<CreateTableReply>},
      {"describe", MessageKind::kDescribeTable, encoded(DescribeTable{"users"}), transcode<DescribeTable>},
      {"describe_reply", MessageKind::kReply, encoded(DescribeTableReply{sample_spec(false), 10, 2000}),
       transcode<DescribeTableReply>},
      {"pull", MessageKind::kPull, sample_pull(), transcode<Pull>},
      {"push", MessageKind::kPush, sample_push(), transcode<Push>},
      {"push_told", MessageKind::kPush, sample_push_told(), transcode<Push>},
      {"push_reply", MessageKind::kReply, encoded(PushReply{true}), transcode<PushReply>},
      {"pull_dense", MessageKind::kPullDense, encoded(PullDense{table, {0, 2, 5}}), transcode<PullDense>},
      {"push_dense", MessageKind::kPushDense, sample_push_dense(), transcode<PushDense>},
      {"push_dense_half", MessageKind::kPushDense, sample_push_dense_half(), transcode<PushDense>},
      {"pull_dense_half", MessageKind::kPullDense, encoded(PullDense{table, {1}, 0x51, Storage::kFloat16}),
       transcode<PullDense>},
      {"barrier", MessageKind::kBarrier, sample_barrier(), transcode<Barrier>},
      {"barrier_reply", MessageKind::kReply, sample_barrier_reply(), transcode<BarrierReply>},
      {"finish_step", MessageKind::kFinishStep,
       encoded(FinishStep{"train", 1000, 2000, 1, 4, 512, 30'000, false, true, 3, sample_position(), 1501, 2,
                          sample_pushes()}),
       transcode<FinishStep>},
      {"finish_step_reply", MessageKind::kReply, sample_finish_step_reply(), transcode<FinishStepReply>},
      {"changes", MessageKind::kChanges, encoded(ChangesRequest{table, 0x40, 0x50, 3}), transcode<ChangesRequest>},
      {"changes_reply", MessageKind::kReply, sample_changes_reply(), transcode<ChangesReply>},
      {"advance", MessageKind::kAdvance, encoded(Advance{"train", 1000, 3, 1, 4, 30'000, true, false, 9}),
       transcode<Advance>},
      {"advance_reply", MessageKind::kReply, encoded(AdvanceReply{997}), transcode<AdvanceReply>},
      {"lease", MessageKind::kLease, encoded(sample_lease()), transcode<LeaseRequest>},
      {"lease_reply", MessageKind::kReply, encoded(LeaseReply{LeaseOutcome::kGranted, 15, 128, 990, {7, 11}}),
       transcode<LeaseReply>},
      {"lease_states", MessageKind::kRestoreLeases, encoded(sample_lease_states()), transcode<LeaseStates>},
      {"send", MessageKind::kSend, sample_send(), transcode<Send>},
      {"receive", MessageKind::kReceive, encoded(Receive{"shuffle/7", 3, 4, 17, 30'000}), transcode<Receive>},
      {"letter", MessageKind::kReply, sample_letter(), transcode<LetterReply>},
      {"letter_over", MessageKind::kReply, encoded(LetterReply{{true}, {}}), transcode<LetterReply>},
      {"statistics_reply", MessageKind::kReply,
       encoded(StatisticsReply{{{"", "requests", 12}, {"users", "rows", 345}}}), transcode<StatisticsReply>},
      {"export", MessageKind::kExport, encoded(Export{table, 0x40, 77, 1000, 0x60, RowsOf::kRemoved}),
       transcode<Export>},
      {"era", MessageKind::kEra, encoded(Era{table, 0x60, 0x2122232425262728, 0x50, true, {0x40, 0x50}}),
       transcode<Era>},
      {"era_reply", MessageKind::kReply, encoded(EraReply{0x61, 0x50, {0x2122232425262728}, {0x40, 0x50}}),
       transcode<EraReply>},
      {"shrink", MessageKind::kShrink,
       encoded(Shrink{table, 0x2122232425262728, 9, 4, 0x62, 3, 30, 0.5f, 0.75, 0.25, true}), transcode<Shrink>},
      {"shrink_reply", MessageKind::kReply, encoded(ShrinkReply{345}), transcode<ShrinkReply>},
      {"rejoin", MessageKind::kRejoin,
       encoded(Rejoin{RejoinPart::kNote, 0x2122232425262728, 1, 4, 3, 2, 1000, 17, 990, 30'000, sample_position()}),
       transcode<Rejoin>},
      {"rejoin_reply", MessageKind::kReply, sample_rejoin_reply(), transcode<RejoinReply>},
      {"team", MessageKind::kTeam,
       encoded(TeamRequest{TeamPart::kJoin, TeamMode::kAsync, 2, 3, 30'000, "data by number"}), transcode<TeamRequest>},
      {"team_reply", MessageKind::kReply, encoded(TeamReply{TeamMode::kGeo, true, 3, 4, 5}), transcode<TeamReply>},
      {"post", MessageKind::kPost, sample_post(), transcode<Post>},
      {"post_reply", MessageKind::kReply, encoded(PostReply{7, {std::byte{'{'}, std::byte{'}'}}}),
       transcode<PostReply>},
      {"observe", MessageKind::kObserve, encoded(Observe{Observe::kAll, 6}), transcode<Observe>},
      {"observe_reply", MessageKind::kReply, sample_observe_reply(), transcode<ObserveReply>},
      {"rows", MessageKind::kImport, sample_rows(), transcode<Rows>},
      {"error_reply", MessageKind::kError, encoded(ErrorReply{{ErrorCode::kUnknownTable, "no such table"}}),
       transcode<ErrorReply>},
  };
}

}  // namespace flota::testing
