// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// Files that a program has open in the source while a copy of them grows.
//
// Thread-safety: all may be called from any thread and from signal handlers. A
// read waits only for the source, for a piece that the daemon fetches (kStallNs
// at most), or for another thread that reads by the same position.

#ifndef TF_MALLEABLE_CC_TIER_PARTIAL_COPY_H_
#define TF_MALLEABLE_CC_TIER_PARTIAL_COPY_H_

#include <limits.h>
#include <sys/types.h>

#include <atomic>

#include "cc/tier/daemon_client.h"
#include "cc/tier/descriptor_table.h"
#include "cc/tier/handoff_client.h"
#include "cc/tier/protocol.h"
#include "cc/tier/settings.h"

namespace tf_malleable {
namespace tier {

// A descriptor of ours: its number, and what it must be, as programs close
// numbers that they have not opened, and get them for something else.
struct OwnFile {
  int fd = -1;
  uint64_t inode = 0;

  bool IsOpen() const { return fd >= 0 && InodeOf(fd) == inode; }
  // Takes a descriptor over, moving it up.
  void Take(int opened);
  void Close();
};

// One open file of a program's.
struct PartialCopy {
  enum Stage : uint32_t {
    kFresh,     // Nothing was read yet, and nothing made.
    kCreating,  // A thread is making it.
    kSmallFile,
    kMapped,  // There is a map, and a part if the reader fills it.
    kOff,     // Reads go to the source.
  };

  void Reset();

  std::atomic<uint32_t> stage;
  Identity identity;
  bool is_public;    // For the daemon to copy.
  bool is_expected;  // The daemon has said that it grows.
  bool is_joined;    // Somebody else has begun it.
  OwnFile map, part;
  // Where to read from: the same, or what the daemon makes.
  OwnFile read_map, read_part;
  std::atomic<int64_t> next_search;  // For these, if they are not there.
  uint32_t unit, units;
  std::atomic<uint32_t> cursor;  // All units before are there.
  std::atomic<bool> is_full;
  std::atomic<bool> is_unseen;
  std::atomic<bool> may_wait;  // Waits for pieces.
  // Its position is shared with other processes or descriptors.
  std::atomic<bool> is_shared;
  std::atomic<int> position_owner;  // The thread that reads by it.
  // What was read without a gap, last. Guarded by run_lock.
  std::atomic<bool> run_lock;
  int64_t run_begin, run_end;
  uint16_t key_size;
  char key[PATH_MAX];  // With a 0 after it.
};

using Table = DescriptorTable<PartialCopy>;

// All that the shim remembers. Zero at first, and then off.
struct Shim {
  std::atomic<bool> is_on;
  Settings settings;
  DaemonClient daemon;
  HandoffQueue handoff;
  Table table;
  std::atomic<uint64_t> copies_device;  // Of complete copies.
  std::atomic<int> own_files;           // Open ones, about.
};
extern Shim shim;

// What the daemon has said of a file without a complete copy.
enum class LookupResult {
  kNotAsked,
  kPartialCopy,
  kClaimed,  // Whoever was told so is to make one, and others wait for it.
};

// Notes that a program has opened a file of the source, of which a copy may
// grow, or does. Costs no system call if none may and nobody waits for it.
void TrackOpenFile(int fd, const Key& key, LookupResult result);

// read(), with an entry. Both return what the system call would.
ssize_t ReadPartialCopy(Table::Entry* entry, int fd, void* data, size_t size);
ssize_t ReadPartialCopyAt(Table::Entry* entry, int fd, void* data, size_t size,
                          int64_t offset);

// While one exists, no other thread of the process reads by the position of
// this file through the shim. Not held() if others may do it anyway.
class PositionLock {
 public:
  explicit PositionLock(PartialCopy* partial);
  ~PositionLock();
  PositionLock(const PositionLock&) = delete;
  PositionLock& operator=(const PositionLock&) = delete;
  bool held() const { return held_; }

 private:
  PartialCopy* const partial_;
  bool held_;
};

enum class UnseenUse {
  kMapped,      // It can still be read through the shim.
  kDuplicated,  // There are more descriptors with its position.
  kGone,        // It belongs to stdio.
};
// A program is about to use a descriptor in a way that the shim cannot see. It
// becomes a complete copy's if there is one, or will be in a second.
void BeforeUnseenUse(int fd, UnseenUse use);

// A program is about to close it, or to make it another file.
void BeforeClose(int fd);

// Gives up all descriptors of ours, as the program needs them. Whether there
// were any.
bool ReleaseDescriptors();

}  // namespace tier
}  // namespace tf_malleable

#endif  // TF_MALLEABLE_CC_TIER_PARTIAL_COPY_H_
