// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// Tests partial copies: threads fill one copy together, and close files
// meanwhile.

#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "cc/tests/tier_test.h"
#include "cc/tier/syscalls.h"

namespace tf_malleable {
namespace tier {
namespace {

constexpr int64_t kSize = (2 << 20) + 4321;

using TierPartialCopyTest = TierTest;

TEST_F(TierPartialCopyTest, ThreadsFillOneCopyThroughOneDescriptor) {
  const std::string path = Make("one", kSize);
  const std::string data = Contents(path);
  const int fd = Open(path);
  // The first read creates the copy. Other reads do not wait for that for long,
  // and the ranges that they read meanwhile stay missing.
  char first[8192];
  ASSERT_EQ(Read(fd, first, sizeof(first), 0), 8192);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      std::vector<char> buffer(8192);
      for (int64_t at = i * 8192; at < kSize; at += 4 * 8192) {
        const ssize_t got = Read(fd, buffer.data(), buffer.size(), at);
        ASSERT_EQ(got, std::min<int64_t>(8192, kSize - at));
        ASSERT_EQ(memcmp(buffer.data(), data.data() + at, got), 0);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Contents(Part(path)), data);
  const std::string map = Contents(Map(path));
  const int64_t units = (kSize + kMinUnitBytes - 1) / kMinUnitBytes;
  EXPECT_EQ(map.substr(kMapHeaderBytes), std::string(units, kPresent));
  MapHeader header;
  memcpy(&header, map.data(), sizeof(header));
  EXPECT_EQ(header.state, kIsFull);
  Close(fd);
}

TEST_F(TierPartialCopyTest, AnOddReadMarksOnlyWholeUnits) {
  const std::string path = Make("odd", kSize);
  const int fd = Open(path);
  std::vector<char> buffer(10000);
  ASSERT_EQ(Read(fd, buffer.data(), 10000, 5000), 10000);
  // From 5000 to 15000, only 8192 to 12288 is a whole unit.
  EXPECT_EQ(Contents(Map(path)).substr(kMapHeaderBytes),
            std::string("\0\0\1", 3));
  // This read goes on where that one ended.
  ASSERT_EQ(Read(fd, buffer.data(), 1384, 15000), 1384);
  EXPECT_EQ(Contents(Map(path)).substr(kMapHeaderBytes),
            std::string("\0\0\1\1", 4));
  // This one does not.
  ASSERT_EQ(Read(fd, buffer.data(), 100, 100), 100);
  EXPECT_EQ(Contents(Map(path)).substr(kMapHeaderBytes),
            std::string("\0\0\1\1", 4));
  Close(fd);
}

TEST_F(TierPartialCopyTest, ThreadsReadAndCloseTheSameDescriptors) {
  std::vector<std::string> paths, contents;
  for (int i = 0; i < 4; ++i) {
    paths.push_back(Make("many" + std::to_string(i), kSize + i));
    contents.push_back(Contents(paths.back()));
  }
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      std::vector<char> buffer(100000);
      for (int round = 0; round < 6; ++round) {
        const int which = (i + round) % 4;
        const int fd = Open(paths[which]);
        for (int64_t at = round * 100; at < kSize; at += 170001) {
          const ssize_t got = Read(fd, buffer.data(), buffer.size(), at);
          ASSERT_GT(got, 0);
          ASSERT_EQ(memcmp(buffer.data(), contents[which].data() + at, got), 0);
        }
        Close(fd);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(shim.table.size(), 0);
  EXPECT_EQ(shim.own_files.load(), 0);
}

TEST_F(TierPartialCopyTest, ThreadsShareAPosition) {
  const std::string path = Make("position", kSize);
  const std::string data = Contents(path);
  const int fd = Open(path);
  std::atomic<int64_t> sum{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      std::vector<char> buffer(1000);
      for (;;) {
        Table::Entry* entry = shim.table.Acquire(fd);
        ASSERT_NE(entry, nullptr);
        const ssize_t got = ReadPartialCopy(entry, fd, buffer.data(), 1000);
        shim.table.Release(entry);
        ASSERT_GE(got, 0);
        if (got == 0) break;
        sum += got;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sum, kSize);
  EXPECT_EQ(Contents(Part(path)), data);
  Close(fd);
}

}  // namespace
}  // namespace tier
}  // namespace tf_malleable
