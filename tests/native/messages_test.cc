#include "wire/messages.h"

#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "message_samples.h"
#include "testing.h"

using namespace flota;
using namespace flota::testing;

namespace {

// The bytes of every sample, as they were when version 2 of the protocol was fixed. A change here is a new protocol
// version and a change to docs/wire_format.md.
const std::map<std::string, std::string> kGolden = {
    {"create_sparse",
     "0500000000000000757365727300000001010002100000000807060504030201000000000000e0bf000000000000e03f"
     "000000000000000000000000000000000301000000000000000000000000e03f00000000000000000000000000000000"
     "000000000000000000000000000000000000000000000000000000000000c03f00000000000000000000000000000000"
     "000000000000004000000000000000000000000000000000000000000000000004000000000000000000000000002440"
     "0000000000000000000000000000c03f000000000000f03f001000000000000000000000000000000000000000000000"},
    {"create_dense",
     "0c00000000000000746f7765722f77656967687400000000020301040000000008070605040302010000000000000000"
     "000000000000f03f00000000000000c0000000000000004006020000010000007b14ae47e17a843f000000000000d03f"
     "00000000000000000000000000000000000000000000e03f000000000000e83f000000000000c03f0000000000000000"
     "000000000000000000000000000000000000000000000000000000000000000000000000000000000100000000000000"
     "000000000000000000000000000000000000000000000000000000000000000000000000000000000200000000000000"
     "040000000000000019000000000000000200000000000000000000000000000000000000000000003000000000000000"
     "020000000000000040000000000000002400000000000000"},
    {"create_reply", "18171615141312110100000000000000"},
    {"describe", "05000000000000007573657273000000"},
    {"describe_reply",
     "0500000000000000757365727300000001010002100000000807060504030201000000000000e0bf000000000000e03f"
     "000000000000000000000000000000000301000000000000000000000000e03f00000000000000000000000000000000"
     "000000000000000000000000000000000000000000000000000000000000c03f00000000000000000000000000000000"
     "000000000000004000000000000000000000000000000000000000000000000004000000000000000000000000002440"
     "0000000000000000000000000000c03f000000000000f03f001000000000000000000000000000000000000000000000"
     "0a00000000000000d007000000000000"},
    {"pull",
     "1817161514131211030000001000000000000000000000000000000000000000"
     "2a00000000000000ffffffffffffffff"},
    {"push",
     "1817161514131211282726252423222109000000000000000400000000000000e8030000000000000000000000000000"
     "510000000000000003000000020000000000003f0000803e030000000100000002010000000000000700000000000000"
     "080000000000000009000000000000000000803f000000c00000003f00000000"},
    {"push_reply", "0100000000000000"},
    {"push_told",
     "1817161514131211282726252423222109000000000000000400000000000000e8030000000000000000000000000000"
     "510000000000000003000000020000000000003f0000803e030000000100000002010200000000000700000000000000"
     "080000000000000009000000000000000000803f000000c00000003f00000000000040400000803f0000004000000000"
     "0000803f000000000000004000000000"},
    {"era",
     "181716151413121160000000000000002827262524232221500000000000000001000000000000000200000000000000"
     "40000000000000005000000000000000"},
    {"era_reply",
     "610000000000000050000000000000000100000000000000282726252423222102000000000000004000000000000000"
     "5000000000000000"},
    {"shrink",
     "18171615141312112827262524232221090000000000000004000000000000006200000000000000030000001e000000"
     "000000000000e83f000000000000d03f0000003f01000000"},
    {"shrink_reply", "5901000000000000"},
    {"rejoin",
     "0400000000000000282726252423222101000000040000000300000002000000e8030000000000001100000000000000"
     "de03000000000000307500000000000003000000000000000708090000000000"},
    {"rejoin_reply",
     "0300000002000000e80300000000000003000000000000000708090000000000e703000000000000d007000000000000"
     "000000000000804001000000000000000500000000000000747261696e00000003000000000000000708090000000000"
     "dc0500000000000003000000000000000300000000000000000000000000000002000000000000000100000000000000"
     "090000000000000065706f636820656e6400000000000000050000000000000001000000000000000200000000000000"
     "1100000000000000de03000000000000"},
    {"team", "0202000002000000030000000000000030750000000000000e0000000000000064617461206279206e756d6265720000"},
    {"team_reply", "030100000300000004000000000000000500000000000000"},
    {"post", "0100000003000000020000000000000003000000000000007b207d0000000000"},
    {"post_reply", "070000000000000002000000000000007b7d000000000000"},
    {"observe", "07000000000000000600000000000000"},
    {"observe_reply",
     "02000000000000000000000000000000080000000000000072657175657374730c000000000000000500000000000000"
     "75736572730000000400000000000000726f777300000000590100000000000002000000000000000300000000000000"
     "0c00000000000000d0840000000000003002000000000000781e00000000000002000000000000000300000000000000"
     "0a0000000000000011000000000000000200000000000000070000000000000001000000000000000900000000000000"
     "080000000000000007000000000000000000000000000000020000000000000005000000000000007573657273000000"
     "1100000000000000000000000000000002000000000000002a0000000000000009000000000000002827262524232221"
     "080000000000000003000000000000006e65770000000000000000000000000000000000000000000000000000000000"
     "020000000000000001000000010000000500000000000000780000000000000002000000000000007b7d000000000000"
     "0200000000000000060000000000000007000000000000000000000000000000"},
    {"pull_dense",
     "18171615141312110300000000000000ffffffffffffffff0100000000000000"
     "00000000020000000500000000000000"},
    {"pull_dense_half", "18171615141312110100000000000000510000000000000002000000000000000100000000000000"},
    {"push_dense_half",
     "1817161514131211282726252423222109000000000000000400000000000000e8030000000000000000000000000000"
     "510000000000000003000000020000000000003f0000803e010000000000000002030000000000000200000000000000"
     "803f004080bf0000"},
    {"advance",
     "e8030000000000000300000000000000010000000400000030750000000000000100000009000000"
     "0500000000000000747261696e000000"},
    {"advance_reply", "e503000000000000"},
    {"push_dense",
     "1817161514131211282726252423222109000000000000000400000000000000e8030000000000000000000000000000"
     "510000000000000003000000020000000000003f0000803e030000000000000002010000000000000000000002000000"
     "05000000000000000000803f000000400000404000008040"},
    {"barrier_reply", "0200000000000000030000000000000001020300000000000000000000000000"},
    {"finish_step",
     "e803000000000000d0070000000000000100000004000000000000000000804030750000000000000001000003000000"
     "0500000000000000747261696e00000003000000000000000708090000000000dd050000000000000200000000000000"
     "0300000000000000030000000000000000000000000000000200000000000000"},
    {"finish_step_reply",
     "020000000000000018171615141312110300000000000000010000000000000002000000000000000300000000000000"
     "28272625242322210000000000000000"},
    {"changes", "1817161514131211400000000000000050000000000000000300000000000000"},
    {"changes_reply",
     "410000000000000000000000000000000200000000000000010000000000000002000000"
     "00000000"},
    {"barrier",
     "0300000000000000010000000400000030750000000000000200000000000000090000000000000065706f636820656e"
     "640000000000000003000000000000000102030000000000"},
    {"lease",
     "0200000000000000e8030000000000000300000004000000010000000000000011000000000000003075000000000000"
     "03000000000000000400000000000000881300000000000001000000000000000500000000000000747261696e000000"
     "02000000000000000700000000000000000200000000000001000000000000000b000000000000004000000000000000"
     "0000000000000000"},
    {"lease_reply",
     "01000000000000000f000000000000008000000000000000de0300000000000002000000000000000700000000000000"
     "0b00000000000000"},
    {"lease_states",
     "020000000000000004000000000000006576616c00000000000000000000000000000000000000000300000000000000"
     "000000000000000000000000000000000500000000000000747261696e00000002000000000000000a00000000000000"
     "020000000000000002000000000000000000000002000000040000000500000002000000000000000200000000000000"
     "000200000000000007000000000000004000000000000000"},
    {"send",
     "010000000000000004000000010000000200000000000000110000000000000030750000000000000900000000000000"
     "73687566666c652f370000000000000003000000000000000102030000000000"},
    {"receive", "030000000400000011000000000000003075000000000000090000000000000073687566666c652f3700000000000000"},
    {"letter", "000100000100000003000000000000000102030000000000"},
    {"letter_over", "01000000000000000000000000000000"},
    {"statistics_reply",
     "0200000000000000000000000000000008000000000000007265717565737473"
     "0c00000000000000050000000000000075736572730000000400000000000000"
     "726f7773000000005901000000000000"},
    {"export", "181716151413121140000000000000004d000000e803000060000000000000000300000000000000"},
    {"rows",
     "181716151413121140000000000000000200000000000000030000000100000000010000000000000500000000000000"
     "0600000000000000030000000000000004000000000000001e0000000000000028000000000000000000803f00000040"
     "00004040000080400000a0400000c0400000003f0000803e"},
    {"error_reply", "02000000000000000d000000000000006e6f2073756368207461626c65000000"},
};

// The sample with one field overwritten.
template <class T>
std::vector<std::byte> with(std::vector<std::byte> payload, size_t at, T value) {
  BOOST_TEST_REQUIRE(at + sizeof(T) <= payload.size());
  std::memcpy(payload.data() + at, &value, sizeof(T));
  return payload;
}

template <class Message>
ErrorCode refusal(const std::vector<std::byte>& bytes) {
  return code_of(Message::decode(Payload(bytes).bytes()));
}

constexpr uint64_t kAbsurd64[] = {1000, uint64_t{1} << 32, uint64_t{1} << 61, uint64_t{1} << 62, ~uint64_t{0}};
constexpr uint32_t kAbsurd32[] = {1000, uint32_t{1} << 29, uint32_t{1} << 30, uint32_t{1} << 31, ~uint32_t{0}};

}  // namespace

BOOST_AUTO_TEST_SUITE(messages)

BOOST_AUTO_TEST_CASE(every_message_has_the_bytes_it_always_had) {
  for (const Sample& sample : all_samples()) {
    BOOST_TEST_CONTEXT(sample.name) {
      BOOST_TEST_REQUIRE(kGolden.contains(sample.name));
      BOOST_TEST(hex(sample.payload) == kGolden.at(sample.name));
    }
  }
  BOOST_TEST(hex(sample_rows_reply()) ==
             "070000000000000002000000030000000000803f0000004000004040000080400000a0400000c040");
}

BOOST_AUTO_TEST_CASE(every_message_comes_back_as_it_was) {
  for (const Sample& sample : all_samples()) {
    BOOST_TEST_CONTEXT(sample.name) {
      BOOST_TEST(sample.payload.size() % 8 == 0u);
      auto back = sample.transcode(Payload(sample.payload).bytes());
      BOOST_TEST_REQUIRE(back.has_value(), message_of(back));
      BOOST_TEST((*back == sample.payload));
    }
  }
}

BOOST_AUTO_TEST_CASE(every_truncation_of_every_message_is_refused) {
  for (const Sample& sample : all_samples()) {
    for (size_t length = 0; length < sample.payload.size(); ++length) {
      Payload part(std::span<const std::byte>(sample.payload).first(length));
      auto back = sample.transcode(part.bytes());
      const size_t blocks = sample.name == std::string("push_dense") ? 3 : 1;
      // A dense push carries as many values as fit: the table knows how many belong there, and refuses others.
      const bool just_fewer_values =
          sample.kind == MessageKind::kPushDense && length % 8 == 0 && length >= PushHead::kBytes + padded(4 * blocks);
      BOOST_TEST(back.has_value() == just_fewer_values, sample.name << " of " << length << " bytes");
      if (!back) BOOST_TEST(code_of(back) == ErrorCode::kMalformed);
    }
  }
}

BOOST_AUTO_TEST_CASE(trailing_bytes_are_refused) {
  for (const Sample& sample : all_samples()) {
    if (sample.kind == MessageKind::kPushDense) continue;  // more values, for the table to refuse
    for (size_t extra : {1, 4, 8, 64}) {
      auto longer = sample.payload;
      longer.resize(longer.size() + extra);
      BOOST_TEST(code_of(sample.transcode(Payload(longer).bytes())) == ErrorCode::kMalformed,
                 sample.name << " and " << extra << " bytes more");
    }
  }
}

// Would these be believed, the decoder would ask for more memory than there is, or wrap around and read elsewhere.
BOOST_AUTO_TEST_CASE(absurd_counts_are_refused) {
  for (uint64_t count : kAbsurd64) {
    BOOST_TEST(refusal<Rows>(with(sample_rows(), 16, count)) == ErrorCode::kMalformed);
    BOOST_TEST(refusal<PullDense>(with(encoded(PullDense{1, {1, 2}}), 8, count)) == ErrorCode::kMalformed);
    BOOST_TEST(refusal<StatisticsReply>(with(encoded(StatisticsReply{{{"a", "b", 1}}}), 0, count)) ==
               ErrorCode::kMalformed);
    const auto create = encoded(CreateTable{sample_spec(true)});
    BOOST_TEST(refusal<CreateTable>(with(create, create.size() - 2 * 24 - 8, count)) == ErrorCode::kMalformed);
  }
  const auto lease = encoded(sample_lease());
  const auto states = encoded(sample_lease_states());
  for (uint64_t count : kAbsurd64) {
    BOOST_TEST(refusal<LeaseRequest>(with(lease, lease.size() - 2 * 24 - 8, count)) == ErrorCode::kMalformed);
    BOOST_TEST(refusal<LeaseReply>(with(encoded(LeaseReply{}), 32, count)) == ErrorCode::kMalformed);
    BOOST_TEST(refusal<LeaseStates>(with(states, 0, count)) == ErrorCode::kMalformed);
    BOOST_TEST(refusal<Send>(with(sample_send(), sample_send().size() - 16, count)) == ErrorCode::kMalformed);
    BOOST_TEST(refusal<LetterReply>(with(sample_letter(), 8, count)) == ErrorCode::kMalformed);
    BOOST_TEST(refusal<LeaseStates>(with(states, states.size() - 2 * 16 - 8, count)) == ErrorCode::kMalformed);
    BOOST_TEST(refusal<LeaseStates>(with(states, states.size() - 2 * 16 - 8 - 2 * 8 - 8, count)) ==
               ErrorCode::kMalformed);
  }
  for (uint32_t count : kAbsurd32) {
    BOOST_TEST(refusal<Pull>(with(sample_pull(), 8, count)) == ErrorCode::kMalformed);
    BOOST_TEST(refusal<Push>(with(sample_push(), 72, count)) == ErrorCode::kMalformed);
    BOOST_TEST(refusal<Push>(with(sample_push(), 76, count)) == ErrorCode::kMalformed);
    BOOST_TEST(refusal<PushDense>(with(sample_push_dense(), 72, count)) == ErrorCode::kMalformed);
    BOOST_TEST(refusal<Rows>(with(sample_rows(), 24, count)) == ErrorCode::kMalformed);
    BOOST_TEST(refusal<Rows>(with(sample_rows(), 28, count)) == ErrorCode::kMalformed);
    BOOST_TEST(refusal<DescribeTable>(with(encoded(DescribeTable{"users"}), 0, count)) == ErrorCode::kMalformed);
    BOOST_TEST(refusal<ErrorReply>(with(encoded(ErrorReply{{ErrorCode::kBusy, "x"}}), 8, count | 4097)) ==
               ErrorCode::kMalformed);
  }
  // Both at once: their product wraps to what is there.
  auto wrapped = with(with(sample_push(), 72, uint32_t{1} << 31), 76, uint32_t{1} << 31);
  BOOST_TEST(refusal<Push>(wrapped) == ErrorCode::kMalformed);
}

BOOST_AUTO_TEST_CASE(values_outside_their_enumeration_are_refused) {
  const auto create = encoded(CreateTable{sample_spec(false)});
  const size_t kinds = 8 + 8;       // after the name
  for (size_t field : {0, 1, 3}) {  // table kind, storage, initialiser
    for (uint8_t value : {uint8_t{0}, uint8_t{6}, uint8_t{255}}) {
      BOOST_TEST(refusal<CreateTable>(with(create, kinds + field, value)) == ErrorCode::kMalformed);
    }
  }
  const size_t rule = kinds + 4 + 4 + 8 + 32;
  for (uint8_t value : {uint8_t{0}, uint8_t{13}, uint8_t{255}}) {
    BOOST_TEST(refusal<CreateTable>(with(create, rule, value)) == ErrorCode::kMalformed);
  }
  for (uint8_t value : {uint8_t{0}, uint8_t{3}}) {
    BOOST_TEST(refusal<CreateTable>(with(create, rule + 1, value)) == ErrorCode::kMalformed);
  }
  for (size_t flag : {kinds + 2, rule + 2, rule + 3, rule + 4}) {
    BOOST_TEST(refusal<CreateTable>(with(create, flag, uint8_t{2})) == ErrorCode::kMalformed);
  }
  BOOST_TEST(refusal<Push>(with(sample_push(), 80, uint8_t{0})) == ErrorCode::kMalformed);
  BOOST_TEST(refusal<Push>(with(sample_push(), 80, uint8_t{4})) == ErrorCode::kMalformed);
  for (uint8_t value : {uint8_t{0}, uint8_t{4}}) {  // what values travel as
    BOOST_TEST(refusal<Push>(with(sample_push(), 81, value)) == ErrorCode::kMalformed);
    BOOST_TEST(refusal<PushDense>(with(sample_push_dense(), 81, value)) == ErrorCode::kMalformed);
    BOOST_TEST(refusal<PullDense>(with(encoded(PullDense{1, {1}}), 24, value)) == ErrorCode::kMalformed);
  }
  BOOST_TEST(refusal<Push>(with(sample_push(), 81, uint8_t{2})) == ErrorCode::kMalformed);  // rows are float32
  BOOST_TEST(refusal<Advance>(with(encoded(Advance{"a", 1, 0, 0, 1, 1, true}), 32, uint8_t{2})) ==
             ErrorCode::kMalformed);
  BOOST_TEST(refusal<LeaseRequest>(with(encoded(sample_lease()), 72, uint8_t{2})) == ErrorCode::kMalformed);
  BOOST_TEST(refusal<LeaseReply>(with(encoded(LeaseReply{}), 0, uint8_t{5})) == ErrorCode::kMalformed);
  BOOST_TEST(refusal<Send>(with(sample_send(), 12, uint8_t{2})) == ErrorCode::kMalformed);
  for (size_t flag : {0, 1}) {
    BOOST_TEST(refusal<LetterReply>(with(sample_letter(), flag, uint8_t{2})) == ErrorCode::kMalformed);
  }
  BOOST_TEST(refusal<LetterReply>(with(sample_letter(), 0, uint8_t{1})) ==
             ErrorCode::kMalformed);  // over, yet a letter
  BOOST_TEST(refusal<Pull>(with(sample_pull(), 16, uint8_t{2})) == ErrorCode::kMalformed);
  BOOST_TEST(refusal<PushReply>(with(encoded(PushReply{true}), 0, uint8_t{2})) == ErrorCode::kMalformed);
  BOOST_TEST(refusal<CreateTableReply>(with(encoded(CreateTableReply{1, true}), 8, uint8_t{2})) ==
             ErrorCode::kMalformed);
  BOOST_TEST(refusal<Rows>(with(sample_rows(), 32, uint8_t{2})) == ErrorCode::kMalformed);
  for (uint32_t code : {0u, 19u, ~0u}) {
    BOOST_TEST(refusal<ErrorReply>(with(encoded(ErrorReply{{ErrorCode::kBusy, "x"}}), 0, code)) ==
               ErrorCode::kMalformed);
  }
}

BOOST_AUTO_TEST_CASE(a_table_that_cannot_be_is_refused_while_decoding) {
  TableSpec spec = sample_spec(false);
  spec.dim = 0;
  BOOST_TEST(refusal<CreateTable>(encoded(CreateTable{spec})) == ErrorCode::kInvalidArgument);
  spec = sample_spec(false);
  spec.name = "../elsewhere";
  BOOST_TEST(refusal<CreateTable>(encoded(CreateTable{spec})) == ErrorCode::kInvalidArgument);
  spec = sample_spec(false);
  spec.rule.lr = std::numeric_limits<double>::quiet_NaN();
  BOOST_TEST(refusal<CreateTable>(encoded(CreateTable{spec})) == ErrorCode::kInvalidArgument);
  spec = sample_spec(true);
  spec.blocks[1].offset = 40;  // within the first block
  BOOST_TEST(refusal<CreateTable>(encoded(CreateTable{spec})) == ErrorCode::kInvalidArgument);
  spec = sample_spec(true);
  spec.blocks[1].length = ~uint64_t{0};
  BOOST_TEST(refusal<CreateTable>(encoded(CreateTable{spec})) == ErrorCode::kInvalidArgument);
  const auto create = encoded(CreateTable{sample_spec(true)});
  BOOST_TEST(refusal<CreateTable>(with(create, create.size() - 24, uint64_t{1} << 32)) == ErrorCode::kMalformed);
}

BOOST_AUTO_TEST_CASE(a_push_with_impossible_numbers_is_refused) {
  for (float lr : {-1.0f, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    BOOST_TEST(refusal<Push>(with(sample_push(), 64, lr)) == ErrorCode::kInvalidArgument);
  }
  for (float scale : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    BOOST_TEST(refusal<Push>(with(sample_push(), 68, scale)) == ErrorCode::kInvalidArgument);
  }
  BOOST_TEST(refusal<Push>(with(sample_push(), 24, uint64_t{10})) == ErrorCode::kMalformed);  // oldest > sequence
  BOOST_TEST(refusal<Push>(with(sample_push(), 68, -0.5f)) == kNoError);
}

BOOST_AUTO_TEST_CASE(a_barrier_with_an_impossible_rank_is_refused) {
  BOOST_TEST(refusal<Barrier>(encoded(Barrier{"b", 0, 0, 1, 1, {}})) == kNoError);
  BOOST_TEST(refusal<Barrier>(encoded(Barrier{"b", 0, 1, 1, 1, {}})) == ErrorCode::kInvalidArgument);
  BOOST_TEST(refusal<Barrier>(encoded(Barrier{"b", 0, 1u << 20, 0, 1, {}})) == ErrorCode::kInvalidArgument);
  BOOST_TEST(refusal<Barrier>(encoded(Barrier{"b", 0, 0, (1u << 20) + 1, 1, {}})) == ErrorCode::kInvalidArgument);
}

BOOST_AUTO_TEST_CASE(an_advance_with_an_impossible_rank_is_refused) {
  BOOST_TEST(refusal<Advance>(encoded(Advance{"a", 2, 0, 0, 1, 1, false})) == kNoError);
  BOOST_TEST(refusal<Advance>(encoded(Advance{"a", 2, 0, 1, 1, 1, false})) == ErrorCode::kInvalidArgument);
  BOOST_TEST(refusal<Advance>(encoded(Advance{"a", 2, 0, 1u << 20, 0, 1, false})) == ErrorCode::kInvalidArgument);
}

BOOST_AUTO_TEST_CASE(leases_that_cannot_be_are_refused_while_decoding) {
  LeaseRequest lease = sample_lease();
  lease.stride = 0;
  BOOST_TEST(refusal<LeaseRequest>(encoded(lease)) == ErrorCode::kInvalidArgument);
  lease = sample_lease();
  lease.progress[0].shard = lease.shards;
  BOOST_TEST(refusal<LeaseRequest>(encoded(lease)) == ErrorCode::kInvalidArgument);
  LeaseStates states = sample_lease_states();
  states.epochs[1].done[1].end = 11;
  BOOST_TEST(refusal<LeaseStates>(encoded(states)) == ErrorCode::kInvalidArgument);
}

BOOST_AUTO_TEST_CASE(letters_that_cannot_be_are_refused_while_decoding) {
  for (size_t rank : {0, 4}) {
    BOOST_TEST(refusal<Send>(with(sample_send(), rank, uint32_t{4})) == ErrorCode::kInvalidArgument);
  }
  BOOST_TEST(refusal<Send>(sample_send(0)) == ErrorCode::kInvalidArgument);
  BOOST_TEST(refusal<Receive>(encoded(Receive{"c", 1, 1, 0, 0})) == ErrorCode::kInvalidArgument);
  BOOST_TEST(refusal<Receive>(encoded(Receive{"", 0, 1, 0, 0})) == ErrorCode::kInvalidArgument);
  const std::vector<std::byte> large(SendHead::kMaxBytes + 1);
  BOOST_TEST(refusal<Send>(encoded(Send{{"c", 0, 0, 1, 0, 0, 1, true, large.size()}, large})) == ErrorCode::kTooLarge);
}

BOOST_AUTO_TEST_CASE(an_export_of_no_rows_is_refused) {
  BOOST_TEST(refusal<Export>(encoded(Export{1, 2, 3, 0})) == ErrorCode::kInvalidArgument);
}

BOOST_AUTO_TEST_CASE(names_and_texts_have_limits) {
  BOOST_TEST(refusal<DescribeTable>(encoded(DescribeTable{std::string(kMaxNameBytes, 'x')})) == kNoError);
  BOOST_TEST(refusal<DescribeTable>(encoded(DescribeTable{std::string(kMaxNameBytes + 1, 'x')})) ==
             ErrorCode::kMalformed);
  // A long text is cut by its sender, so that an error always arrives.
  auto reply = ErrorReply::decode(Payload(encoded(ErrorReply{{ErrorCode::kBusy, std::string(10'000, 'x')}})).bytes());
  BOOST_TEST_REQUIRE(reply.has_value());
  BOOST_TEST(reply->error.message.size() == kMaxMessageText);
}

BOOST_AUTO_TEST_CASE(empty_lists_are_legal) {
  Writer pull;
  PullHead{1, 0, 16, true}.encode(pull);
  BOOST_TEST(refusal<Pull>(taken(pull)) == kNoError);
  Writer push;
  sample_push_head(0, 16).encode(push);
  BOOST_TEST(refusal<Push>(taken(push)) == kNoError);
  BOOST_TEST(refusal<PushDense>(taken(push)) == kNoError);
  BOOST_TEST(refusal<PullDense>(encoded(PullDense{1, {}})) == kNoError);
  BOOST_TEST(refusal<StatisticsReply>(encoded(StatisticsReply{})) == kNoError);
  BOOST_TEST(refusal<Rows>(encoded(Rows{})) == kNoError);
  BOOST_TEST(refusal<LeaseStates>(encoded(LeaseStates{})) == kNoError);
}

BOOST_AUTO_TEST_CASE(every_field_of_a_spec_travels) {
  for (bool dense : {false, true}) {
    const TableSpec spec = sample_spec(dense);
    BOOST_TEST_REQUIRE(validate(spec).has_value());
    auto back = CreateTable::decode(Payload(encoded(CreateTable{spec})).bytes());
    BOOST_TEST_REQUIRE(back.has_value(), message_of(back));
    BOOST_TEST(difference(back->spec, spec) == "");
    BOOST_TEST((back->spec == spec));
  }
}

BOOST_AUTO_TEST_SUITE_END()
