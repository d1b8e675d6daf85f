// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.

#include "cc/tier/filling.h"

#include <string.h>

#include "cc/tier/growing_files.h"
#include "cc/tier/handing.h"
#include "cc/tier/system.h"

namespace tf_malleable {
namespace tier {
namespace {

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

// Whether there is a part of a small file, which is made if there was none.
bool HasPart(Growing* growing) {
  if (!growing->part.IsOpen()) {
    growing->part.Take(sys::Open(shim.settings.private_partials.path,
                                 O_TMPFILE | O_RDWR, 0600));
  }
  return growing->part.IsOpen();
}

}  // namespace

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
  const int64_t whole = growing->identity.size;
  // Whoever comes meanwhile leaves a gap.
  if (growing->run_lock.exchange(true, std::memory_order_acquire)) return;
  const int64_t before = growing->run_end;
  const bool has_gap = offset > before;
  const bool goes_on = !has_gap && end > before;
  bool is_handed = false;
  bool is_written = true;
  if (goes_on && !growing->is_public) {
    is_handed = before == 0 && end == whole && HandOver(*growing, fd, data);
    // Before the next one goes on: who reads the end sends all of it.
    is_written = is_handed || (HasPart(growing) &&
                               WriteAll(growing->part, data + (before - offset),
                                        end - before, before));
  }
  if (goes_on) growing->run_end = end;
  growing->run_lock.store(false, std::memory_order_release);
  if (has_gap || !is_written) {
    growing->stage.store(Growing::kOff, std::memory_order_relaxed);
    // With gaps, a copy needs a map. Let the daemon read it.
    if (has_gap || !growing->part.IsOpen()) Send(*growing, kUnseen, &fd, 1);
    return;
  }
  if (goes_on && end == whole &&
      !growing->is_full.exchange(true, std::memory_order_relaxed)) {
    if (!is_handed &&
        (growing->is_public || !HandOver(*growing, fd, nullptr))) {
      const int fds[] = {fd, growing->part.fd};
      Send(*growing, kWhole, fds, growing->is_public ? 1 : 2);
    }
    growing->stage.store(Growing::kOff, std::memory_order_relaxed);
  }
}

}  // namespace tier
}  // namespace tf_malleable
