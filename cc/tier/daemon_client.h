// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// The shim's side of the daemon: the page that says whether it lives, and
// messages to it.
//
// Thread-safety: all may be called from any thread and from signal handlers.
// Only Ask waits, for a bounded time.

#ifndef TF_MALLEABLE_CC_TIER_DAEMON_CLIENT_H_
#define TF_MALLEABLE_CC_TIER_DAEMON_CLIENT_H_

#include <stddef.h>
#include <stdint.h>

#include <atomic>

#include "cc/tier/protocol.h"
#include "cc/tier/settings.h"

namespace tf_malleable {
namespace tier {

// What is added up for Counts.
struct AtomicCounts {
  std::atomic<uint64_t> copy_opens, copy_bytes, copy_stats, source_opens,
      source_bytes, growing_bytes, waits, wait_ns;

  Counts Get() const;
};

// What the page says at one moment.
struct StateView {
  bool has_store;  // The daemon has lived since the machine was started.
  bool is_valid;   // It lives, so copies are as the source was a minute ago.
  uint64_t flags;  // 0 if it does not live.
};

class DaemonClient {
 public:
  // Begins. `socket` must stay. `counts` is the file of the sums of all
  // processes of the job, or null.
  void Start(const char* socket, const char* counts);

  // Adds to the sums of this process, and of its job.
  void Count(std::atomic<uint64_t> AtomicCounts::*which, uint64_t more = 1) {
    (counts_.*which).fetch_add(more, std::memory_order_relaxed);
    AtomicCounts* all = all_counts_.load(std::memory_order_relaxed);
    if (all != nullptr) {
      (all->*which).fetch_add(more, std::memory_order_relaxed);
    }
  }

  StateView ReadState();
  bool HasStore() { return ReadState().has_store; }
  bool IsValid() { return ReadState().is_valid; }
  uint64_t Flags() { return ReadState().flags; }
  // The size of the largest file of which a copy may be begun; 0 for none.
  int64_t MaxFileBytes();
  // Whether it takes small files of this process's user from memory.
  bool TakesHandoffs();
  // The inode of the socket, which is connected if it was not; 0 if it cannot.
  uint64_t ConnectionInode();
  // Whether nobody asks of files in the folder of this key, or the one around.
  bool IsUnasked(const char* key, size_t size);

  // Sends, with descriptors; returns whether it could.
  bool Send(MessageKind kind, const char* key, size_t size,
            const Identity* identity, const int* fds, int fds_size);
  // Sends counts and the key of a copy if the last time was a second ago.
  void ReportCounts(const char* key, size_t size);
  // The same at the end of the process.
  void ReportFinalCounts();
  // Asks about a key; the answer is never kWait.
  Reply Ask(const char* key, size_t size);

  // A process that was forked begins anew.
  void AfterFork();
  // Closes the socket, as descriptors have run out.
  void Disconnect();
  int pid() const { return pid_.load(std::memory_order_relaxed); }

 private:
  const State* CurrentPage(bool* is_valid);
  const State* MapPage(unsigned* owner);
  static bool IsValid(const State* page);
  int Connection();

  AtomicCounts counts_;
  std::atomic<AtomicCounts*> all_counts_;
  const char* socket_;
  uint64_t boot_;
  std::atomic<const State*> page_;
  std::atomic<unsigned> owner_;  // Of the page.
  // When it was found to be valid, by a clock that is read in no time.
  std::atomic<int64_t> valid_at_;
  std::atomic<int64_t> next_try_;
  std::atomic<int64_t> next_report_;
  std::atomic<int64_t> quiet_until_;
  std::atomic<int> pid_;
  // The socket's number + 1 and its inode, to tell whether it is still ours.
  std::atomic<int> connection_;
  std::atomic<uint64_t> connection_inode_;
};

// Moves a descriptor of ours out of the way of the program's; returns its new
// number, the old one if that fails, or -1.
int MoveFdUp(int fd);
// Closes it if it still is that file.
void CloseIfSame(int fd, uint64_t inode);
// The inode of an open file; 0 if it is none.
uint64_t InodeOf(int fd);

}  // namespace tier
}  // namespace tf_malleable

#endif  // TF_MALLEABLE_CC_TIER_DAEMON_CLIENT_H_
