// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// Tests partial copies: threads mark together what they read, read what the
// daemon has copied, and close files meanwhile.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <fstream>
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

std::vector<MessageKind> KindsOf(const std::vector<Received>& messages) {
  std::vector<MessageKind> kinds;
  for (const Received& each : messages) kinds.push_back(each.kind);
  return kinds;
}

std::string UnitsOf(const std::string& map) {
  return map.size() < kMapHeaderBytes ? "no map" : map.substr(kMapHeaderBytes);
}

uint64_t InodeOf(const std::string& path) {
  struct stat status;
  EXPECT_EQ(stat(path.c_str(), &status), 0);
  return status.st_ino;
}

// Writes the daemon's map of a copy, of which the first units are present.
void WriteMap(const std::string& map, const std::string& reader_map,
              size_t present, bool is_fetching = false) {
  MapHeader header;
  memcpy(&header, reader_map.data(), sizeof(header));
  header.fetching = is_fetching;
  std::string bytes(reinterpret_cast<char*>(&header), sizeof(header));
  std::ofstream(map, std::ios::binary)
      << bytes << std::string(present, kPresent);
}

void SetMapState(const std::string& map, uint32_t state) {
  std::fstream file(map, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(offsetof(MapHeader, state));
  file.write(reinterpret_cast<char*>(&state), sizeof(state));
}

TEST_F(TierPartialCopyTest, ThreadsMarkWhatTheyReadThroughOneDescriptor) {
  const std::string path = Make("one", kSize);
  const std::string data = Contents(path);
  const int fd = Open(path);
  // The first read creates the map. Other reads do not wait for that for long,
  // and the ranges that they read meanwhile stay unmarked.
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
  const std::vector<Received>& messages = Receive();
  ASSERT_EQ(messages.size(), 1u);
  const Received& reading = messages[0];
  EXPECT_EQ(reading.kind, kReading);
  EXPECT_EQ(reading.path, path);
  ASSERT_EQ(reading.fds.size(), 2u);
  EXPECT_EQ(reading.Inode(0), InodeOf(path));
  const std::string map = reading.FileContents(1);
  const int64_t units = (kSize + kMinUnitBytes - 1) / kMinUnitBytes;
  EXPECT_EQ(UnitsOf(map), std::string(units, kPresent));
  MapHeader header;
  memcpy(&header, map.data(), sizeof(header));
  EXPECT_EQ(header.magic, kMapMagic);
  EXPECT_EQ(header.version, kVersion);
  EXPECT_EQ(header.unit, kMinUnitBytes);
  EXPECT_EQ(header.units, units);
  EXPECT_EQ(header.state, kIsGrowing);
  EXPECT_EQ(
      memcmp(&header.identity, &reading.identity, sizeof(header.identity)), 0);
  EXPECT_EQ(header.identity.size, kSize);
  Close(fd);
  EXPECT_EQ(KindsOf(Receive()), std::vector<MessageKind>{kClosed});
}

TEST_F(TierPartialCopyTest, AnOddReadMarksOnlyWholeUnits) {
  const std::string path = Make("odd", kSize);
  const int fd = Open(path);
  std::vector<char> buffer(10000);
  ASSERT_EQ(Read(fd, buffer.data(), 10000, 5000), 10000);
  const std::vector<Received>& messages = Receive();
  ASSERT_EQ(KindsOf(messages), std::vector<MessageKind>{kReading});
  const Received& reading = messages[0];
  // From 5000 to 15000, only 8192 to 12288 is a whole unit.
  EXPECT_EQ(UnitsOf(reading.FileContents(1)), std::string("\0\0\1", 3));
  // This read goes on where that one ended.
  ASSERT_EQ(Read(fd, buffer.data(), 1384, 15000), 1384);
  EXPECT_EQ(UnitsOf(reading.FileContents(1)), std::string("\0\0\1\1", 4));
  // This one does not.
  ASSERT_EQ(Read(fd, buffer.data(), 100, 100), 100);
  EXPECT_EQ(UnitsOf(reading.FileContents(1)), std::string("\0\0\1\1", 4));
  Close(fd);
}

TEST_F(TierPartialCopyTest, ReadsWhatTheDaemonHasCopied) {
  const std::string path = Make("part", kSize);
  const std::string data = Contents(path);
  const std::string copied(kSize, 'c');
  const int fd = Open(path);
  std::vector<char> buffer(kSize);
  ASSERT_EQ(Read(fd, buffer.data(), 4096, 0), 4096);
  const std::vector<Received>& messages = Receive();
  ASSERT_EQ(KindsOf(messages), std::vector<MessageKind>{kReading});
  std::ofstream(Part(path), std::ios::binary) << copied;
  WriteMap(Map(path), messages[0].FileContents(1), 10);
  // The shim looks for the files from time to time.
  do {
    ASSERT_EQ(Read(fd, buffer.data(), 100000, 0), 100000);
  } while (buffer[0] != 'c');
  EXPECT_EQ(
      std::string(buffer.data(), 100000),
      copied.substr(0, 10 * 4096) + data.substr(10 * 4096, 100000 - 10 * 4096));
  // The daemon drops it: from now on, all comes from the source.
  SetMapState(Map(path), kIsDropped);
  ASSERT_EQ(Read(fd, buffer.data(), kSize, 0), kSize);
  EXPECT_EQ(std::string(buffer.data(), kSize), data);
  EXPECT_EQ(KindsOf(Receive()), std::vector<MessageKind>{kClosed});
  Close(fd);
  EXPECT_TRUE(Receive().empty());
}

// Returns whether the shim has found the daemon's part of an open file.
bool HasPart(int fd) {
  Table::Entry* entry = shim.table.Acquire(fd);
  if (entry == nullptr) return false;
  const bool has_part = entry->payload.part.IsOpen();
  shim.table.Release(entry);
  return has_part;
}

TEST_F(TierPartialCopyTest, TheMapOfOneCopyIsNotUsedWithThePartOfAnother) {
  constexpr int64_t size = kSmallFileBytes + 1;
  const std::string path = Make("again", size);
  const std::string data = Contents(path);
  const std::string copied = Make("copied", size);
  int fd = Open(path);
  char first;
  ASSERT_EQ(Read(fd, &first, 1, 0), 1);
  const std::string reader_map = Receive().at(0).FileContents(1);
  Close(fd);
  // The daemon publishes a copy, evicts it, and begins again, all the time.
  const std::string part = Part(path), map = Map(path);
  std::atomic<bool> stops{false};
  std::thread daemon([&] {
    const std::string published = *folder_ + "/store/published";
    while (!stops) {
      EXPECT_EQ(link(copied.c_str(), part.c_str()), 0);
      WriteMap(map, reader_map, (size + kMinUnitBytes - 1) / kMinUnitBytes);
      EXPECT_EQ(rename(part.c_str(), published.c_str()), 0);
      EXPECT_EQ(unlink(map.c_str()), 0);
      EXPECT_EQ(unlink(published.c_str()), 0);
      std::ofstream(part).close();
      EXPECT_EQ(truncate(part.c_str(), size), 0);
      WriteMap(map, reader_map, 0);
      SetMapState(map, kIsDropped);
      EXPECT_EQ(unlink(map.c_str()), 0);
      EXPECT_EQ(unlink(part.c_str()), 0);
      Receive();
    }
  });
  std::vector<std::thread> readers;
  std::atomic<int> found{0};
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&] {
      std::vector<char> buffer(10000);
      while (found < 1000 && !HasFailure()) {
        const int file = Open(path);
        EXPECT_EQ(Read(file, buffer.data(), buffer.size(), 0), 10000);
        EXPECT_EQ(memcmp(buffer.data(), data.data(), buffer.size()), 0);
        if (HasPart(file)) ++found;
        Close(file);
      }
    });
  }
  for (std::thread& reader : readers) reader.join();
  stops = true;
  daemon.join();
}

TEST_F(TierPartialCopyTest, ThreadsWaitOnceForWhatIsFetchedInVain) {
  const std::string path = Make("fetched", kSize);
  const std::string data = Contents(path);
  const int fd = Open(path);
  char first;
  ASSERT_EQ(Read(fd, &first, 1, 0), 1);
  const std::vector<Received>& messages = Receive();
  ASSERT_EQ(KindsOf(messages), std::vector<MessageKind>{kReading});
  std::ofstream(Part(path), std::ios::binary) << data;
  WriteMap(Map(path), messages[0].FileContents(1), 0, true);
  // The first read has looked for the daemon's files, and no other one looks
  // for them within 20 ms, in which the threads might read all of the file.
  sys::Sleep(100 * kMillisecondNs);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      std::vector<char> buffer(10000);
      for (int64_t at = i * 10000; at < kSize; at += 4 * 10000) {
        const ssize_t got = Read(fd, buffer.data(), buffer.size(), at);
        ASSERT_GT(got, 0);
        ASSERT_EQ(memcmp(buffer.data(), data.data() + at, got), 0);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  Table::Entry* entry = shim.table.Acquire(fd);
  ASSERT_NE(entry, nullptr);
  EXPECT_FALSE(entry->payload.may_wait);
  shim.table.Release(entry);
  Close(fd);
}

TEST_F(TierPartialCopyTest, ASmallFileIsSentWhenItWasReadInOrder) {
  const std::string path = Make("small", 10000);
  const int fd = Open(path);
  std::vector<char> buffer(10000);
  ASSERT_EQ(Read(fd, buffer.data(), 6000, 0), 6000);
  ASSERT_EQ(Read(fd, buffer.data(), 5000, 1000), 5000);
  EXPECT_TRUE(Receive().empty());
  ASSERT_EQ(Read(fd, buffer.data(), 10000, 6000), 4000);
  const std::vector<Received>& messages = Receive();
  ASSERT_EQ(KindsOf(messages), std::vector<MessageKind>{kWhole});
  ASSERT_EQ(messages[0].fds.size(), 1u);
  EXPECT_EQ(messages[0].Inode(0), InodeOf(path));
  ASSERT_EQ(Read(fd, buffer.data(), 10000, 0), 10000);
  Close(fd);
  EXPECT_TRUE(Receive().empty());
}

TEST_F(TierPartialCopyTest, ThreadsSendASmallFileOnce) {
  for (int round = 0; round < 50; ++round) {
    const std::string path = Make("small" + std::to_string(round), 100000);
    const std::string data = Contents(path);
    const int fd = Open(path);
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&, i] {
        char buffer[1000];
        for (int at = i * 1000; at < 100000; at += 4 * 1000) {
          ASSERT_EQ(Read(fd, buffer, sizeof(buffer), at), 1000);
          ASSERT_EQ(memcmp(buffer, data.data() + at, sizeof(buffer)), 0);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    Close(fd);
    const std::vector<Received>& messages = Receive();
    ASSERT_LE(messages.size(), 1u);
    for (const Received& each : messages) {
      EXPECT_TRUE(each.kind == kWhole || each.kind == kUnseen) << each.kind;
      EXPECT_EQ(each.fds.size(), 1u);
    }
  }
}

TEST_F(TierPartialCopyTest, AClaimThatIsNotUsedIsGivenBack) {
  const std::string path = Make("claimed", 10000);
  char first;
  for (const int reads : {0, 1}) {
    const int fd = Open(path, LookupResult::kClaimed);
    ASSERT_EQ(Read(fd, &first, static_cast<size_t>(reads), 0), reads);
    EXPECT_TRUE(Receive().empty());
    Close(fd);
    EXPECT_EQ(KindsOf(Receive()), std::vector<MessageKind>{kClosed});
  }
  const int fd = Open(path, LookupResult::kClaimed);
  std::vector<char> buffer(10000);
  ASSERT_EQ(Read(fd, buffer.data(), 10000, 0), 10000);
  Close(fd);
  EXPECT_EQ(KindsOf(Receive()), std::vector<MessageKind>{kWhole});
}

TEST_F(TierPartialCopyTest, AFileThatHasChangedIsRead) {
  const std::string path = Make("changed", kSize);
  const int fd = Open(path);
  std::vector<char> buffer(kSize);
  ASSERT_EQ(Read(fd, buffer.data(), 10000, 0), 10000);
  ASSERT_EQ(KindsOf(Receive()), std::vector<MessageKind>{kReading});
  std::ofstream(path, std::ios::binary) << std::string(kSize, 'n');
  ASSERT_EQ(Read(fd, buffer.data(), kSize, 0), kSize);
  EXPECT_EQ(std::string(buffer.data(), kSize), std::string(kSize, 'n'));
  EXPECT_EQ(KindsOf(Receive()), std::vector<MessageKind>{kClosed});
  Close(fd);
  EXPECT_TRUE(Receive().empty());
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
  std::vector<MessageKind> kinds = KindsOf(Receive());
  EXPECT_EQ(std::count(kinds.begin(), kinds.end(), kReading), 24);
  EXPECT_EQ(std::count(kinds.begin(), kinds.end(), kClosed), 24);
  EXPECT_EQ(kinds.size(), 48u);
}

TEST_F(TierPartialCopyTest, ThreadsShareAPosition) {
  const std::string path = Make("position", kSize);
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
  const std::vector<Received>& messages = Receive();
  ASSERT_EQ(KindsOf(messages), std::vector<MessageKind>{kReading});
  const int64_t units = (kSize + kMinUnitBytes - 1) / kMinUnitBytes;
  EXPECT_EQ(UnitsOf(messages[0].FileContents(1)), std::string(units, kPresent));
  Close(fd);
}

}  // namespace
}  // namespace tier
}  // namespace tf_malleable
