// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// Client of the daemon: the page with its state, and messages to it.
//
// Thread-safety: all functions may be called from any thread and from signal
// handlers. Only Ask blocks, for a bounded time.

#ifndef TF_MALLEABLE_CC_TIER_DAEMON_CLIENT_H_
#define TF_MALLEABLE_CC_TIER_DAEMON_CLIENT_H_

#include <stddef.h>
#include <stdint.h>

#include <atomic>

#include "cc/tier/protocol.h"
#include "cc/tier/settings.h"

namespace tf_malleable {
namespace tier {

// Returns the inode of an open file; 0 if the descriptor is not open.
uint64_t InodeOf(int fd);

// A descriptor of the shim, and the inode of its file: programs close
// descriptors that they have not opened, and may get the same numbers for other
// files. All zeros is none: the shim's state must need no constructor, as hooks
// may be called before any has run.
class OwnFile {
 public:
  // Returns the descriptor, which the program may have closed; -1 for none.
  int fd() const { return fd_plus_1_.load(std::memory_order_acquire) - 1; }
  // Returns whether the descriptor still is the file's.
  bool IsOpen() const {
    const int number = fd();
    return number >= 0 &&
           InodeOf(number) == inode_.load(std::memory_order_relaxed);
  }
  // Forgets a descriptor that the program has closed; returns whether there is
  // none now.
  bool ForgetIfClosed();
  // Takes over a descriptor; closes it if there is one already.
  void Keep(int opened);
  // As Keep, after it has moved the descriptor to a high number, where programs
  // expect none.
  void Take(int opened);
  // Closes the file, if it is still open; returns whether there was one.
  bool Close();

 private:
  std::atomic<int> fd_plus_1_;
  std::atomic<uint64_t> inode_;
};

// Counters of Counts, which threads add to.
struct AtomicCounts {
  std::atomic<uint64_t> copy_opens, copy_bytes, source_opens, source_bytes,
      growing_bytes, waits, wait_ns;

  Counts Get() const;
};

// State of the daemon at one moment.
struct StateView {
  bool has_store;  // The daemon has run since the machine was started.
  bool is_valid;   // It runs, so copies are as the source was a minute ago.
  uint64_t flags;  // StateFlags; 0 if the daemon does not run.
};

// Zero-initialised, so that it needs no constructor to be run.
class DaemonClient {
 public:
  // Starts the client of the daemon that the settings name, which must outlive
  // it.
  void Start(const Settings& settings);

  // Adds to a counter of this process and of its job.
  void Count(std::atomic<uint64_t> AtomicCounts::*which, uint64_t more = 1) {
    (counts_.*which).fetch_add(more, std::memory_order_relaxed);
    AtomicCounts* all = all_counts_.load(std::memory_order_relaxed);
    if (all != nullptr) {
      (all->*which).fetch_add(more, std::memory_order_relaxed);
    }
  }

  // Counts a wait since `begin`, by the monotonic clock in ns.
  void CountWait(int64_t begin);

  StateView ReadState();
  bool IsValid() { return ReadState().is_valid; }
  uint64_t Flags() { return ReadState().flags; }
  // Returns the maximum size of a file that may be copied; 0 if none may be.
  int64_t MaxFileBytes();
  // Returns whether the folder of this key, or the folder around it, is in
  // State::unasked.
  bool IsUnasked(const char* key, size_t size);

  // Sends a message with descriptors; returns whether it was sent.
  bool Send(MessageKind kind, const char* key, size_t size,
            const Identity* identity, const int* fds, int fds_size);
  // Sends the counters and the key of a copy, at most once a second.
  void ReportCounts(const char* key, size_t size);
  // Sends the counters at the end of the process.
  void ReportFinalCounts();
  // Looks a key up; the reply is never kWait.
  Reply Ask(const char* key, size_t size);

  // Resets the client in a forked child: counters, connection and process id.
  void AfterFork();
  // Closes the socket, for example because descriptors have run out.
  void Disconnect() { connection_.Close(); }
  int pid() const { return pid_.load(std::memory_order_relaxed); }

 private:
  // Returns the page, which it looks for if there is no valid one.
  const State* CurrentPage(bool* is_valid);
  // Maps the state file; null if it is neither root's nor the user's own.
  const State* MapPage();
  static bool IsValid(const State* page);
  // Returns whether a page is of this boot, and of the store of the settings.
  bool IsOurs(const State& page) const;
  // Returns the connected socket; -1 if there is none, or if another user
  // listens there.
  int Connection();

  AtomicCounts counts_;
  std::atomic<AtomicCounts*> all_counts_;
  const Settings* settings_;
  uint64_t boot_;
  std::atomic<const State*> page_;
  // Time at which the page was last valid, by a coarse clock, which is read
  // fast.
  std::atomic<int64_t> valid_at_;
  // Times of the next search for a page, of the next report, and of the end of
  // the time without lookups; by the monotonic clock, in ns.
  std::atomic<int64_t> next_try_;
  std::atomic<int64_t> next_report_;
  std::atomic<int64_t> quiet_until_;
  std::atomic<int> pid_;
  OwnFile connection_;
};

}  // namespace tier
}  // namespace tf_malleable

#endif  // TF_MALLEABLE_CC_TIER_DAEMON_CLIENT_H_
