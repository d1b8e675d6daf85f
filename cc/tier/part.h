// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// The daemon's part of a file that is being copied: which of its ranges are
// present, by the daemon's map.
//
// Thread-safety: all functions may be called from any thread and from signal
// handlers. AwaitRange blocks for at most kStallNs.

#ifndef TF_MALLEABLE_CC_TIER_PART_H_
#define TF_MALLEABLE_CC_TIER_PART_H_

#include "cc/tier/partial_copy.h"

namespace tf_malleable {
namespace tier {

// A range of a file that is present or missing as a whole.
struct MapRange {
  int64_t size;      // Bytes.
  bool is_present;   // In the partial copy.
  bool is_fetching;  // The daemon fills the copy ahead of its readers.
  bool is_dropped;   // The partial copy may not be used any more.
};

// Finds the partial copy that the daemon fills, unless a search was in vain a
// moment ago; returns whether there is one, or was when it was found.
bool HasPart(PartialCopy* partial);

// Returns the first part of the span [offset, offset + size) that is present or
// missing as a whole.
MapRange FindRange(PartialCopy* partial, int64_t offset, int64_t size);

// Waits until the daemon has fetched the beginning of a span; then as
// FindRange. After a wait in vain, no other read of the copy waits.
MapRange AwaitRange(PartialCopy* partial, int64_t offset, int64_t size);

// Returns whether the daemon fills a copy ahead of its readers, so that it may
// soon be complete.
bool IsFetched(PartialCopy* partial);

}  // namespace tier
}  // namespace tf_malleable

#endif  // TF_MALLEABLE_CC_TIER_PART_H_
