// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// Tests the handoff of small files: threads hand them over while the daemon
// takes them.

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/xattr.h>

#include <atomic>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "cc/tests/tier_test.h"
#include "cc/tier/handoff_server.h"
#include "cc/tier/identity.h"
#include "cc/tier/syscalls.h"

namespace tf_malleable {
namespace tier {
namespace {

constexpr int64_t kSize = 12000;

class TierHandoffTest : public TierTest {
 protected:
  void SetUp() override { SetFlags(kFills | kTakes); }

  // Each test has its own queue, as each connection has.
  void TearDown() override {
    if (queue_ != nullptr) tfm_tier_queue_close(queue_);
    if (reader_ >= 0) close(reader_);
    shim.daemon.Disconnect();
    ForgetQueue();
    SetFlags(kFills);
  }

  static std::string Copy(const std::string& path) {
    return *folder_ + "/store/private/" + std::to_string(geteuid()) + path;
  }

  static bool Exists(const std::string& path) {
    return access(path.c_str(), F_OK) == 0;
  }

  static void ReadWhole(const std::string& path, int64_t piece) {
    const int fd = Open(path);
    std::vector<char> buffer(static_cast<size_t>(piece));
    for (int64_t at = 0, got = 1; got > 0; at += got) {
      got = Read(fd, buffer.data(), buffer.size(), at);
      ASSERT_GE(got, 0);
    }
    Close(fd);
  }

  // Receives the descriptor of the queue, as the daemon does.
  void TakeQueue() {
    const int reader = accept(listener_, nullptr, nullptr);
    ASSERT_GE(reader, 0);
    Message message;
    iovec part = {&message, sizeof(message)};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
    msghdr header = {};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof(control);
    ASSERT_EQ(recvmsg(reader, &header, 0),
              static_cast<ssize_t>(sizeof(message)));
    ASSERT_EQ(message.kind, kQueue);
    int fd = -1;
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&header)), sizeof(fd));
    queue_ = tfm_tier_queue_open(fd);
    ASSERT_NE(queue_, nullptr);
    close(fd);
    reader_ = reader;
  }

  // Takes all files in the queue; returns the error of each key.
  std::map<std::string, int> Take() {
    const std::string uid = std::to_string(geteuid());
    const std::string store = *folder_ + "/store/private/" + uid;
    const std::string growing = *folder_ + "/store/growing/private/" + uid;
    const std::string sources = *folder_ + "/source" + '\0';
    std::map<std::string, int> found;
    std::vector<char> out(1 << 16);
    int64_t size;
    while ((size = tfm_tier_queue_take(queue_, &taken_, store.c_str(),
                                       growing.c_str(), sources.c_str(),
                                       out.data(), 1 << 16)) > 0) {
      for (int64_t at = 0; at < size;) {
        HandedFile each;
        memcpy(&each, out.data() + at, sizeof(each));
        at += sizeof(each);
        found[std::string(out.data() + at, each.key_size)] = each.error;
        at = (at + each.key_size + 7) / 8 * 8;
      }
    }
    is_broken_ = size < 0;
    return found;
  }

  int reader_ = -1;
  void* queue_ = nullptr;
  uint64_t taken_ = 0;
  bool is_broken_ = false;
};

TEST_F(TierHandoffTest, FilesThatWereReadBecomeCopies) {
  const std::string at_once = Make("at_once", kSize);
  const std::string in_pieces = Make("in_pieces", kSize);
  ReadWhole(at_once, kSize + 1);
  ReadWhole(in_pieces, 5000);
  TakeQueue();
  EXPECT_FALSE(Exists(Copy(at_once)));
  const std::map<std::string, int> taken = Take();
  EXPECT_EQ(taken, (std::map<std::string, int>{{at_once, 0}, {in_pieces, 0}}));
  for (const std::string& path : {at_once, in_pieces}) {
    EXPECT_EQ(Contents(Copy(path)), Contents(path));
    Identity identity;
    EXPECT_TRUE(
        IsIdentity(identity, getxattr(Copy(path).c_str(), kSourceAttribute,
                                      &identity, sizeof(identity))));
    struct statx status;
    ASSERT_EQ(sys::Status(Copy(path).c_str(), &status), 0);
    EXPECT_EQ(identity.copy_inode, status.stx_ino);
    EXPECT_EQ(status.stx_mode & 0777, 0600);
  }
  EXPECT_TRUE(Take().empty());
}

TEST_F(TierHandoffTest, ThreadsHandOverWhileTheDaemonTakes) {
  constexpr int kThreads = 4;
  constexpr int kFiles = 100;
  const std::string first = Make("first", 1);
  ReadWhole(first, 10);
  TakeQueue();
  std::vector<std::vector<std::string>> paths(kThreads);
  for (int i = 0; i < kThreads; ++i) {
    for (int n = 0; n < kFiles; ++n) {
      const std::string name = std::to_string(i) + "-" + std::to_string(n);
      paths[i].push_back(Make(name, 1 + (n * 7919 + i * 104729) % 70000));
    }
  }
  std::atomic<int> running{kThreads};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      for (const std::string& path : paths[i]) ReadWhole(path, 70001);
      --running;
    });
  }
  std::map<std::string, int> all;
  for (bool is_last = false; !is_last;) {
    is_last = running == 0;
    all.merge(Take());
    EXPECT_FALSE(is_broken_);
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(all[first], 0);
  // A thread that found the queue full or in use has sent a part instead.
  EXPECT_GT(all.size(), static_cast<size_t>(kFiles));
  for (const auto& [path, error] : all) {
    EXPECT_EQ(error, 0);
    EXPECT_EQ(Contents(Copy(path)), Contents(path));
  }
  EXPECT_EQ(shim.own_files.load(), 0);
}

TEST_F(TierHandoffTest, AFullQueueTakesNothingMore) {
  std::vector<std::string> paths;
  for (int i = 0; i < 6; ++i) {
    paths.push_back(Make("large" + std::to_string(i), 900000));
    ReadWhole(paths.back(), 1 << 20);
  }
  TakeQueue();
  const std::map<std::string, int> taken = Take();
  EXPECT_EQ(taken.size(), 4u);
  // The queue has room again, beyond the ring's end.
  ReadWhole(paths[5], 1 << 20);
  EXPECT_EQ(Take(), (std::map<std::string, int>{{paths[5], 0}}));
  EXPECT_EQ(Contents(Copy(paths[5])), Contents(paths[5]));
}

TEST_F(TierHandoffTest, WithdrawnFilesAreNotCopied) {
  const std::string kept = Make("kept", kSize);
  const std::string changed = Make("changed", kSize);
  ReadWhole(kept, kSize);
  ReadWhole(changed, kSize);
  TakeQueue();
  Key key;
  key.Set(changed.data(), changed.size());
  Withdraw(key);
  EXPECT_EQ(Take(),
            (std::map<std::string, int>{{kept, 0}, {changed, ECANCELED}}));
  EXPECT_TRUE(Exists(Copy(kept)));
  EXPECT_FALSE(Exists(Copy(changed)));
}

TEST_F(TierHandoffTest, FilesWithdrawnMeanwhileAreNotCopied) {
  const std::string path = Make("contended", kSize);
  ReadWhole(path, kSize);
  TakeQueue();
  Key key;
  key.Set(path.data(), path.size());
  for (int i = 0; i < 200; ++i) {
    if (i > 0) ReadWhole(path, kSize);
    std::thread daemon([this] { Take(); });
    Withdraw(key);
    // As the shim does next.
    unlink(Copy(path).c_str());
    const bool is_there = Exists(Copy(path));
    daemon.join();
    EXPECT_FALSE(is_there);
    EXPECT_FALSE(Exists(Copy(path)));
  }
}

TEST_F(TierHandoffTest, TheDaemonIsToldOnlyWhenItRests) {
  const std::string path = Make("told", kSize);
  ReadWhole(path, kSize);
  TakeQueue();
  auto* queue = static_cast<QueueHeader*>(queue_);
  EXPECT_EQ(queue->is_watched, 1u);
  EXPECT_FALSE(tfm_tier_queue_rest(queue_, taken_));
  Take();
  EXPECT_TRUE(tfm_tier_queue_rest(queue_, taken_));
  EXPECT_EQ(queue->is_watched, 0u);
}

TEST_F(TierHandoffTest, AReaderMayWriteAnything) {
  const std::string path = Make("any", kSize);
  const auto hand_over = [&](auto change) {
    ReadWhole(path, kSize);
    if (queue_ == nullptr) TakeQueue();
    auto* queue = static_cast<QueueHeader*>(queue_);
    change(queue, reinterpret_cast<QueueRecord*>(static_cast<char*>(queue_) +
                                                 kQueueRingOffset +
                                                 taken_ % kQueueRingBytes));
    const std::map<std::string, int> taken = Take();
    const bool is_refused = is_broken_;
    taken_ = queue->taken = queue->written;
    return is_refused || taken.begin()->second == EPERM;
  };
  EXPECT_FALSE(hand_over([](QueueHeader*, QueueRecord*) {}));
  EXPECT_TRUE(hand_over([](QueueHeader*, QueueRecord* r) { r->magic = 7; }));
  EXPECT_TRUE(hand_over([](QueueHeader*, QueueRecord* r) { r->size = 8; }));
  EXPECT_TRUE(hand_over(
      [](QueueHeader*, QueueRecord* r) { r->key_size = 0xffffffff; }));
  EXPECT_TRUE(
      hand_over([](QueueHeader*, QueueRecord* r) { r->identity.size = -1; }));
  EXPECT_TRUE(hand_over([](QueueHeader*, QueueRecord* r) {
    r->identity.size = kSmallFileBytes + 1;
  }));
  EXPECT_TRUE(hand_over([](QueueHeader*, QueueRecord* r) {
    r->size = r->size + 64;
    r->identity.size += 64;
  }));
  // A path out of the source, or with a 0.
  for (const char* letters : {"x", "\0"}) {
    EXPECT_TRUE(hand_over([&](QueueHeader*, QueueRecord* r) {
      reinterpret_cast<char*>(r + 1)[1] = letters[0];
    }));
  }
  EXPECT_TRUE(hand_over([&](QueueHeader*, QueueRecord* r) {
    char* key = reinterpret_cast<char*>(r + 1);
    memcpy(key + r->key_size - 3, "/..", 3);
  }));
  EXPECT_TRUE(hand_over(
      [](QueueHeader* q, QueueRecord*) { q->written += uint64_t{1} << 40; }));
}

TEST_F(TierHandoffTest, OnlyASealedFileIsAQueue) {
  const int fd = static_cast<int>(
      syscall(SYS_memfd_create, "queue", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(fd, kQueueBytes), 0);
  const QueueHeader header = {kQueueMagic, kVersion, 0, 0, 0, 0};
  ASSERT_EQ(pwrite(fd, &header, sizeof(header), 0),
            static_cast<ssize_t>(sizeof(header)));
  EXPECT_EQ(tfm_tier_queue_open(fd), nullptr);
  ASSERT_EQ(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
  void* const queue = tfm_tier_queue_open(fd);
  EXPECT_NE(queue, nullptr);
  tfm_tier_queue_close(queue);
  close(fd);
  EXPECT_EQ(tfm_tier_queue_open(fd), nullptr);
}

}  // namespace
}  // namespace tier
}  // namespace tf_malleable
