// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.

#include <gtest/gtest.h>

#include <string>

#include "cc/tier/checksum.h"

namespace tf_malleable {
namespace tier {
namespace {

TEST(TierChecksumTest, IsThatOfZlib) {
  EXPECT_EQ(Checksum(0, "", 0), 0u);
  EXPECT_EQ(Checksum(0, "123456789", 9), 0xcbf43926u);
  const std::string text = "The quick brown fox jumps over the lazy dog";
  EXPECT_EQ(Checksum(0, text.data(), text.size()), 0x414fa339u);
  for (size_t i = 0; i <= text.size(); ++i) {
    const uint32_t before = Checksum(0, text.data(), i);
    EXPECT_EQ(Checksum(before, text.data() + i, text.size() - i), 0x414fa339u);
  }
}

}  // namespace
}  // namespace tier
}  // namespace tf_malleable
