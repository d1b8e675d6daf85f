// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.

#include "cc/tier/growing.h"

#include <sys/xattr.h>

#include "cc/tier/complete.h"
#include "cc/tier/filling.h"
#include "cc/tier/growing_files.h"
#include "cc/tier/identity.h"
#include "cc/tier/pieces.h"
#include "cc/tier/starting.h"
#include "cc/tier/system.h"

namespace tf_malleable {
namespace tier {

Shim shim;

namespace {

constexpr int64_t kSettledSeconds = 10;
constexpr int64_t kSwapNs = 1000 * kMillisecond;
constexpr int64_t kPositionNs = 1000 * kMillisecond;

ssize_t ReadSource(int fd, void* data, size_t size, int64_t offset) {
  const ssize_t got = sys::ReadAt(fd, data, size, offset);
  if (got > 0) {
    shim.daemon.Count(&AtomicCounts::source_bytes, static_cast<uint64_t>(got));
  }
  return got;
}

ssize_t ReadMapped(Growing* growing, int fd, char* data, int64_t size,
                   int64_t offset) {
  int64_t done = 0;
  while (done < size) {
    const int64_t at = offset + done;
    Piece piece = FindPiece(growing, at, size - done);
    if (!piece.is_there && piece.is_fetching &&
        growing->is_patient.load(std::memory_order_relaxed)) {
      piece = Await(growing, at, size - done);
    }
    if (piece.is_dropped) {
      growing->stage.store(Growing::kOff, std::memory_order_relaxed);
    }
    ssize_t got = 0;
    if (piece.is_there && growing->from_part.IsOpen()) {
      got = sys::ReadAt(growing->from_part.fd, data + done,
                        static_cast<size_t>(piece.size), at);
      if (got > 0) {
        shim.daemon.Count(&AtomicCounts::growing_bytes,
                          static_cast<uint64_t>(got));
      }
    }
    if (got <= 0) {
      got = ReadSource(fd, data + done, static_cast<size_t>(piece.size), at);
      if (got < 0) return done > 0 ? done : -1;
      if (got == 0) break;
      if (growing->stage.load(std::memory_order_relaxed) == Growing::kMapped) {
        const ErrnoGuard guard;
        FillMapped(growing, data + done, got, at);
      }
    }
    done += got;
  }
  return done;
}

// Whether somebody else is making a copy that may be complete soon.
bool IsComing(Growing* growing) {
  const OwnFile* map = &growing->from_map;
  OwnFile found;
  if (growing->stage.load(std::memory_order_acquire) == Growing::kFresh) {
    char path[kGrowingPath];
    PathOf(*growing,
           growing->is_public ? shim.settings.public_partials
                              : shim.settings.private_partials,
           ".map", path);
    found.fd = sys::Open(path, O_RDONLY | O_NOFOLLOW);
    found.inode = InodeOf(found.fd);
    map = &found;
  } else if (!growing->is_joined && !growing->is_public) {
    return false;
  }
  MapHeader header;
  const bool is_coming =
      map->IsOpen() && ReadHeader(*growing, map->fd, &header);
  if (found.fd >= 0) sys::Close(found.fd);
  return is_coming;
}

// Whether a copy of an open file grows, or will.
bool BeginIfAny(int fd, const Key& key, bool is_coming) {
  // There is room for what grows.
  const int64_t largest = is_coming ? INT64_MAX : shim.daemon.Largest();
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
  Table::Entry* entry = shim.table.Take();
  if (entry == nullptr) return false;
  Growing* growing = &entry->payload;
  growing->stage.store(Growing::kFresh, std::memory_order_relaxed);
  growing->identity = IdentityOf(status);
  growing->is_public =
      (shim.daemon.Flags() & kShared) && (status.stx_mode & S_IROTH);
  SetUnits(growing);
  growing->is_coming = is_coming;
  growing->is_joined = false;
  growing->map = growing->part = growing->from_map = growing->from_part =
      OwnFile();
  growing->next_look.store(0, std::memory_order_relaxed);
  growing->cursor.store(0, std::memory_order_relaxed);
  growing->is_full.store(false, std::memory_order_relaxed);
  growing->is_unseen.store(false, std::memory_order_relaxed);
  growing->is_patient.store(true, std::memory_order_relaxed);
  growing->is_shared.store(false, std::memory_order_relaxed);
  growing->position_owner.store(0, std::memory_order_relaxed);
  growing->run_lock.store(false, std::memory_order_relaxed);
  growing->run_begin = growing->run_end = 0;
  growing->key_size = static_cast<uint16_t>(key.size());
  memcpy(growing->key, key.key(), key.size());
  growing->key[key.size()] = '\0';
  shim.table.Insert(fd, entry);
  return true;
}

}  // namespace

void Growing::Reset() {
  const ErrnoGuard guard;
  if (is_public) {
    from_map.Close();
    from_part.Close();
  }
  map.Close();
  part.Close();
}

PositionLock::PositionLock(Growing* growing) : growing_(growing), held_(false) {
  // With other processes, only the kernel can share a position.
  if (growing_->is_shared.load(std::memory_order_relaxed) ||
      shim.daemon.pid() != sys::Pid()) {
    return;
  }
  const int self = sys::Tid();
  const int64_t begin = sys::Now(CLOCK_MONOTONIC);
  for (;;) {
    int none = 0;
    if (growing_->position_owner.compare_exchange_strong(
            none, self, std::memory_order_acquire)) {
      held_ = true;
      return;
    }
    // A signal handler that interrupted it, or a thread that was cancelled.
    if (none == self || sys::Now(CLOCK_MONOTONIC) - begin > kPositionNs) {
      return;
    }
    sys::Sleep(kMillisecond / 20);
  }
}

PositionLock::~PositionLock() {
  if (held_) growing_->position_owner.store(0, std::memory_order_release);
}

void Begin(int fd, const Key& key, Coming coming) {
  const ErrnoGuard guard;
  if (!BeginIfAny(fd, key, coming == Coming::kGrows) &&
      coming == Coming::kNowhere) {
    shim.daemon.Send(kClosed, key.key(), key.size(), nullptr, nullptr, 0);
  }
}

ssize_t ReadGrowingAt(Table::Entry* entry, int fd, void* data, size_t size,
                      int64_t offset) {
  Growing* growing = &entry->payload;
  const int64_t whole = growing->identity.size;
  if (offset < 0 || offset >= whole || size == 0) {
    return sys::ReadAt(fd, data, size, offset);
  }
  Growing::Stage stage;
  {
    const ErrnoGuard guard;
    if (!IsSource(*growing, fd)) {
      shim.table.Remove(fd);
      stage = Growing::kOff;
    } else {
      stage = Start(growing, fd, offset);
      // Reads are the kernel's alone from now on.
      if (stage == Growing::kOff) shim.table.Remove(fd);
    }
  }
  if (stage == Growing::kMapped) {
    const int64_t most = whole - offset;
    return ReadMapped(
        growing, fd, static_cast<char*>(data),
        size < static_cast<uint64_t>(most) ? static_cast<int64_t>(size) : most,
        offset);
  }
  const ssize_t got = ReadSource(fd, data, size, offset);
  if (got > 0 && stage == Growing::kSmallFile && offset + got <= whole) {
    const ErrnoGuard guard;
    FillSmall(growing, fd, static_cast<const char*>(data), got, offset);
  }
  return got;
}

ssize_t ReadGrowing(Table::Entry* entry, int fd, void* data, size_t size) {
  Growing* growing = &entry->payload;
  int64_t offset = -1;
  const PositionLock lock(growing);
  if (lock.held()) {
    const ErrnoGuard guard;
    offset = sys::Seek(fd, 0, SEEK_CUR);
  }
  if (offset < 0 || offset >= growing->identity.size) {
    return sys::Read(fd, data, size);
  }
  const ssize_t got = ReadGrowingAt(entry, fd, data, size, offset);
  if (got > 0) sys::Seek(fd, offset + got, SEEK_SET);
  return got;
}

void BeforeUnseen(int fd, Use use) {
  Table::Entry* entry = shim.table.Acquire(fd);
  if (entry == nullptr) return;
  const ErrnoGuard guard;
  Growing* growing = &entry->payload;
  if (shim.daemon.pid() != sys::Pid()) {
    shim.table.Release(entry);
    return;
  }
  bool is_swapped = false;
  if (!growing->is_shared.load(std::memory_order_relaxed) &&
      IsSource(*growing, fd)) {
    const int64_t begin = sys::Now(CLOCK_MONOTONIC);
    is_swapped = SwapIn(growing, fd);
    bool has_waited = false;
    while (!is_swapped && shim.daemon.IsValid() && IsComing(growing) &&
           sys::Now(CLOCK_MONOTONIC) - begin < kSwapNs) {
      has_waited = true;
      sys::Sleep(2 * kMillisecond);
      is_swapped = SwapIn(growing, fd);
    }
    if (has_waited) {
      shim.daemon.Count(&AtomicCounts::waits);
      shim.daemon.Count(
          &AtomicCounts::wait_ns,
          static_cast<uint64_t>(sys::Now(CLOCK_MONOTONIC) - begin));
    }
    const uint32_t stage = growing->stage.load(std::memory_order_relaxed);
    if (!is_swapped && stage != Growing::kOff && !growing->is_full.load() &&
        !growing->is_unseen.exchange(true)) {
      Send(*growing, kUnseen, &fd, stage == Growing::kMapped ? 0 : 1);
    }
  }
  if (use == Use::kDuplicated) {
    growing->is_shared.store(true, std::memory_order_relaxed);
  }
  if (is_swapped || use == Use::kGone) shim.table.Remove(fd);
  shim.table.Release(entry);
}

void BeforeClose(int fd) {
  Table::Entry* entry = shim.table.Acquire(fd);
  if (entry == nullptr) return;
  const ErrnoGuard guard;
  // A process after vfork() has descriptors of its own, but not this table.
  if (shim.daemon.pid() == sys::Pid()) {
    Growing* growing = &entry->payload;
    if (growing->stage.load(std::memory_order_relaxed) == Growing::kMapped) {
      CheckFull(growing);
      if (!growing->is_full.load()) Send(*growing, kClosed, nullptr, 0);
    }
    shim.table.Remove(fd);
  }
  shim.table.Release(entry);
}

bool GiveUpAll() {
  const ErrnoGuard guard;
  const bool had_any = shim.own_files.load(std::memory_order_relaxed) > 0 ||
                       shim.table.size() > 0;
  shim.table.ForEach([](int fd, Growing*) { BeforeClose(fd); });
  shim.daemon.Disconnect();
  return had_any;
}

}  // namespace tier
}  // namespace tf_malleable
