// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// Tests that threads fill one copy together, and close files meanwhile.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "cc/tier/growing.h"
#include "cc/tier/system.h"

namespace tf_malleable {
namespace tier {
namespace {

constexpr int64_t kSize = (2 << 20) + 4321;

std::string Contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

class TierGrowingTest : public ::testing::Test {
 protected:
  // The shim is one for the process, and begins once.
  static void SetUpTestSuite() {
    char folder[] = "/tmp/tier_growing_test_XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    folder_ = new std::string(folder);
    const std::string uid = std::to_string(geteuid());
    for (const char* each :
         {"/source", "/store", "/store/growing", "/store/growing/private"}) {
      ASSERT_EQ(mkdir((*folder_ + each).c_str(), 0700), 0);
    }
    ASSERT_EQ(mkdir((*folder_ + "/store/growing/private/" + uid).c_str(), 0700),
              0);
    static std::string* text =
        new std::string("socket=" + *folder_ + "/socket\nstore=" + *folder_ +
                        "/store\nsource=" + *folder_ + "/source");
    Parse(text->data(), geteuid(), &shim.settings);
    Listen();
    WriteState();
    shim.daemon.Start(shim.settings.socket, nullptr);
    ASSERT_TRUE(shim.daemon.IsValid());
  }

  static void TearDownTestSuite() {
    const std::string command = "rm -rf " + *folder_;
    EXPECT_EQ(system(command.c_str()), 0);
  }

  // Nobody receives: the messages fit into the socket.
  static void Listen() {
    const int listener = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    sockaddr_un address;
    memset(&address, 0, sizeof(address));
    address.sun_family = AF_UNIX;
    strcpy(address.sun_path, shim.settings.socket);
    ASSERT_EQ(
        bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof(address)),
        0);
    ASSERT_EQ(listen(listener, 8), 0);
  }

  static void WriteState() {
    std::string digits;
    for (char c : Contents("/proc/sys/kernel/random/boot_id")) {
      if (c != '-' && digits.size() < 16) digits += c;
    }
    State state;
    memset(&state, 0, sizeof(state));
    state.magic = kStateMagic;
    state.version = kVersion;
    state.boot = strtoull(digits.c_str(), nullptr, 16);
    state.valid_until = UINT64_MAX;
    state.flags = kFills;
    state.largest = UINT64_MAX;
    std::string page(reinterpret_cast<char*>(&state), sizeof(state));
    page.resize(kStateBytes);
    std::ofstream(std::string(shim.settings.socket) + ".state") << page;
  }

  static std::string Make(const std::string& name, int64_t size) {
    std::string data(static_cast<size_t>(size), '\0');
    unsigned value = 1;
    for (char& c : data)
      c = static_cast<char>((value = value * 69069 + 1) >> 9);
    const std::string path = *folder_ + "/source/" + name;
    std::ofstream(path, std::ios::binary) << data;
    const timespec old[] = {{1000, 0}, {1000, 0}};
    EXPECT_EQ(utimensat(AT_FDCWD, path.c_str(), old, 0), 0);
    return path;
  }

  static int Open(const std::string& path) {
    const int fd = open(path.c_str(), O_RDONLY);
    Key key;
    EXPECT_TRUE(key.Find(shim.settings, path.c_str()));
    Begin(fd, key, Coming::kUnasked);
    return fd;
  }

  static void Close(int fd) {
    BeforeClose(fd);
    close(fd);
  }

  static ssize_t Read(int fd, char* data, size_t size, int64_t offset) {
    Table::Entry* entry = shim.table.Acquire(fd);
    if (entry == nullptr) return pread(fd, data, size, offset);
    const ssize_t got = ReadGrowingAt(entry, fd, data, size, offset);
    shim.table.Release(entry);
    return got;
  }

  static std::string Part(const std::string& path) {
    char part[kGrowingPath];
    GrowingPath(shim.settings.growing, path.data(), path.size(), ".part", part);
    return part;
  }

  static std::string Map(const std::string& path) {
    char map[kGrowingPath];
    GrowingPath(shim.settings.growing, path.data(), path.size(), ".map", map);
    return map;
  }

  static std::string* folder_;
};

std::string* TierGrowingTest::folder_;

TEST_F(TierGrowingTest, ThreadsFillOneCopyThroughOneDescriptor) {
  const std::string path = Make("one", kSize);
  const std::string data = Contents(path);
  const int fd = Open(path);
  // The first read makes the copy. Others do not wait for that for long, and
  // what they read meanwhile stays missing.
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
  const int64_t units = (kSize + kLeastUnit - 1) / kLeastUnit;
  EXPECT_EQ(map.substr(kMapBytes), std::string(units, kThere));
  MapHeader header;
  memcpy(&header, map.data(), sizeof(header));
  EXPECT_EQ(header.state, kIsFull);
  Close(fd);
}

TEST_F(TierGrowingTest, AnOddReadMarksOnlyWholeUnits) {
  const std::string path = Make("odd", kSize);
  const int fd = Open(path);
  std::vector<char> buffer(10000);
  ASSERT_EQ(Read(fd, buffer.data(), 10000, 5000), 10000);
  // From 5000 to 15000, only 8192 to 12288 is a whole unit.
  EXPECT_EQ(Contents(Map(path)).substr(kMapBytes), std::string("\0\0\1", 3));
  // Goes on where that ended.
  ASSERT_EQ(Read(fd, buffer.data(), 1384, 15000), 1384);
  EXPECT_EQ(Contents(Map(path)).substr(kMapBytes), std::string("\0\0\1\1", 4));
  // Does not.
  ASSERT_EQ(Read(fd, buffer.data(), 100, 100), 100);
  EXPECT_EQ(Contents(Map(path)).substr(kMapBytes), std::string("\0\0\1\1", 4));
  Close(fd);
}

TEST_F(TierGrowingTest, ThreadsReadAndCloseTheSameNumbers) {
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

TEST_F(TierGrowingTest, ThreadsShareAPosition) {
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
        const ssize_t got = ReadGrowing(entry, fd, buffer.data(), 1000);
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
