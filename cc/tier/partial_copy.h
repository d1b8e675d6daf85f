// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// PartialCopy: a file that the program has open in the source while the daemon
// makes its copy.
//
// Thread-safety: all functions may be called from any thread and from signal
// handlers. A read blocks only for the source, for a range that the daemon
// fetches (at most kStallNs), for another thread that begins the same copy (at
// most 50 ms), or for one that reads by the same position (at most 1 s).

#ifndef TF_MALLEABLE_CC_TIER_PARTIAL_COPY_H_
#define TF_MALLEABLE_CC_TIER_PARTIAL_COPY_H_

#include <limits.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <atomic>

#include "cc/tier/daemon_client.h"
#include "cc/tier/descriptor_table.h"
#include "cc/tier/protocol.h"
#include "cc/tier/settings.h"

namespace tf_malleable {
namespace tier {

// A file of a partial copy, which counts as one of Shim::own_files.
struct PartialCopyFile : OwnFile {
  void Take(int opened);
  void Close();
};

// State of the partial copy of one open file. Fresh if it is all zeros, but for
// identity, units, may_wait and key.
struct PartialCopy {
  enum Stage : uint32_t {
    kFresh,      // Nothing was read or created yet.
    kCreating,   // A thread is creating the map.
    kSmallFile,  // The file needs no map: it is read from its beginning on.
    kMapped,     // The file has a map, which the daemon has, too.
    kComplete,   // The part is the complete copy.
    kOff,        // The copy is no longer used: reads go to the source.
  };

  void Reset();

  std::atomic<uint32_t> stage;
  Identity identity;
  bool is_expected;     // The daemon has replied that a partial copy exists.
  bool is_claimed;      // This process has the claim.
  PartialCopyFile map;  // What this process has read.
  // The daemon's partial copy, once it was found.
  PartialCopyFile part, part_map;
  // Time of the next search for the daemon's files; see part.cc.
  std::atomic<int64_t> next_search;
  uint32_t unit, units;         // Size of a unit in bytes, and number of units.
  std::atomic<bool> is_sent;    // kWhole was sent.
  std::atomic<bool> is_unseen;  // kUnseen was sent.
  std::atomic<bool> may_wait;   // Reads may wait for missing ranges.
  // Whether other processes or descriptors share the file's position.
  std::atomic<bool> is_shared;
  // Whether the descriptor must stay the source's: it may have a lock.
  std::atomic<bool> is_kept;
  std::atomic<int> position_owner;  // Thread that reads by the position; or 0.
  // The last run: a range that was read without a gap. Guarded by run_lock.
  std::atomic<bool> run_lock;
  int64_t run_begin, run_end;
  uint16_t key_size;
  char key[PATH_MAX];  // Followed by a 0.
};

using Table = DescriptorTable<PartialCopy>;

// The state of the shim in this process. Zero-initialised, which means off.
struct Shim {
  std::atomic<bool> is_on;
  Settings settings;
  DaemonClient daemon;
  Table table;
  std::atomic<uint64_t> copies_device;  // Device of the complete copies.
  std::atomic<int> own_files;           // Open files of partial copies.
};
extern Shim shim;

// Result of the lookup of a file without a complete copy.
enum class LookupResult {
  kNotAsked,     // The daemon was not asked.
  kPartialCopy,  // A partial copy exists.
  kClaimed,      // The reader has the claim, and others wait for its copy.
};

// Begins to track a file that the program has opened in the source, if it may
// be copied, or has a partial copy already. Takes no system call if files may
// not be copied and no lookup has to be answered.
void TrackOpenFile(int fd, const Key& key, LookupResult result);

// Begins to track a descriptor of the source that has replaced one of the
// complete copy, from which it is still read; returns whether it does, and has
// taken over `copy`.
bool TrackComplete(int fd, const struct statx& status, const char* key,
                   int copy);
// Called before the program uses a descriptor for a lock, which it would lose
// if the descriptor were replaced by one of the copy.
void KeepSource(int fd);

// As read() and pread() of a file with an entry: return the result of the
// system call.
ssize_t ReadPartialCopy(Table::Entry* entry, int fd, void* data, size_t size);
ssize_t ReadPartialCopyAt(Table::Entry* entry, int fd, void* data, size_t size,
                          int64_t offset);

// While it is held(), no other thread of the process reads through the shim by
// the position of this file.
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

// Kinds of use that the shim cannot see.
enum class UnseenUse {
  kMapped,      // A single use: the shim still sees later reads.
  kDuplicated,  // Another descriptor gets the same position.
  kGone,        // For good: the shim sees no later reads.
};
// Called before the program uses a descriptor in a way that the shim cannot
// see. The descriptor is replaced by one of the complete copy, if that exists
// or will exist within a second.
void BeforeUnseenUse(int fd, UnseenUse use);

// Called before the program closes a descriptor, or makes it refer to another
// file.
void BeforeClose(int fd);

// If the last call failed for lack of descriptors, closes all of the shim, as
// the program needs them; returns whether there were any.
bool ReleaseDescriptors();

}  // namespace tier
}  // namespace tf_malleable

#endif  // TF_MALLEABLE_CC_TIER_PARTIAL_COPY_H_
