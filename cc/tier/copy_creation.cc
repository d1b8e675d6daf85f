// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.

#include "cc/tier/copy_creation.h"

#include <linux/falloc.h>
#include <sys/mman.h>

#include "cc/tier/partial_copy_files.h"
#include "cc/tier/syscalls.h"

namespace tf_malleable {
namespace tier {
namespace {

// Number of looks at a copy that another thread is creating, and pauses between
// them: the first looks are the fast ones.
constexpr int kLooks = 100;
constexpr int kFastLooks = 50;
constexpr int64_t kFastPauseNs = 20 * kMicrosecondNs;
constexpr int64_t kSlowPauseNs = kMillisecondNs;

// Joins a copy that another thread or process has begun.
bool Join(PartialCopy* partial, const char* map_path, const char* part_path) {
  const int map = sys::Open(map_path, O_RDWR | O_NOFOLLOW);
  if (map < 0) return false;
  MapHeader header;
  int part = -1;
  if (ReadHeader(*partial, map, &header) && header.fills == 1) {
    part = sys::Open(part_path, O_RDWR | O_NOFOLLOW);
  }
  if (part < 0) {
    sys::Close(map);
    return false;
  }
  partial->map.Take(map);
  partial->part.Take(part);
  partial->is_joined = true;
  return true;
}

// Creates the files of a copy that this reader fills; without room for a new
// copy, joins one that exists.
bool CreateFiles(PartialCopy* partial, int fd, bool has_room) {
  char map_path[kPartialPathBytes];
  char part_path[kPartialPathBytes];
  PathOf(*partial, shim.settings.private_partials, ".map", map_path);
  PathOf(*partial, shim.settings.private_partials, ".part", part_path);
  if (!has_room) return Join(partial, map_path, part_path);
  const int flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW;
  const int part = sys::Open(part_path, flags, kPrivateFileMode);
  if (part < 0) {
    return errno == EEXIST && Join(partial, map_path, part_path);
  }
  partial->part.Take(part);
  const bool has_space = syscall(SYS_fallocate, partial->part.fd, 0, int64_t{0},
                                 partial->identity.size) == 0 ||
                         errno == EOPNOTSUPP;
  if (has_space) {
    const int map = sys::Open(map_path, flags, kPrivateFileMode);
    if (map >= 0) {
      partial->map.Take(map);
      const int fds[] = {fd, partial->map.fd, partial->part.fd};
      if (WriteHeader(*partial) && Send(*partial, kGrowing, fds, 3)) {
        return true;
      }
      SetState(*partial, kIsDropped);
      sys::Unlink(map_path);
    }
  }
  sys::Unlink(part_path);
  return false;
}

// Creates only a map, for the daemon, which fills the copy itself.
bool CreateSharedMap(PartialCopy* partial, int fd) {
  partial->map.Take(
      static_cast<int>(syscall(SYS_memfd_create, "tier", MFD_CLOEXEC)));
  if (partial->map.fd < 0 || !WriteHeader(*partial)) return false;
  const int fds[] = {fd, partial->map.fd};
  return Send(*partial, kGrowing, fds, 2);
}

PartialCopy::Stage CreateCopy(PartialCopy* partial, int fd, int64_t offset) {
  const int64_t size = partial->identity.size;
  const bool has_room = size <= shim.daemon.MaxFileBytes();
  if (!has_room && !partial->is_expected) return PartialCopy::kOff;
  if (!partial->is_public && !MayWrite(size)) return PartialCopy::kOff;
  // The program's descriptors come first: the shim uses at most an eighth of
  // the limit, and none while the program uses the highest quarter.
  const uint64_t limit = sys::Soft(RLIMIT_NOFILE);
  const uint64_t max_program_fd = limit / 4 * 3;
  const uint64_t max_own_files = limit / 8;
  if (static_cast<uint64_t>(fd) > max_program_fd ||
      static_cast<uint64_t>(shim.own_files.load(std::memory_order_relaxed)) >
          max_own_files) {
    return PartialCopy::kOff;
  }
  if (has_room && size <= kSmallFileBytes && offset == 0) {
    // A file that is read at once needs no part.
    if (partial->is_public || shim.daemon.TakesHandoffs()) {
      return PartialCopy::kSmallFile;
    }
    const int part = sys::Open(shim.settings.private_partials.path,
                               O_TMPFILE | O_RDWR, kPrivateFileMode);
    if (part >= 0) {
      partial->part.Take(part);
      return PartialCopy::kSmallFile;
    }
    if (errno != EOPNOTSUPP && errno != EISDIR) return PartialCopy::kOff;
  }
  if (partial->is_public ? !CreateSharedMap(partial, fd)
                         : !CreateFiles(partial, fd, has_room)) {
    return PartialCopy::kOff;
  }
  if (!partial->is_public) {
    partial->read_map = partial->map;
    partial->read_part = partial->part;
  }
  return PartialCopy::kMapped;
}

}  // namespace

PartialCopy::Stage BeginCopy(PartialCopy* partial, int fd, int64_t offset) {
  uint32_t stage = partial->stage.load(std::memory_order_acquire);
  if (stage == PartialCopy::kFresh &&
      partial->stage.compare_exchange_strong(stage, PartialCopy::kCreating,
                                             std::memory_order_acquire)) {
    stage = CreateCopy(partial, fd, offset);
    partial->stage.store(stage, std::memory_order_release);
  }
  for (int i = 0; stage == PartialCopy::kCreating && i < kLooks; ++i) {
    sys::Sleep(i < kFastLooks ? kFastPauseNs : kSlowPauseNs);
    stage = partial->stage.load(std::memory_order_acquire);
  }
  return static_cast<PartialCopy::Stage>(stage);
}

}  // namespace tier
}  // namespace tf_malleable
