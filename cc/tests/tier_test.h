// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// TierTest: a shim that works in the test's process, and a daemon that only
// receives.

#ifndef TF_MALLEABLE_CC_TESTS_TIER_TEST_H_
#define TF_MALLEABLE_CC_TESTS_TIER_TEST_H_

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "cc/tier/partial_copy.h"

namespace tf_malleable {
namespace tier {

inline std::string Contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// A message that the shim has sent. Owns its descriptors.
struct Received {
  MessageKind kind;
  std::string path;
  Identity identity;
  std::vector<int> fds;

  std::string FileContents(size_t index) const {
    return Contents("/proc/self/fd/" + std::to_string(fds.at(index)));
  }
  uint64_t Inode(size_t index) const { return InodeOf(fds.at(index)); }
};

class TierTest : public ::testing::Test {
 protected:
  // The process has one shim, which is started once.
  static void SetUpTestSuite() {
    char folder[] = "/tmp/tier_test_XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    folder_ = new std::string(folder);
    const std::string uid = std::to_string(geteuid());
    for (const char* each : {"/source", "/store", "/store/private",
                             "/store/growing", "/store/growing/private"}) {
      ASSERT_EQ(mkdir((*folder_ + each).c_str(), 0700), 0);
    }
    for (const char* each : {"/store/private/", "/store/growing/private/"}) {
      ASSERT_EQ(mkdir((*folder_ + each + uid).c_str(), 0700), 0);
    }
    static std::string* text =
        new std::string("socket=" + *folder_ + "/socket");
    WriteState();
    LoadSettings(text->data(), geteuid(), &shim.settings);
    ASSERT_TRUE(shim.settings.is_on);
    Listen();
    shim.daemon.Start(shim.settings);
    ASSERT_TRUE(shim.daemon.IsValid());
  }

  static void TearDownTestSuite() {
    const std::string command = "rm -rf " + *folder_;
    EXPECT_EQ(system(command.c_str()), 0);
  }

  // No thread receives the messages: those of a test fit into the socket.
  static void Listen() {
    const int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);
    sockaddr_un address;
    memset(&address, 0, sizeof(address));
    address.sun_family = AF_UNIX;
    strcpy(address.sun_path, shim.settings.socket);
    ASSERT_EQ(
        bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof(address)),
        0);
    ASSERT_EQ(listen(listener, 8), 0);
    listener_ = listener;
  }

  void TearDown() override { Receive(); }

  // Receives what the shim has sent since the last call.
  const std::vector<Received>& Receive() {
    for (const Received& each : received_) {
      for (int fd : each.fds) close(fd);
    }
    received_.clear();
    if (connection_ < 0) connection_ = accept(listener_, nullptr, nullptr);
    for (;;) {
      Message message;
      char path[PATH_MAX];
      iovec parts[] = {{&message, sizeof(message)}, {path, sizeof(path)}};
      alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * 4)];
      msghdr header;
      memset(&header, 0, sizeof(header));
      header.msg_iov = parts;
      header.msg_iovlen = 2;
      header.msg_control = control;
      header.msg_controllen = sizeof(control);
      const ssize_t size = recvmsg(connection_, &header, MSG_DONTWAIT);
      if (size <= 0) return received_;
      EXPECT_GE(size, static_cast<ssize_t>(sizeof(message)));
      EXPECT_EQ(message.magic, kMessageMagic);
      Received each = {static_cast<MessageKind>(message.kind),
                       std::string(path, size - sizeof(message)),
                       message.identity,
                       {}};
      for (cmsghdr* rights = CMSG_FIRSTHDR(&header); rights != nullptr;
           rights = CMSG_NXTHDR(&header, rights)) {
        each.fds.resize((rights->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        memcpy(each.fds.data(), CMSG_DATA(rights),
               each.fds.size() * sizeof(int));
      }
      received_.push_back(each);
    }
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
    struct stat store;
    ASSERT_EQ(stat((*folder_ + "/store").c_str(), &store), 0);
    state.store_device = store.st_dev;
    state.store_inode = store.st_ino;
    std::string page(reinterpret_cast<char*>(&state), sizeof(state));
    page.resize(kStateBytes);
    page += "store=" + *folder_ + "/store\nsource=" + *folder_ + "/source\n";
    std::ofstream(*folder_ + "/socket.state") << page;
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

  static int Open(const std::string& path,
                  LookupResult result = LookupResult::kNotAsked) {
    const int fd = open(path.c_str(), O_RDONLY);
    Key key;
    EXPECT_TRUE(key.Find(shim.settings, path.c_str()));
    TrackOpenFile(fd, key, result);
    return fd;
  }

  static void Close(int fd) {
    BeforeClose(fd);
    close(fd);
  }

  static ssize_t Read(int fd, char* data, size_t size, int64_t offset) {
    Table::Entry* entry = shim.table.Acquire(fd);
    if (entry == nullptr) return pread(fd, data, size, offset);
    const ssize_t got = ReadPartialCopyAt(entry, fd, data, size, offset);
    shim.table.Release(entry);
    return got;
  }

  static std::string Part(const std::string& path) {
    char part[kPartialPathBytes];
    PartialPath(shim.settings.private_partials, path.data(), path.size(),
                ".part", part);
    return part;
  }

  static std::string Map(const std::string& path) {
    char map[kPartialPathBytes];
    PartialPath(shim.settings.private_partials, path.data(), path.size(),
                ".map", map);
    return map;
  }

  inline static std::string* folder_ = nullptr;
  inline static int listener_ = -1;
  inline static int connection_ = -1;

 private:
  std::vector<Received> received_;
};

}  // namespace tier
}  // namespace tf_malleable

#endif  // TF_MALLEABLE_CC_TESTS_TIER_TEST_H_
