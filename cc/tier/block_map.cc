// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.

#include "cc/tier/block_map.h"

#include <string.h>

#include "cc/tier/partial_copy_files.h"
#include "cc/tier/syscalls.h"

namespace tf_malleable {
namespace tier {
namespace {

// Time between two searches for a public copy.
constexpr int64_t kSearchIntervalNs = 20 * kMillisecondNs;
// PartialCopy::next_search while a thread searches, and after a copy was found.
constexpr int64_t kIsSearching = INT64_MAX;
constexpr int64_t kIsFound = -1;
// Pauses between two looks at a range that is being fetched.
constexpr int64_t kFirstPauseNs = 100 * kMicrosecondNs;
constexpr int64_t kLongestPauseNs = 2 * kMillisecondNs;

// Finds the partial copy that the daemon fills, of a file that everybody may
// read.
void FindPublicCopy(PartialCopy* partial) {
  const int64_t now = sys::Now(CLOCK_MONOTONIC_COARSE);
  int64_t next = partial->next_search.load(std::memory_order_relaxed);
  if (now < next || next < 0 ||
      !partial->next_search.compare_exchange_strong(next, kIsSearching)) {
    return;
  }
  char path[kPartialPathBytes];
  PathOf(*partial, shim.settings.public_partials, ".map", path);
  const int map = sys::Open(path, O_RDONLY | O_NOFOLLOW);
  MapHeader header;
  if (map >= 0 && ReadHeader(*partial, map, &header)) {
    PathOf(*partial, shim.settings.public_partials, ".part", path);
    const int part = sys::Open(path, O_RDONLY | O_NOFOLLOW);
    if (part >= 0) {
      partial->read_part.Take(part);
      partial->read_map.Take(map);
      partial->next_search.store(kIsFound, std::memory_order_release);
      return;
    }
  }
  if (map >= 0) sys::Close(map);
  partial->next_search.store(now + kSearchIntervalNs,
                             std::memory_order_release);
}

// Returns whether there is a partial copy to read from.
bool HasReadMap(PartialCopy* partial) {
  if (!partial->is_public) return true;
  if (partial->next_search.load(std::memory_order_acquire) >= 0) {
    FindPublicCopy(partial);
  }
  return partial->next_search.load(std::memory_order_acquire) < 0;
}

}  // namespace

void SetUnits(PartialCopy* partial) {
  const int64_t size = partial->identity.size;
  partial->unit = kMinUnitBytes;
  while ((size + partial->unit - 1) / partial->unit > kMaxUnits) {
    partial->unit *= 2;
  }
  partial->units =
      static_cast<uint32_t>((size + partial->unit - 1) / partial->unit);
}

MapRange FindRange(PartialCopy* partial, int64_t offset, int64_t size) {
  MapRange range = {size, false, false, false};
  if (!HasReadMap(partial)) return range;
  // All fields that change come before the identity.
  constexpr size_t kHeaderFields =
      offsetof(MapHeader, identity) / sizeof(uint32_t);
  constexpr size_t kState = offsetof(MapHeader, state) / sizeof(uint32_t);
  constexpr size_t kFetching = offsetof(MapHeader, fetching) / sizeof(uint32_t);
  uint32_t header[kHeaderFields];
  const OwnFile& map = partial->read_map;
  if (!map.IsOpen() ||
      sys::ReadAt(map.fd, header, sizeof(header), 0) != sizeof(header) ||
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
  ssize_t got = sys::ReadAt(map.fd, there, static_cast<size_t>(count),
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
  shim.daemon.Count(&AtomicCounts::waits);
  shim.daemon.Count(&AtomicCounts::wait_ns,
                    static_cast<uint64_t>(sys::Now(CLOCK_MONOTONIC) - begin));
  return range;
}

}  // namespace tier
}  // namespace tf_malleable
