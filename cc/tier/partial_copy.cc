// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.

#include "cc/tier/partial_copy.h"

#include <sys/xattr.h>

#include "cc/tier/block_map.h"
#include "cc/tier/copy_creation.h"
#include "cc/tier/fill.h"
#include "cc/tier/identity.h"
#include "cc/tier/lookup.h"
#include "cc/tier/partial_copy_files.h"
#include "cc/tier/syscalls.h"

namespace tf_malleable {
namespace tier {

Shim shim;

namespace {

// Age of the last modification from which a file may be copied.
constexpr int64_t kSettledSeconds = 10;
// Maximum waits for a complete copy and for a position, and their pauses.
constexpr int64_t kMaxSwapWaitNs = kSecondNs;
constexpr int64_t kSwapPauseNs = 2 * kMillisecondNs;
constexpr int64_t kMaxPositionWaitNs = kSecondNs;
constexpr int64_t kPositionPauseNs = 50 * kMicrosecondNs;

ssize_t ReadSource(int fd, void* data, size_t size, int64_t offset) {
  const ssize_t got = sys::ReadAt(fd, data, size, offset);
  if (got > 0) {
    shim.daemon.Count(&AtomicCounts::source_bytes, static_cast<uint64_t>(got));
  }
  return got;
}

// Reads from the part, and what is missing there from the source.
ssize_t ReadMapped(PartialCopy* partial, int fd, char* data, int64_t size,
                   int64_t offset) {
  int64_t done = 0;
  while (done < size) {
    const int64_t at = offset + done;
    MapRange range = FindRange(partial, at, size - done);
    if (!range.is_present && range.is_fetching &&
        partial->may_wait.load(std::memory_order_relaxed)) {
      range = AwaitRange(partial, at, size - done);
    }
    if (range.is_dropped) {
      partial->stage.store(PartialCopy::kOff, std::memory_order_relaxed);
    }
    ssize_t got = 0;
    if (range.is_present && partial->read_part.IsOpen()) {
      got = sys::ReadAt(partial->read_part.fd, data + done,
                        static_cast<size_t>(range.size), at);
      if (got > 0) {
        shim.daemon.Count(&AtomicCounts::growing_bytes,
                          static_cast<uint64_t>(got));
      }
    }
    if (got <= 0) {
      got = ReadSource(fd, data + done, static_cast<size_t>(range.size), at);
      if (got < 0) return done > 0 ? done : -1;
      if (got == 0) break;
      if (partial->stage.load(std::memory_order_relaxed) ==
          PartialCopy::kMapped) {
        const ErrnoGuard guard;
        FillMapped(partial, data + done, got, at);
      }
    }
    done += got;
  }
  return done;
}

// Returns whether another thread or process makes a copy that may soon be
// complete.
bool IsExpected(PartialCopy* partial) {
  const OwnFile* map = &partial->read_map;
  OwnFile found;
  if (partial->stage.load(std::memory_order_acquire) == PartialCopy::kFresh) {
    char path[kPartialPathBytes];
    PathOf(*partial,
           partial->is_public ? shim.settings.public_partials
                              : shim.settings.private_partials,
           ".map", path);
    found.fd = sys::Open(path, O_RDONLY | O_NOFOLLOW);
    found.inode = InodeOf(found.fd);
    map = &found;
  } else if (!partial->is_joined && !partial->is_public) {
    return false;
  }
  MapHeader header;
  const bool is_expected =
      map->IsOpen() && ReadHeader(*partial, map->fd, &header);
  if (found.fd >= 0) sys::Close(found.fd);
  return is_expected;
}

// Tracks an open file, if it may be copied or a partial copy is expected;
// returns whether it does.
bool Track(int fd, const Key& key, bool is_expected) {
  // A partial copy that exists has its room already.
  const int64_t largest = is_expected ? INT64_MAX : shim.daemon.MaxFileBytes();
  if (largest <= 0 || key.size() >= PATH_MAX) return false;
  struct statx status;
  if (sys::CachedStatus(fd, &status) != 0 || !S_ISREG(status.stx_mode) ||
      status.stx_size == 0 ||
      status.stx_size > static_cast<uint64_t>(largest)) {
    return false;
  }
  struct timespec now;
  clock_gettime(CLOCK_REALTIME_COARSE, &now);
  if (now.tv_sec - status.stx_mtime.tv_sec < kSettledSeconds) return false;
  Table::Entry* entry = shim.table.Allocate();
  if (entry == nullptr) return false;
  PartialCopy* partial = &entry->payload;
  partial->stage.store(PartialCopy::kFresh, std::memory_order_relaxed);
  partial->identity = IdentityOf(status);
  partial->is_public =
      (shim.daemon.Flags() & kShared) && (status.stx_mode & S_IROTH);
  SetUnits(partial);
  partial->is_expected = is_expected;
  partial->is_joined = false;
  partial->map = partial->part = partial->read_map = partial->read_part =
      OwnFile();
  partial->next_search.store(0, std::memory_order_relaxed);
  partial->cursor.store(0, std::memory_order_relaxed);
  partial->is_full.store(false, std::memory_order_relaxed);
  partial->is_unseen.store(false, std::memory_order_relaxed);
  partial->may_wait.store(true, std::memory_order_relaxed);
  partial->is_shared.store(false, std::memory_order_relaxed);
  partial->position_owner.store(0, std::memory_order_relaxed);
  partial->run_lock.store(false, std::memory_order_relaxed);
  partial->run_begin = partial->run_end = 0;
  partial->key_size = static_cast<uint16_t>(key.size());
  memcpy(partial->key, key.key(), key.size());
  partial->key[key.size()] = '\0';
  shim.table.Insert(fd, entry);
  return true;
}

}  // namespace

void PartialCopy::Reset() {
  const ErrnoGuard guard;
  if (is_public) {
    read_map.Close();
    read_part.Close();
  }
  map.Close();
  part.Close();
}

PositionLock::PositionLock(PartialCopy* partial)
    : partial_(partial), held_(false) {
  // Only the kernel can synchronise a position between processes.
  if (partial_->is_shared.load(std::memory_order_relaxed) ||
      shim.daemon.pid() != sys::Pid()) {
    return;
  }
  const int self = sys::Tid();
  const int64_t begin = sys::Now(CLOCK_MONOTONIC);
  for (;;) {
    int none = 0;
    if (partial_->position_owner.compare_exchange_strong(
            none, self, std::memory_order_acquire)) {
      held_ = true;
      return;
    }
    // This is a signal handler that interrupted the owner, or the owner was
    // cancelled.
    if (none == self ||
        sys::Now(CLOCK_MONOTONIC) - begin > kMaxPositionWaitNs) {
      return;
    }
    sys::Sleep(kPositionPauseNs);
  }
}

PositionLock::~PositionLock() {
  if (held_) partial_->position_owner.store(0, std::memory_order_release);
}

void TrackOpenFile(int fd, const Key& key, LookupResult result) {
  const ErrnoGuard guard;
  if (!Track(fd, key, result == LookupResult::kPartialCopy) &&
      result == LookupResult::kClaimed) {
    shim.daemon.Send(kClosed, key.key(), key.size(), nullptr, nullptr, 0);
  }
}

ssize_t ReadPartialCopyAt(Table::Entry* entry, int fd, void* data, size_t size,
                          int64_t offset) {
  PartialCopy* partial = &entry->payload;
  const int64_t whole = partial->identity.size;
  if (offset < 0 || offset >= whole || size == 0) {
    return sys::ReadAt(fd, data, size, offset);
  }
  PartialCopy::Stage stage;
  {
    const ErrnoGuard guard;
    if (!IsSource(*partial, fd)) {
      shim.table.Remove(fd);
      stage = PartialCopy::kOff;
    } else {
      stage = BeginCopy(partial, fd, offset);
      // From now on, the kernel alone serves the reads.
      if (stage == PartialCopy::kOff) shim.table.Remove(fd);
    }
  }
  if (stage == PartialCopy::kMapped) {
    const int64_t most = whole - offset;
    return ReadMapped(
        partial, fd, static_cast<char*>(data),
        size < static_cast<uint64_t>(most) ? static_cast<int64_t>(size) : most,
        offset);
  }
  const ssize_t got = ReadSource(fd, data, size, offset);
  if (got > 0 && stage == PartialCopy::kSmallFile && offset + got <= whole) {
    const ErrnoGuard guard;
    FillSmall(partial, fd, static_cast<const char*>(data), got, offset);
  }
  return got;
}

ssize_t ReadPartialCopy(Table::Entry* entry, int fd, void* data, size_t size) {
  PartialCopy* partial = &entry->payload;
  int64_t offset = -1;
  const PositionLock lock(partial);
  if (lock.held()) {
    const ErrnoGuard guard;
    offset = sys::Seek(fd, 0, SEEK_CUR);
  }
  if (offset < 0 || offset >= partial->identity.size) {
    return sys::Read(fd, data, size);
  }
  const ssize_t got = ReadPartialCopyAt(entry, fd, data, size, offset);
  if (got > 0) sys::Seek(fd, offset + got, SEEK_SET);
  return got;
}

void BeforeUnseenUse(int fd, UnseenUse use) {
  Table::Entry* entry = shim.table.Acquire(fd);
  if (entry == nullptr) return;
  const ErrnoGuard guard;
  PartialCopy* partial = &entry->payload;
  if (shim.daemon.pid() != sys::Pid()) {
    shim.table.Release(entry);
    return;
  }
  bool is_swapped = false;
  if (!partial->is_shared.load(std::memory_order_relaxed) &&
      IsSource(*partial, fd)) {
    const int64_t begin = sys::Now(CLOCK_MONOTONIC);
    is_swapped = SwapInCopy(partial, fd);
    bool has_waited = false;
    while (!is_swapped && shim.daemon.IsValid() && IsExpected(partial) &&
           sys::Now(CLOCK_MONOTONIC) - begin < kMaxSwapWaitNs) {
      has_waited = true;
      sys::Sleep(kSwapPauseNs);
      is_swapped = SwapInCopy(partial, fd);
    }
    if (has_waited) {
      shim.daemon.Count(&AtomicCounts::waits);
      shim.daemon.Count(
          &AtomicCounts::wait_ns,
          static_cast<uint64_t>(sys::Now(CLOCK_MONOTONIC) - begin));
    }
    const uint32_t stage = partial->stage.load(std::memory_order_relaxed);
    if (!is_swapped && stage != PartialCopy::kOff && !partial->is_full.load() &&
        !partial->is_unseen.exchange(true)) {
      Send(*partial, kUnseen, &fd, stage == PartialCopy::kMapped ? 0 : 1);
    }
  }
  if (use == UnseenUse::kDuplicated) {
    partial->is_shared.store(true, std::memory_order_relaxed);
  }
  if (is_swapped || use == UnseenUse::kGone) shim.table.Remove(fd);
  shim.table.Release(entry);
}

void BeforeClose(int fd) {
  Table::Entry* entry = shim.table.Acquire(fd);
  if (entry == nullptr) return;
  const ErrnoGuard guard;
  // After vfork(), the child has descriptors of its own, but the parent's
  // table.
  if (shim.daemon.pid() == sys::Pid()) {
    PartialCopy* partial = &entry->payload;
    if (partial->stage.load(std::memory_order_relaxed) ==
        PartialCopy::kMapped) {
      CheckFull(partial);
      if (!partial->is_full.load()) Send(*partial, kClosed, nullptr, 0);
    }
    shim.table.Remove(fd);
  }
  shim.table.Release(entry);
}

bool ReleaseDescriptors() {
  const ErrnoGuard guard;
  const bool had_any = shim.own_files.load(std::memory_order_relaxed) > 0 ||
                       shim.table.size() > 0;
  shim.table.ForEach([](int fd, PartialCopy*) { BeforeClose(fd); });
  shim.daemon.Disconnect();
  return had_any;
}

}  // namespace tier
}  // namespace tf_malleable
