#pragma once

#include <bit>
#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <ostream>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/deadline.h"
#include "common/push.h"
#include "common/result.h"
#include "common/spec.h"

// What the native tests share. Boost.Test's macros are not for several threads at once: other threads return what they
// saw, and the test's own thread looks at it.
namespace flota {

inline std::ostream& operator<<(std::ostream& out, ErrorCode code) { return out << "error " << static_cast<int>(code); }

namespace testing {

using std::chrono::milliseconds;

// Longer than anything takes on a busy machine; a test that waits for it has failed.
inline Deadline patience() { return Deadline::after(std::chrono::seconds(30)); }

inline constexpr ErrorCode kNoError{};

template <class T>
ErrorCode code_of(const Result<T>& result) {
  return result ? kNoError : result.error().code;
}

template <class T>
std::string message_of(const Result<T>& result) {
  return result ? "" : result.error().message;
}

// The value of what must not fail. Any thread: the test library, which is for one thread, hears of failures only.
template <class T>
T value_of(Result<T> result) {
  if (!result) BOOST_FAIL("unexpected error: " << message_of(result));
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Floats compared as bits: minus zero is not zero, and NaN is itself.
inline std::vector<uint32_t> bits_of(std::span<const float> values) {
  std::vector<uint32_t> bits;
  for (float value : values) bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}

inline std::string hex(std::span<const std::byte> bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (std::byte byte : bytes) {
    text += kDigits[static_cast<unsigned>(byte) >> 4];
    text += kDigits[static_cast<unsigned>(byte) & 15];
  }
  return text;
}

template <class T>
std::vector<std::byte> random_bytes(T& random, size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

// Runs call(0) .. call(count - 1), each on a thread of its own, and waits for all.
inline void in_threads(size_t count, const std::function<void(size_t)>& call) {
  std::vector<std::thread> threads;
  for (size_t i = 0; i < count; ++i) threads.emplace_back([&call, i] { call(i); });
  for (std::thread& thread : threads) thread.join();
}

// A rule with hyper-parameters that it accepts.
inline RuleSpec rule_spec(RuleKind kind) {
  RuleSpec rule;
  rule.kind = kind;
  rule.lr = 0.05;
  switch (kind) {
    case RuleKind::kSgd:
      break;
    case RuleKind::kMomentum:
      rule.momentum = 0.9;
      rule.dampening = 0.5;
      break;
    case RuleKind::kAdagrad:
      rule.epsilon = 1e-10;
      rule.initial_accumulator = 0.1;
      break;
    case RuleKind::kRmsProp:
    case RuleKind::kPaddleRmsProp:
      rule.epsilon = 1e-8;
      rule.alpha = 0.99;
      break;
    case RuleKind::kAdam:
    case RuleKind::kAdamW:
    case RuleKind::kLazyAdam:
    case RuleKind::kAdamax:
    case RuleKind::kPaddleAdamax:
    case RuleKind::kLamb:
      rule.beta1 = 0.9;
      rule.beta2 = 0.999;
      rule.epsilon = 1e-8;
      break;
    case RuleKind::kFtrl:
      rule.lr_power = -0.5;
      rule.initial_accumulator = 0.1;
      rule.l1 = 0.001;
      break;
  }
  return rule;
}

inline TableSpec sparse_spec(uint32_t dim, RuleKind rule = RuleKind::kSgd, Storage storage = Storage::kFloat32) {
  TableSpec spec;
  spec.name = "rows";
  spec.kind = TableKind::kSparse;
  spec.storage = storage;
  spec.dim = dim;
  spec.seed = 7;
  spec.rule = rule_spec(rule);
  spec.init = {InitKind::kUniform, -1, 1};
  return spec;
}

inline TableSpec dense_spec(uint64_t size, RuleKind rule = RuleKind::kSgd, Storage storage = Storage::kFloat32) {
  TableSpec spec;
  spec.name = "weights";
  spec.kind = TableKind::kDense;
  spec.storage = storage;
  spec.shape = {size};
  spec.seed = 7;
  spec.rule = rule_spec(rule);
  spec.init = {InitKind::kUniform, -1, 1};
  spec.blocks = {{0, 0, size}};
  return spec;
}

inline constexpr Storage kStorages[] = {Storage::kFloat32, Storage::kFloat16, Storage::kBFloat16};
inline constexpr PushKind kPushKinds[] = {PushKind::kGradient, PushKind::kDelta, PushKind::kAssign};

}  // namespace testing
}  // namespace flota
