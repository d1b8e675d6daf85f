// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.

#include "cc/tier/growing.h"

#include <linux/falloc.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/xattr.h>

#include "cc/tier/identity.h"
#include "cc/tier/system.h"

namespace tf_malleable {
namespace tier {

Shim shim;

namespace {

constexpr int64_t kMillisecond = 1000000;
constexpr int64_t kSettledSeconds = 10;
constexpr int64_t kSwapNs = 1000 * kMillisecond;
constexpr int64_t kPositionNs = 1000 * kMillisecond;
constexpr size_t kMapPiece = 2048;

void PathOf(const Growing& growing, const Folder& folder, const char* suffix,
            char path[kGrowingPath]) {
  GrowingPath(folder, growing.key, growing.key_size, suffix, path);
}

bool IsGrowingHere(const Key& key) {
  char path[kGrowingPath];
  struct statx status;
  GrowingPath(shim.settings.growing, key.key(), key.size(), ".map", path);
  return sys::Status(path, &status) == 0;
}

bool Send(const Growing& growing, MessageKind kind, const int* fds,
          int fds_size) {
  return shim.daemon.Send(kind, growing.key, growing.key_size,
                          &growing.identity, fds, fds_size);
}

bool MayWrite(int64_t end) {
  // Beyond the limit, the kernel would send SIGXFSZ.
  return sys::Soft(RLIMIT_FSIZE) >= static_cast<uint64_t>(end);
}

bool WriteAll(const OwnFile& file, const char* data, int64_t size,
              int64_t offset) {
  if (!file.IsOpen() || !MayWrite(offset + size)) return false;
  while (size > 0) {
    const ssize_t done =
        sys::WriteAt(file.fd, data, static_cast<size_t>(size), offset);
    if (done <= 0) {
      if (done < 0 && errno == EINTR) continue;
      return false;
    }
    data += done;
    size -= done;
    offset += done;
  }
  return true;
}

void SetState(const Growing& growing, MapState state) {
  const uint32_t value = state;
  WriteAll(growing.map, reinterpret_cast<const char*>(&value), sizeof(value),
           offsetof(MapHeader, state));
}

// The header of a map, if it is of this file.
bool ReadHeader(const Growing& growing, int map, MapHeader* header) {
  return sys::ReadAt(map, header, sizeof(*header), 0) == sizeof(*header) &&
         header->magic == kMapMagic && header->version == kVersion &&
         header->state != kIsDropped && header->unit == growing.unit &&
         header->units == growing.units &&
         header->identity.inode == growing.identity.inode &&
         header->identity.size == growing.identity.size &&
         header->identity.mtime_s == growing.identity.mtime_s &&
         header->identity.mtime_ns == growing.identity.mtime_ns;
}

bool WriteHeader(const Growing& growing) {
  MapHeader header;
  memset(&header, 0, sizeof(header));
  header.version = kVersion;
  header.unit = growing.unit;
  header.units = growing.units;
  header.fills = growing.is_public ? 0 : 1;
  header.identity = growing.identity;
  const uint32_t magic = kMapMagic;
  return WriteAll(growing.map, reinterpret_cast<const char*>(&header),
                  sizeof(header), 0) &&
         WriteAll(growing.map, reinterpret_cast<const char*>(&magic),
                  sizeof(magic), 0);
}

// Joins a copy that somebody else has begun.
bool Join(Growing* growing, const char* map_path, const char* part_path) {
  const int map = sys::Open(map_path, O_RDWR | O_NOFOLLOW);
  if (map < 0) return false;
  MapHeader header;
  int part = -1;
  if (ReadHeader(*growing, map, &header) && header.fills == 1) {
    part = sys::Open(part_path, O_RDWR | O_NOFOLLOW);
  }
  if (part < 0) {
    sys::Close(map);
    return false;
  }
  growing->map.Take(map);
  growing->part.Take(part);
  growing->is_joined = true;
  return true;
}

// Makes a copy that this reader fills.
bool Create(Growing* growing, int fd) {
  char map_path[kGrowingPath];
  char part_path[kGrowingPath];
  PathOf(*growing, shim.settings.growing, ".map", map_path);
  PathOf(*growing, shim.settings.growing, ".part", part_path);
  const int flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW;
  const int part = sys::Open(part_path, flags, 0600);
  if (part < 0) {
    return errno == EEXIST && Join(growing, map_path, part_path);
  }
  growing->part.Take(part);
  const bool has_space = syscall(SYS_fallocate, growing->part.fd, 0, int64_t{0},
                                 growing->identity.size) == 0 ||
                         errno == EOPNOTSUPP;
  if (has_space) {
    const int map = sys::Open(map_path, flags, 0600);
    if (map >= 0) {
      growing->map.Take(map);
      const int fds[] = {fd, growing->map.fd, growing->part.fd};
      if (WriteHeader(*growing) && Send(*growing, kGrowing, fds, 3)) {
        return true;
      }
      SetState(*growing, kIsDropped);
      sys::Unlink(map_path);
    }
  }
  sys::Unlink(part_path);
  return false;
}

// Makes a map only, for the daemon.
bool Mark(Growing* growing, int fd) {
  growing->map.Take(
      static_cast<int>(syscall(SYS_memfd_create, "tier", MFD_CLOEXEC)));
  if (growing->map.fd < 0 || !WriteHeader(*growing)) return false;
  const int fds[] = {fd, growing->map.fd};
  return Send(*growing, kGrowing, fds, 2);
}

void SetUnits(Growing* growing) {
  const int64_t size = growing->identity.size;
  growing->unit = kLeastUnit;
  while ((size + growing->unit - 1) / growing->unit > kMostUnits) {
    growing->unit *= 2;
  }
  growing->units =
      static_cast<uint32_t>((size + growing->unit - 1) / growing->unit);
}

Growing::Stage Make(Growing* growing, int fd, int64_t offset) {
  const int64_t size = growing->identity.size;
  if (size > shim.daemon.Largest()) return Growing::kOff;
  if (!growing->is_public && !MayWrite(size)) return Growing::kOff;
  // The program's descriptors come first.
  const uint64_t limit = sys::Soft(RLIMIT_NOFILE);
  if (static_cast<uint64_t>(fd) > limit / 4 * 3 ||
      static_cast<uint64_t>(shim.own_files.load(std::memory_order_relaxed)) >
          limit / 8) {
    return Growing::kOff;
  }
  if (size <= kSmall && offset == 0) {
    if (growing->is_public) return Growing::kSmallFile;
    const int part =
        sys::Open(shim.settings.growing.path, O_TMPFILE | O_RDWR, 0600);
    if (part >= 0) {
      growing->part.Take(part);
      return Growing::kSmallFile;
    }
    if (errno != EOPNOTSUPP && errno != EISDIR) return Growing::kOff;
  }
  if (growing->is_public ? !Mark(growing, fd) : !Create(growing, fd)) {
    return Growing::kOff;
  }
  if (!growing->is_public) {
    growing->from_map = growing->map;
    growing->from_part = growing->part;
  }
  return Growing::kMapped;
}

// Begins the copy at the first read. Another thread's read waits for that.
Growing::Stage Start(Growing* growing, int fd, int64_t offset) {
  uint32_t stage = growing->stage.load(std::memory_order_acquire);
  if (stage == Growing::kFresh &&
      growing->stage.compare_exchange_strong(stage, Growing::kStarting,
                                             std::memory_order_acquire)) {
    stage = Make(growing, fd, offset);
    growing->stage.store(stage, std::memory_order_release);
  }
  for (int i = 0; stage == Growing::kStarting && i < 100; ++i) {
    sys::Sleep(i < 50 ? kMillisecond / 50 : kMillisecond);
    stage = growing->stage.load(std::memory_order_acquire);
  }
  return static_cast<Growing::Stage>(stage);
}

// Whether the descriptor still is the file that was opened, unchanged.
bool IsSource(const Growing& growing, int fd) {
  struct statx status;
  return sys::CachedStatus(fd, &status) == 0 &&
         DeviceOf(status) == growing.identity.device &&
         IsSameVersion(growing.identity, status);
}

// The daemon makes copies of what everybody may read: finds one that grows.
void LookForPublic(Growing* growing) {
  const int64_t now = sys::Now(CLOCK_MONOTONIC_COARSE);
  int64_t next = growing->next_look.load(std::memory_order_relaxed);
  if (now < next || next < 0 ||
      !growing->next_look.compare_exchange_strong(next, INT64_MAX)) {
    return;
  }
  char path[kGrowingPath];
  PathOf(*growing, shim.settings.growing_publics, ".map", path);
  const int map = sys::Open(path, O_RDONLY | O_NOFOLLOW);
  MapHeader header;
  if (map >= 0 && ReadHeader(*growing, map, &header)) {
    PathOf(*growing, shim.settings.growing_publics, ".part", path);
    const int part = sys::Open(path, O_RDONLY | O_NOFOLLOW);
    if (part >= 0) {
      growing->from_part.Take(part);
      growing->from_map.Take(map);
      growing->next_look.store(-1, std::memory_order_release);
      return;
    }
  }
  if (map >= 0) sys::Close(map);
  growing->next_look.store(now + 20 * kMillisecond, std::memory_order_release);
}

bool HasFrom(Growing* growing) {
  if (!growing->is_public) return true;
  if (growing->next_look.load(std::memory_order_acquire) >= 0) {
    LookForPublic(growing);
  }
  return growing->next_look.load(std::memory_order_acquire) < 0;
}

struct Piece {
  int64_t size;      // Bytes.
  bool is_there;     // In the copy.
  bool is_fetching;  // Comes.
  bool is_dropped;
};

// The first piece of a span, all of which is in the copy or is not.
Piece FindPiece(Growing* growing, int64_t offset, int64_t size) {
  Piece piece = {size, false, false, false};
  if (!HasFrom(growing)) return piece;
  uint32_t header[8];
  static_assert(offsetof(MapHeader, identity) == sizeof(header),
                "what changes comes first");
  const OwnFile& map = growing->from_map;
  if (!map.IsOpen() ||
      sys::ReadAt(map.fd, header, sizeof(header), 0) != sizeof(header) ||
      header[4] == kIsDropped) {
    piece.is_dropped = true;
    return piece;
  }
  piece.is_fetching = header[5] == 1;
  const int64_t unit = growing->unit;
  const int64_t first = offset / unit;
  int64_t count = (offset + size - 1) / unit - first + 1;
  if (count > static_cast<int64_t>(kMapPiece)) count = kMapPiece;
  uint8_t there[kMapPiece];
  ssize_t got =
      sys::ReadAt(map.fd, there, static_cast<size_t>(count), kMapBytes + first);
  if (got < 0) got = 0;
  memset(there + got, 0, static_cast<size_t>(count - got));
  int64_t same = 1;
  while (same < count && (there[same] == kThere) == (there[0] == kThere)) {
    ++same;
  }
  piece.is_there = there[0] == kThere;
  const int64_t end = (first + same) * unit;
  piece.size = end - offset < size ? end - offset : size;
  return piece;
}

// Waits for the daemon to fetch a piece.
Piece Await(Growing* growing, int64_t offset, int64_t size) {
  const int64_t begin = sys::Now(CLOCK_MONOTONIC);
  int64_t pause = kMillisecond / 10;
  Piece piece;
  do {
    sys::Sleep(pause);
    if (pause < 2 * kMillisecond) pause *= 2;
    piece = FindPiece(growing, offset, size);
    if (sys::Now(CLOCK_MONOTONIC) - begin > kStallNs) {
      // Once is enough: the rest comes from the source.
      growing->is_patient.store(false, std::memory_order_relaxed);
      break;
    }
  } while (!piece.is_there && piece.is_fetching && shim.daemon.IsValid());
  Add(&shim.daemon.counts.waits);
  Add(&shim.daemon.counts.wait_ns,
      static_cast<uint64_t>(sys::Now(CLOCK_MONOTONIC) - begin));
  return piece;
}

// Adds what was read to the run; returns the run.
void AddToRun(Growing* growing, int64_t begin, int64_t end, int64_t* run_begin,
              int64_t* run_end) {
  *run_begin = begin;
  *run_end = end;
  if (growing->run_lock.exchange(true, std::memory_order_acquire)) return;
  if (begin >= growing->run_begin && begin <= growing->run_end) {
    if (end < growing->run_end) end = growing->run_end;
    growing->run_end = end;
  } else {
    growing->run_begin = begin;
    growing->run_end = end;
  }
  *run_begin = growing->run_begin;
  *run_end = growing->run_end;
  growing->run_lock.store(false, std::memory_order_release);
}

// Moves the cursor to the first unit that is not there, and says so if there is
// none.
void CheckFull(Growing* growing) {
  uint32_t cursor = growing->cursor.load(std::memory_order_relaxed);
  uint8_t there[kMapPiece];
  while (cursor < growing->units) {
    const uint32_t rest = growing->units - cursor;
    const ssize_t got =
        sys::ReadAt(growing->map.fd, there, rest < kMapPiece ? rest : kMapPiece,
                    kMapBytes + cursor);
    ssize_t same = 0;
    while (same < got && there[same] == kThere) ++same;
    if (same <= 0) break;
    cursor += static_cast<uint32_t>(same);
    growing->cursor.store(cursor, std::memory_order_relaxed);
    // A thread that marks this unit now sees the cursor, or is seen.
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
  if (cursor == growing->units &&
      !growing->is_full.exchange(true, std::memory_order_relaxed)) {
    if (!growing->is_public) SetState(*growing, kIsFull);
    Send(*growing, kFull, nullptr, 0);
  }
}

// Notes in the map what was written to the part, or only read.
bool MarkUnits(Growing* growing, int64_t begin, int64_t end) {
  int64_t run_begin, run_end;
  AddToRun(growing, begin, end, &run_begin, &run_end);
  const int64_t unit = growing->unit;
  int64_t first = begin / unit;
  if (first * unit < run_begin) first = (run_begin + unit - 1) / unit;
  int64_t last = end / unit;
  if (run_end >= (last + 1) * unit) ++last;
  if (run_end >= growing->identity.size && last + 1 >= growing->units) {
    last = growing->units;
  }
  uint8_t there[kMapPiece];
  memset(there, kThere, sizeof(there));
  while (first < last) {
    const int64_t count = last - first < static_cast<int64_t>(kMapPiece)
                              ? last - first
                              : static_cast<int64_t>(kMapPiece);
    if (!WriteAll(growing->map, reinterpret_cast<const char*>(there), count,
                  kMapBytes + first)) {
      return false;
    }
    std::atomic_thread_fence(std::memory_order_seq_cst);
    const uint32_t cursor = growing->cursor.load(std::memory_order_relaxed);
    if (first <= cursor && cursor < first + count) CheckFull(growing);
    first += count;
  }
  return true;
}

void FillMapped(Growing* growing, const char* data, int64_t size,
                int64_t offset) {
  if ((growing->is_public || WriteAll(growing->part, data, size, offset)) &&
      MarkUnits(growing, offset, offset + size)) {
    return;
  }
  // The disk is full, or is no more. Only in this process: others see for
  // themselves, and the daemon reads what is missing, or drops it.
  growing->stage.store(Growing::kOff, std::memory_order_relaxed);
}

void FillSmall(Growing* growing, int fd, const char* data, int64_t size,
               int64_t offset) {
  const int64_t end = offset + size;
  if (growing->run_lock.exchange(true, std::memory_order_acquire)) return;
  const int64_t before = growing->run_end;
  const bool goes_on = offset <= before;
  if (goes_on && end > before) growing->run_end = end;
  growing->run_lock.store(false, std::memory_order_release);
  if (goes_on && end <= before) return;
  if (!goes_on) {
    // With gaps, a copy needs a map. Let the daemon read it.
    growing->stage.store(Growing::kOff, std::memory_order_relaxed);
    Send(*growing, kUnseen, &fd, 1);
    return;
  }
  if (!growing->is_public && !WriteAll(growing->part, data, size, offset)) {
    growing->stage.store(Growing::kOff, std::memory_order_relaxed);
    return;
  }
  if (end == growing->identity.size &&
      !growing->is_full.exchange(true, std::memory_order_relaxed)) {
    const int fds[] = {fd, growing->part.fd};
    Send(*growing, kWhole, fds, growing->is_public ? 1 : 2);
    growing->stage.store(Growing::kOff, std::memory_order_relaxed);
  }
}

ssize_t ReadSource(int fd, void* data, size_t size, int64_t offset) {
  const ssize_t got = sys::ReadAt(fd, data, size, offset);
  if (got > 0) {
    Add(&shim.daemon.counts.source_bytes, static_cast<uint64_t>(got));
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
        Add(&shim.daemon.counts.growing_bytes, static_cast<uint64_t>(got));
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

// Puts a complete copy in the place of a program's descriptor.
bool SwapIn(Growing* growing, int fd) {
  Key key;
  key.Set(growing->key, growing->key_size);
  const int copy = OpenCopy(&key, nullptr, O_CLOEXEC);
  if (copy < 0) return false;
  Identity identity;
  struct statx status;
  const long size = syscall(SYS_fgetxattr, copy, kSourceAttribute, &identity,
                            sizeof(identity));
  const int flags = sys::Fcntl(fd, F_GETFD);
  const int64_t position = sys::Seek(fd, 0, SEEK_CUR);
  const bool is_same =
      IsIdentity(identity, size) && sys::CachedStatus(fd, &status) == 0 &&
      IsSameVersion(identity, status) && flags >= 0 && position >= 0 &&
      sys::Seek(copy, position, SEEK_SET) == position;
  const bool is_done =
      is_same &&
      syscall(SYS_dup3, copy, fd, flags & FD_CLOEXEC ? O_CLOEXEC : 0) == fd;
  sys::Close(copy);
  return is_done;
}

// Whether somebody else is making a copy that may be complete soon.
bool IsComing(Growing* growing) {
  const OwnFile* map = &growing->from_map;
  OwnFile found;
  if (growing->stage.load(std::memory_order_acquire) == Growing::kFresh) {
    char path[kGrowingPath];
    PathOf(*growing,
           growing->is_public ? shim.settings.growing_publics
                              : shim.settings.growing,
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

// Whether an open file of the store is a copy that may be used; its own status.
bool IsGoodCopy(int fd, bool is_valid, const char* source,
                struct stat* status) {
  // Without a right, it was dropped by its owner where only the daemon removes.
  if (syscall(SYS_fstat, fd, status) != 0 || !S_ISREG(status->st_mode) ||
      (status->st_mode & 0777) == 0) {
    return false;
  }
  if (is_valid || source == nullptr) return true;
  Identity identity;
  struct statx now;
  return IsIdentity(identity, syscall(SYS_fgetxattr, fd, kSourceAttribute,
                                      &identity, sizeof(identity))) &&
         sys::Status(source, &now) == 0 && IsSame(identity, now);
}

}  // namespace

void OwnFile::Take(int opened) {
  fd = MoveUp(opened);
  inode = InodeOf(fd);
  if (fd >= 0) shim.own_files.fetch_add(1, std::memory_order_relaxed);
}

void OwnFile::Close() {
  if (fd < 0) return;
  CloseOwn(fd, inode);
  fd = -1;
  shim.own_files.fetch_sub(1, std::memory_order_relaxed);
}

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

void Begin(int fd, const Key& key) {
  const ErrnoGuard guard;
  const int64_t largest = shim.daemon.Largest();
  if (largest <= 0 || key.size() >= PATH_MAX) return;
  struct statx status;
  if (sys::CachedStatus(fd, &status) != 0 || !S_ISREG(status.stx_mode) ||
      status.stx_size == 0 ||
      status.stx_size > static_cast<uint64_t>(largest)) {
    return;
  }
  struct timespec now;
  clock_gettime(CLOCK_REALTIME_COARSE, &now);
  if (now.tv_sec - status.stx_mtime.tv_sec < kSettledSeconds) return;
  Table::Entry* entry = shim.table.Take();
  if (entry == nullptr) return;
  Growing* growing = &entry->payload;
  growing->stage.store(Growing::kFresh, std::memory_order_relaxed);
  growing->identity = IdentityOf(status);
  growing->is_public =
      (shim.daemon.Flags() & kShared) && (status.stx_mode & S_IROTH);
  SetUnits(growing);
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
  shim.table.Insert(fd, entry);
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
      Add(&shim.daemon.counts.waits);
      Add(&shim.daemon.counts.wait_ns,
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

int OpenCopy(Key* key, const char* source, int flags) {
  const View view = shim.daemon.Look();
  if (!view.has_store) return -1;
  const Folder* const folders[] = {&shim.settings.own,
                                   &shim.settings.everybodys};
  // Without the daemon's word, look everywhere.
  const int count = !view.is_valid || (view.flags & kShared) ? 2 : 1;
  for (int i = 0; i < count; ++i) {
    const char* path = key->In(*folders[i]);
    if (path == nullptr) return -1;
    const int fd = static_cast<int>(
        syscall(SYS_openat, AT_FDCWD, path,
                O_RDONLY | O_NOFOLLOW | O_NONBLOCK | (flags & O_CLOEXEC)));
    if (fd < 0) {
      if (errno == EMFILE || errno == ENFILE) return -1;
      continue;
    }
    struct stat status;
    if (IsGoodCopy(fd, view.is_valid, source, &status)) {
      const uint64_t device = status.st_dev;
      if (shim.copies_device.load(std::memory_order_relaxed) != device) {
        shim.copies_device.store(device, std::memory_order_relaxed);
      }
      Add(&shim.daemon.counts.copy_opens);
      Add(&shim.daemon.counts.copy_bytes,
          static_cast<uint64_t>(status.st_size));
      shim.daemon.Report(key->key(), key->size());
      return fd;
    }
    sys::Close(fd);
  }
  return -1;
}

int OpenCopyOrAsk(Key* key, const char* source, int flags) {
  errno = 0;
  int copy = OpenCopy(key, source, flags);
  if (copy < 0 && (errno == EMFILE || errno == ENFILE) && GiveUpAll()) {
    copy = OpenCopy(key, source, flags);
  }
  if (copy < 0 && (shim.daemon.Flags() & kAsks) && !IsGrowingHere(*key) &&
      shim.daemon.Ask(key->key(), key->size()) == kUseCopy) {
    copy = OpenCopy(key, source, flags);
  }
  return copy;
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
