// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.

#include "cc/tier/starting.h"

#include <linux/falloc.h>
#include <sys/mman.h>

#include "cc/tier/growing_files.h"
#include "cc/tier/system.h"

namespace tf_malleable {
namespace tier {
namespace {

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

// Makes a copy that this reader fills, if there is room for one of its own.
bool Create(Growing* growing, int fd, bool has_room) {
  char map_path[kGrowingPath];
  char part_path[kGrowingPath];
  PathOf(*growing, shim.settings.private_partials, ".map", map_path);
  PathOf(*growing, shim.settings.private_partials, ".part", part_path);
  if (!has_room) return Join(growing, map_path, part_path);
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

Growing::Stage Make(Growing* growing, int fd, int64_t offset) {
  const int64_t size = growing->identity.size;
  const bool has_room = size <= shim.daemon.Largest();
  if (!has_room && !growing->is_coming) return Growing::kOff;
  if (!growing->is_public && !MayWrite(size)) return Growing::kOff;
  // The program's descriptors come first.
  const uint64_t limit = sys::Soft(RLIMIT_NOFILE);
  if (static_cast<uint64_t>(fd) > limit / 4 * 3 ||
      static_cast<uint64_t>(shim.own_files.load(std::memory_order_relaxed)) >
          limit / 8) {
    return Growing::kOff;
  }
  if (has_room && size <= kSmall && offset == 0) {
    // One that is read at once needs no part.
    if (growing->is_public || shim.daemon.TakesOver()) {
      return Growing::kSmallFile;
    }
    const int part = sys::Open(shim.settings.private_partials.path,
                               O_TMPFILE | O_RDWR, 0600);
    if (part >= 0) {
      growing->part.Take(part);
      return Growing::kSmallFile;
    }
    if (errno != EOPNOTSUPP && errno != EISDIR) return Growing::kOff;
  }
  if (growing->is_public ? !Mark(growing, fd)
                         : !Create(growing, fd, has_room)) {
    return Growing::kOff;
  }
  if (!growing->is_public) {
    growing->from_map = growing->map;
    growing->from_part = growing->part;
  }
  return Growing::kMapped;
}

}  // namespace

void SetUnits(Growing* growing) {
  const int64_t size = growing->identity.size;
  growing->unit = kLeastUnit;
  while ((size + growing->unit - 1) / growing->unit > kMostUnits) {
    growing->unit *= 2;
  }
  growing->units =
      static_cast<uint32_t>((size + growing->unit - 1) / growing->unit);
}

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

}  // namespace tier
}  // namespace tf_malleable
