// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.

#include "cc/tier/fill.h"

#include <string.h>

#include "cc/tier/handoff_client.h"
#include "cc/tier/partial_copy_files.h"
#include "cc/tier/syscalls.h"

namespace tf_malleable {
namespace tier {
namespace {

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

// Marks a range in the map that was written to the part, or was only read.
bool MarkUnits(PartialCopy* partial, int64_t begin, int64_t end) {
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
  uint8_t there[kMapChunkBytes];
  memset(there, kPresent, sizeof(there));
  while (first < last) {
    const int64_t count = last - first < static_cast<int64_t>(kMapChunkBytes)
                              ? last - first
                              : static_cast<int64_t>(kMapChunkBytes);
    if (!WriteAll(partial->map, reinterpret_cast<const char*>(there), count,
                  kMapHeaderBytes + first)) {
      return false;
    }
    std::atomic_thread_fence(std::memory_order_seq_cst);
    const uint32_t cursor = partial->cursor.load(std::memory_order_relaxed);
    if (first <= cursor && cursor < first + count) CheckFull(partial);
    first += count;
  }
  return true;
}

// Returns whether the small file has a part, which is created if necessary.
bool HasPart(PartialCopy* partial) {
  if (!partial->part.IsOpen()) {
    partial->part.Take(sys::Open(shim.settings.private_partials.path,
                                 O_TMPFILE | O_RDWR, kPrivateFileMode));
  }
  return partial->part.IsOpen();
}

}  // namespace

void CheckFull(PartialCopy* partial) {
  uint32_t cursor = partial->cursor.load(std::memory_order_relaxed);
  uint8_t there[kMapChunkBytes];
  while (cursor < partial->units) {
    const uint32_t rest = partial->units - cursor;
    const ssize_t got = sys::ReadAt(
        partial->map.fd, there, rest < kMapChunkBytes ? rest : kMapChunkBytes,
        kMapHeaderBytes + cursor);
    ssize_t same = 0;
    while (same < got && there[same] == kPresent) ++same;
    if (same <= 0) break;
    cursor += static_cast<uint32_t>(same);
    partial->cursor.store(cursor, std::memory_order_relaxed);
    // A thread that marks this unit now either sees the cursor, or its mark is
    // seen here.
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
  if (cursor == partial->units &&
      !partial->is_full.exchange(true, std::memory_order_relaxed)) {
    if (!partial->is_public) SetState(*partial, kIsFull);
    Send(*partial, kFull, nullptr, 0);
  }
}

void FillMapped(PartialCopy* partial, const char* data, int64_t size,
                int64_t offset) {
  if ((partial->is_public || WriteAll(partial->part, data, size, offset)) &&
      MarkUnits(partial, offset, offset + size)) {
    return;
  }
  // The disk is full, or gone. Only this process stops: others see the error
  // themselves, and the daemon reads the missing units, or drops the copy.
  partial->stage.store(PartialCopy::kOff, std::memory_order_relaxed);
}

void FillSmall(PartialCopy* partial, int fd, const char* data, int64_t size,
               int64_t offset) {
  const int64_t end = offset + size;
  const int64_t whole = partial->identity.size;
  // A thread that finds the lock held leaves a gap.
  if (partial->run_lock.exchange(true, std::memory_order_acquire)) return;
  const int64_t before = partial->run_end;
  const bool has_gap = offset > before;
  const bool goes_on = !has_gap && end > before;
  bool is_handed = false;
  bool is_written = true;
  if (goes_on && !partial->is_public) {
    is_handed = before == 0 && end == whole && HandOver(*partial, fd, data);
    // Written before another thread goes on: the one that reads the end sends
    // the whole part.
    is_written = is_handed || (HasPart(partial) &&
                               WriteAll(partial->part, data + (before - offset),
                                        end - before, before));
  }
  if (goes_on) partial->run_end = end;
  partial->run_lock.store(false, std::memory_order_release);
  if (has_gap || !is_written) {
    partial->stage.store(PartialCopy::kOff, std::memory_order_relaxed);
    // A copy with gaps would need a map: the daemon reads the file instead.
    if (has_gap || !partial->part.IsOpen()) Send(*partial, kUnseen, &fd, 1);
    return;
  }
  if (goes_on && end == whole &&
      !partial->is_full.exchange(true, std::memory_order_relaxed)) {
    if (!is_handed &&
        (partial->is_public || !HandOver(*partial, fd, nullptr))) {
      const int fds[] = {fd, partial->part.fd};
      Send(*partial, kWhole, fds, partial->is_public ? 1 : 2);
    }
    partial->stage.store(PartialCopy::kOff, std::memory_order_relaxed);
  }
}

}  // namespace tier
}  // namespace tf_malleable
