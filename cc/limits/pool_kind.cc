// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.

#include "cc/limits/pool_kind.h"

#include <charconv>
#include <optional>
#include <string_view>

namespace tf_malleable {
namespace {

// Returns `text` as a number; nothing if it is not one.
std::optional<int> NumberIn(std::string_view text) {
  int number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || rest != end) return std::nullopt;
  return number;
}

// Returns the text between `prefix` and `suffix`; nothing if `text` lacks one
// of them.
std::optional<std::string_view> Between(std::string_view text,
                                        std::string_view prefix,
                                        std::string_view suffix) {
  if (text.size() < prefix.size() + suffix.size() ||
      text.substr(0, prefix.size()) != prefix ||
      text.substr(text.size() - suffix.size()) != suffix) {
    return std::nullopt;
  }
  return text.substr(prefix.size(),
                     text.size() - prefix.size() - suffix.size());
}

}  // namespace

PoolTraits TraitsOf(const std::string& name) {
  // "Compute" is the process's pool. A session may have pools of its own:
  // "Compute0", "Compute1", …
  if (const auto number = Between(name, "Compute", "")) {
    if (number->empty() || NumberIn(*number).value_or(-1) >= 0) {
      return {PoolKind::kInterOp, true, -1};
    }
  }
  // "numa_-1_Eigen" for all nodes, else "numa_0_Eigen", "numa_1_Eigen", …
  if (const auto text = Between(name, "numa_", "_Eigen")) {
    if (const auto node = NumberIn(*text)) {
      return {PoolKind::kIntraOp, true, *node};
    }
  }
  // XLA sizes its pools for computing by the CPUs. Its pool for compiling,
  // "xla-cpu-codegen", has a maximum that XLA sets.
  const bool computes = Between(name, "XLA", "").has_value();
  return {PoolKind::kOther, computes, -1};
}

}  // namespace tf_malleable
