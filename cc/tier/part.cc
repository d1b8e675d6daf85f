// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.

#include "cc/tier/part.h"

#include "cc/tier/syscalls.h"

namespace tf_malleable {
namespace tier {
namespace {

// Maximum number of bytes of the map that are read at a time.
constexpr size_t kMapChunkBytes = 2048;
// Time between two searches for the daemon's files.
constexpr int64_t kSearchIntervalNs = 20 * kMillisecondNs;
// PartialCopy::next_search while a thread searches, and after a copy was found.
constexpr int64_t kIsSearching = INT64_MAX;
constexpr int64_t kIsFound = -1;
// Pauses between two looks at a range that is being fetched.
constexpr int64_t kFirstPauseNs = 100 * kMicrosecondNs;
constexpr int64_t kLongestPauseNs = 2 * kMillisecondNs;

// Opens the daemon's map of a file, if it is of this version; -1 if there is
// none. Sets `header`, and the folder of the partial copy.
int OpenMap(const PartialCopy& partial, MapHeader* header,
            const Folder** folder) {
  const Folder* const folders[] = {&shim.settings.private_partials,
                                   &shim.settings.public_partials};
  const int count = shim.daemon.Flags() & kShared ? 2 : 1;
  for (int i = 0; i < count; ++i) {
    char path[kPartialPathBytes];
    PartialPath(*folders[i], partial.key, partial.key_size, ".map", path);
    const int map = sys::Open(path, O_RDONLY | O_NOFOLLOW);
    if (map < 0) continue;
    if (sys::ReadAt(map, header, sizeof(*header), 0) == sizeof(*header) &&
        header->magic == kMapMagic && header->version == kVersion &&
        header->state != kIsDropped && header->unit == partial.unit &&
        header->units == partial.units &&
        header->identity.inode == partial.identity.inode &&
        header->identity.size == partial.identity.size &&
        header->identity.mtime_s == partial.identity.mtime_s &&
        header->identity.mtime_ns == partial.identity.mtime_ns) {
      *folder = folders[i];
      return map;
    }
    sys::Close(map);
  }
  return -1;
}

}  // namespace

bool HasPart(PartialCopy* partial) {
  const int64_t now = sys::Now(CLOCK_MONOTONIC_COARSE);
  int64_t next = partial->next_search.load(std::memory_order_acquire);
  if (next < 0) return true;
  if (now < next ||
      !partial->next_search.compare_exchange_strong(next, kIsSearching)) {
    return false;
  }
  MapHeader header;
  const Folder* folder;
  const int map = OpenMap(*partial, &header, &folder);
  if (map >= 0) {
    char path[kPartialPathBytes];
    PartialPath(*folder, partial->key, partial->key_size, ".part", path);
    const int part = sys::Open(path, O_RDONLY | O_NOFOLLOW);
    // The daemon removes the map of one copy before it creates the part of the
    // next one: while the map has its name, the part is the one that belongs to
    // it.
    struct statx status;
    if (part >= 0 && sys::CachedStatus(map, &status) == 0 &&
        status.stx_nlink > 0) {
      partial->part.Take(part);
      partial->part_map.Take(map);
      partial->next_search.store(kIsFound, std::memory_order_release);
      return true;
    }
    if (part >= 0) sys::Close(part);
    sys::Close(map);
  }
  partial->next_search.store(now + kSearchIntervalNs,
                             std::memory_order_release);
  return false;
}

MapRange FindRange(PartialCopy* partial, int64_t offset, int64_t size) {
  MapRange range = {size, false, false, false};
  if (!HasPart(partial)) return range;
  // All fields that change come before the identity.
  constexpr size_t kHeaderFields =
      offsetof(MapHeader, identity) / sizeof(uint32_t);
  constexpr size_t kState = offsetof(MapHeader, state) / sizeof(uint32_t);
  constexpr size_t kFetching = offsetof(MapHeader, fetching) / sizeof(uint32_t);
  uint32_t header[kHeaderFields];
  const OwnFile& map = partial->part_map;
  if (!map.IsOpen() ||
      sys::ReadAt(map.fd(), header, sizeof(header), 0) != sizeof(header) ||
      header[kState] == kIsDropped) {
    range.is_dropped = true;
    return range;
  }
  range.is_fetching = header[kFetching] == 1;
  const int64_t unit = partial->unit;
  const int64_t first = offset / unit;
  int64_t count = (offset + size - 1) / unit - first + 1;
  if (count > static_cast<int64_t>(kMapChunkBytes)) count = kMapChunkBytes;
  uint8_t there[kMapChunkBytes];
  ssize_t got = sys::ReadAt(map.fd(), there, static_cast<size_t>(count),
                            kMapHeaderBytes + first);
  if (got < 0) got = 0;
  memset(there + got, 0, static_cast<size_t>(count - got));
  int64_t same = 1;
  while (same < count && (there[same] == kPresent) == (there[0] == kPresent)) {
    ++same;
  }
  range.is_present = there[0] == kPresent;
  const int64_t end = (first + same) * unit;
  range.size = end - offset < size ? end - offset : size;
  return range;
}

MapRange AwaitRange(PartialCopy* partial, int64_t offset, int64_t size) {
  const int64_t begin = sys::Now(CLOCK_MONOTONIC);
  int64_t pause = kFirstPauseNs;
  MapRange range;
  do {
    sys::Sleep(pause);
    if (pause < kLongestPauseNs) pause *= 2;
    range = FindRange(partial, offset, size);
    if (sys::Now(CLOCK_MONOTONIC) - begin > kStallNs) {
      // One wait in vain is enough: the rest comes from the source.
      partial->may_wait.store(false, std::memory_order_relaxed);
      break;
    }
  } while (!range.is_present && range.is_fetching && shim.daemon.IsValid());
  shim.daemon.CountWait(begin);
  return range;
}

bool IsFetched(PartialCopy* partial) {
  MapHeader header;
  const Folder* folder;
  const int map = OpenMap(*partial, &header, &folder);
  if (map < 0) return false;
  sys::Close(map);
  return header.fetching == 1;
}

}  // namespace tier
}  // namespace tf_malleable
