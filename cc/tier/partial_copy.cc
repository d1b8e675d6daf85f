// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.

#include "cc/tier/partial_copy.h"

#include <string.h>
#include <sys/mman.h>

#include <new>

#include "cc/tier/copy_descriptor.h"
#include "cc/tier/identity.h"
#include "cc/tier/lookup.h"
#include "cc/tier/part.h"
#include "cc/tier/syscalls.h"

namespace tf_malleable {
namespace tier {

Shim shim;

namespace {

// Age of the last modification from which a file may be copied.
constexpr int64_t kSettledSeconds = 10;
// Maximum wait for a position, and its pauses.
constexpr int64_t kMaxPositionWaitNs = kSecondNs;
constexpr int64_t kPositionPauseNs = 50 * kMicrosecondNs;
// Number of looks at a map that another thread is creating, and pauses between
// them: the first looks are the fast ones.
constexpr int kLooks = 100;
constexpr int kFastLooks = 50;
constexpr int64_t kFastPauseNs = 20 * kMicrosecondNs;
constexpr int64_t kSlowPauseNs = kMillisecondNs;
// Maximum number of units that are marked at a time.
constexpr size_t kMaxMarks = 2048;

// Sets the size and the number of the map's units from the size of the file.
void SetUnits(PartialCopy* partial) {
  const int64_t size = partial->identity.size;
  partial->unit = kMinUnitBytes;
  while ((size + partial->unit - 1) / partial->unit > kMaxUnits) {
    partial->unit *= 2;
  }
  partial->units =
      static_cast<uint32_t>((size + partial->unit - 1) / partial->unit);
}

// Writes to a map, which is in memory, so that only a full memory or a limit
// cuts the bytes off; returns whether all were written.
bool Write(const OwnFile& file, const void* data, int64_t size,
           int64_t offset) {
  // Beyond the limit, the kernel would send SIGXFSZ.
  return file.IsOpen() &&
         sys::Soft(RLIMIT_FSIZE) >= static_cast<uint64_t>(offset + size) &&
         sys::WriteAt(file.fd(), data, static_cast<size_t>(size), offset) ==
             size;
}

// Creates the map of what this process reads; returns whether that worked.
bool CreateMap(PartialCopy* partial) {
  partial->map.Take(
      static_cast<int>(syscall(SYS_memfd_create, "tier", MFD_CLOEXEC)));
  MapHeader header;
  memset(&header, 0, sizeof(header));
  header.magic = kMapMagic;
  header.version = kVersion;
  header.unit = partial->unit;
  header.units = partial->units;
  header.identity = partial->identity;
  return Write(partial->map, &header, sizeof(header), 0);
}

// Adds a range that was read to the run, and returns the run.
void AddToRun(PartialCopy* partial, int64_t begin, int64_t end,
              int64_t* run_begin, int64_t* run_end) {
  *run_begin = begin;
  *run_end = end;
  if (partial->run_lock.exchange(true, std::memory_order_acquire)) return;
  if (begin >= partial->run_begin && begin <= partial->run_end) {
    if (end < partial->run_end) end = partial->run_end;
    partial->run_end = end;
  } else {
    partial->run_begin = begin;
    partial->run_end = end;
  }
  *run_begin = partial->run_begin;
  *run_end = partial->run_end;
  partial->run_lock.store(false, std::memory_order_release);
}

// Marks a range that was read; returns whether that worked.
bool MarkRead(PartialCopy* partial, int64_t begin, int64_t end) {
  int64_t run_begin, run_end;
  AddToRun(partial, begin, end, &run_begin, &run_end);
  const int64_t unit = partial->unit;
  int64_t first = begin / unit;
  if (first * unit < run_begin) first = (run_begin + unit - 1) / unit;
  int64_t last = end / unit;
  if (run_end >= (last + 1) * unit) ++last;
  if (run_end >= partial->identity.size && last + 1 >= partial->units) {
    last = partial->units;
  }
  uint8_t there[kMaxMarks];
  memset(there, kPresent, sizeof(there));
  while (first < last) {
    const int64_t count = last - first < static_cast<int64_t>(kMaxMarks)
                              ? last - first
                              : static_cast<int64_t>(kMaxMarks);
    if (!Write(partial->map, there, count, kMapHeaderBytes + first)) {
      return false;
    }
    first += count;
  }
  return true;
}

// Sends the daemon a message about the copy, with descriptors; returns whether
// it was sent.
bool Send(const PartialCopy& partial, MessageKind kind, const int* fds,
          int fds_size) {
  return shim.daemon.Send(kind, partial.key, partial.key_size,
                          &partial.identity, fds, fds_size);
}

// Returns whether the descriptor still is the file that was opened, unchanged.
bool IsSource(const PartialCopy& partial, int fd) {
  struct statx status;
  return sys::CachedStatus(fd, &status) == 0 &&
         DeviceOf(status) == partial.identity.device &&
         IsSameVersion(partial.identity, status);
}

// Returns whether the shim may open another file, for a file that the program
// has open as `fd`. The program's descriptors come first: the shim uses at most
// an eighth of the limit, and none while the program uses the highest quarter.
bool MayOpenOwnFile(int fd) {
  const uint64_t limit = sys::Soft(RLIMIT_NOFILE);
  const uint64_t max_program_fd = limit / 4 * 3;
  const uint64_t max_own_files = limit / 8;
  return static_cast<uint64_t>(fd) <= max_program_fd &&
         static_cast<uint64_t>(
             shim.own_files.load(std::memory_order_relaxed)) <= max_own_files;
}

// Has the reads served by the complete copy; returns whether there is one.
bool TakeCopy(PartialCopy* partial, int fd) {
  partial->part.Take(OpenCopyOf(*partial, fd));
  if (partial->part.fd() < 0) return false;
  partial->is_unseen.store(true, std::memory_order_relaxed);
  return true;
}

// Decides at the first read how the file is copied, and tells the daemon.
PartialCopy::Stage Begin(PartialCopy* partial, int fd) {
  const bool has_room = partial->identity.size <= shim.daemon.MaxFileBytes();
  if (!has_room && !partial->is_expected) return PartialCopy::kOff;
  if (!MayOpenOwnFile(fd)) return PartialCopy::kOff;
  // The partial copy that was expected may have become complete meanwhile.
  if (partial->is_expected && !HasPart(partial) && TakeCopy(partial, fd)) {
    return PartialCopy::kComplete;
  }
  if (has_room && partial->identity.size <= kSmallFileBytes) {
    return PartialCopy::kSmallFile;
  }
  if (!CreateMap(partial)) return PartialCopy::kOff;
  const int fds[] = {fd, partial->map.fd()};
  return Send(*partial, kReading, fds, 2) ? PartialCopy::kMapped
                                          : PartialCopy::kOff;
}

PartialCopy::Stage BeginOnce(PartialCopy* partial, int fd) {
  uint32_t stage = partial->stage.load(std::memory_order_acquire);
  if (stage == PartialCopy::kFresh &&
      partial->stage.compare_exchange_strong(stage, PartialCopy::kCreating,
                                             std::memory_order_acquire)) {
    stage = Begin(partial, fd);
    partial->stage.store(stage, std::memory_order_release);
  }
  for (int i = 0; stage == PartialCopy::kCreating && i < kLooks; ++i) {
    sys::Sleep(i < kFastLooks ? kFastPauseNs : kSlowPauseNs);
    stage = partial->stage.load(std::memory_order_acquire);
  }
  return static_cast<PartialCopy::Stage>(stage);
}

// Ends the use of the copy.
void Stop(PartialCopy* partial) {
  const uint32_t stage =
      partial->stage.exchange(PartialCopy::kOff, std::memory_order_relaxed);
  const bool is_left = partial->is_claimed && stage != PartialCopy::kOff &&
                       !partial->is_sent.load(std::memory_order_relaxed) &&
                       !partial->is_unseen.load(std::memory_order_relaxed);
  if (stage == PartialCopy::kMapped || is_left) {
    Send(*partial, kClosed, nullptr, 0);
  }
}

// Notes a read of a small file, which is sent once it was read to its end.
void NoteSmall(PartialCopy* partial, int fd, int64_t size, int64_t offset) {
  // A thread that finds the lock held leaves a gap.
  if (partial->run_lock.exchange(true, std::memory_order_acquire)) return;
  const bool has_gap = offset > partial->run_end;
  if (!has_gap && offset + size > partial->run_end) {
    partial->run_end = offset + size;
  }
  const bool is_whole = partial->run_end == partial->identity.size;
  partial->run_lock.store(false, std::memory_order_release);
  if (!has_gap && !is_whole) return;
  if (!partial->is_sent.exchange(true, std::memory_order_relaxed)) {
    Send(*partial, has_gap ? kUnseen : kWhole, &fd, 1);
  }
  partial->stage.store(PartialCopy::kOff, std::memory_order_relaxed);
}

ssize_t ReadSource(int fd, void* data, size_t size, int64_t offset) {
  const ssize_t got = sys::ReadAt(fd, data, size, offset);
  if (got > 0) {
    shim.daemon.Count(&AtomicCounts::source_bytes, static_cast<uint64_t>(got));
  }
  return got;
}

// Reads from the daemon's part, and what is missing there from the source.
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
      const ErrnoGuard guard;
      Stop(partial);
    }
    ssize_t got = 0;
    if (range.is_present && partial->part.IsOpen()) {
      got = sys::ReadAt(partial->part.fd(), data + done,
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
      const ErrnoGuard guard;
      if (partial->stage.load(std::memory_order_relaxed) ==
              PartialCopy::kMapped &&
          !MarkRead(partial, at, at + got)) {
        Stop(partial);
      }
    }
    done += got;
  }
  return done;
}

// Notes what was read by a position that other processes or descriptors share.
// If one of them has moved it meanwhile, the wrong range is noted: the daemon
// then reads bytes that no program has read.
void NoteShared(PartialCopy* partial, int fd, int64_t size) {
  const int64_t offset = sys::Seek(fd, 0, SEEK_CUR) - size;
  if (offset < 0 || offset + size > partial->identity.size ||
      !IsSource(*partial, fd)) {
    return;
  }
  shim.daemon.Count(&AtomicCounts::source_bytes, static_cast<uint64_t>(size));
  const PartialCopy::Stage stage = BeginOnce(partial, fd);
  if (stage == PartialCopy::kSmallFile) {
    NoteSmall(partial, fd, size, offset);
  } else if (stage == PartialCopy::kMapped &&
             !MarkRead(partial, offset, offset + size)) {
    Stop(partial);
  }
}

// Returns a new entry, without a copy; null if no entry is free.
Table::Entry* NewEntry(const struct statx& status, const char* key,
                       size_t key_size) {
  Table::Entry* entry = shim.table.Allocate();
  if (entry == nullptr) return nullptr;
  PartialCopy* partial = new (&entry->payload) PartialCopy();  // Zeros.
  partial->identity = IdentityOf(status);
  SetUnits(partial);
  partial->may_wait.store(true, std::memory_order_relaxed);
  partial->key_size = static_cast<uint16_t>(key_size);
  memcpy(partial->key, key, key_size);
  return entry;
}

// Tracks an open file, if it may be copied or a partial copy is expected;
// returns whether it does.
bool Track(int fd, const Key& key, LookupResult result) {
  const bool is_expected = result == LookupResult::kPartialCopy;
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
  Table::Entry* entry = NewEntry(status, key.key(), key.size());
  if (entry == nullptr) return false;
  entry->payload.is_expected = is_expected;
  entry->payload.is_claimed = result == LookupResult::kClaimed;
  shim.table.Insert(fd, entry);
  return true;
}

}  // namespace

void PartialCopyFile::Take(int opened) {
  OwnFile::Take(opened);
  if (fd() >= 0) shim.own_files.fetch_add(1, std::memory_order_relaxed);
}

void PartialCopyFile::Close() {
  if (OwnFile::Close()) shim.own_files.fetch_sub(1, std::memory_order_relaxed);
}

void PartialCopy::Reset() {
  const ErrnoGuard guard;
  map.Close();
  part.Close();
  part_map.Close();
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
  if (!Track(fd, key, result) && result == LookupResult::kClaimed) {
    shim.daemon.Send(kClosed, key.key(), key.size(), nullptr, nullptr, 0);
  }
}

bool TrackComplete(int fd, const struct statx& status, const char* key,
                   int copy) {
  const size_t size = strlen(key);
  if (size >= PATH_MAX || !MayOpenOwnFile(fd)) return false;
  Table::Entry* entry = NewEntry(status, key, size);
  if (entry == nullptr) return false;
  PartialCopy* partial = &entry->payload;
  partial->part.Take(copy);
  partial->is_unseen.store(true, std::memory_order_relaxed);
  partial->is_kept.store(true, std::memory_order_relaxed);
  partial->stage.store(PartialCopy::kComplete, std::memory_order_relaxed);
  shim.table.Insert(fd, entry);
  return true;
}

void KeepSource(int fd) {
  if (Table::Entry* entry = shim.table.Acquire(fd)) {
    entry->payload.is_kept.store(true, std::memory_order_relaxed);
    shim.table.Release(entry);
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
    if (IsSource(*partial, fd)) {
      stage = BeginOnce(partial, fd);
    } else {
      Stop(partial);
      stage = PartialCopy::kOff;
    }
    // From now on, the kernel alone serves the reads.
    if (stage == PartialCopy::kOff) shim.table.Remove(fd);
  }
  if (stage == PartialCopy::kMapped) {
    const int64_t most = whole - offset;
    return ReadMapped(
        partial, fd, static_cast<char*>(data),
        size < static_cast<uint64_t>(most) ? static_cast<int64_t>(size) : most,
        offset);
  }
  if (stage == PartialCopy::kComplete && partial->part.IsOpen()) {
    const ssize_t got = sys::ReadAt(partial->part.fd(), data, size, offset);
    if (got > 0) return got;
  }
  const ssize_t got = ReadSource(fd, data, size, offset);
  if (got > 0 && stage == PartialCopy::kSmallFile && offset + got <= whole) {
    const ErrnoGuard guard;
    NoteSmall(partial, fd, got, offset);
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
    const ssize_t got = sys::Read(fd, data, size);
    if (got > 0 && partial->is_shared.load(std::memory_order_relaxed) &&
        shim.daemon.pid() == sys::Pid()) {
      const ErrnoGuard guard;
      NoteShared(partial, fd, got);
    }
    return got;
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
  if (IsSource(*partial, fd)) {
    // A copy's descriptor does not share its position with others. With the
    // last descriptor of an open file, its locks end; with any descriptor of
    // the file, its record locks.
    is_swapped = !partial->is_shared.load(std::memory_order_relaxed) &&
                 !partial->is_kept.load(std::memory_order_relaxed) &&
                 !HasRecordLock(fd) && AwaitSwap(partial, fd);
    const uint32_t stage = partial->stage.load(std::memory_order_relaxed);
    if (!is_swapped && stage != PartialCopy::kOff &&
        !partial->is_unseen.exchange(true)) {
      Send(*partial, kUnseen, &fd, stage == PartialCopy::kMapped ? 0 : 1);
    }
  }
  if (use == UnseenUse::kDuplicated) {
    partial->is_shared.store(true, std::memory_order_relaxed);
  }
  if (is_swapped || use == UnseenUse::kGone) {
    Stop(partial);
    shim.table.Remove(fd);
  }
  shim.table.Release(entry);
}

void BeforeClose(int fd) {
  Table::Entry* entry = shim.table.Acquire(fd);
  if (entry == nullptr) return;
  const ErrnoGuard guard;
  // After vfork(), the child has descriptors of its own, but the parent's
  // table.
  if (shim.daemon.pid() == sys::Pid()) {
    Stop(&entry->payload);
    shim.table.Remove(fd);
  }
  shim.table.Release(entry);
}

bool ReleaseDescriptors() {
  if (errno != EMFILE && errno != ENFILE) return false;
  const ErrnoGuard guard;
  bool had_any = shim.own_files.load(std::memory_order_relaxed) > 0 ||
                 shim.table.size() > 0;
  had_any = CloseCopiesFolders() || had_any;
  shim.table.ForEach([](int fd, PartialCopy*) { BeforeClose(fd); });
  shim.daemon.Disconnect();
  return had_any;
}

}  // namespace tier
}  // namespace tf_malleable
