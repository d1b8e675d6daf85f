// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// What is there of a partial copy.
//
// Thread-safety: all may be called from any thread and from signal handlers.
// AwaitRange waits for kStallNs at most.

#ifndef TF_MALLEABLE_CC_TIER_BLOCK_MAP_H_
#define TF_MALLEABLE_CC_TIER_BLOCK_MAP_H_

#include "cc/tier/partial_copy.h"

namespace tf_malleable {
namespace tier {

// Decides what a unit of its map stands for.
void SetUnits(PartialCopy* partial);

struct MapRange {
  int64_t size;      // Bytes.
  bool is_present;   // In the copy.
  bool is_fetching;  // Comes.
  bool is_dropped;
};

// The first range of a span, all of which is in the copy or is not.
MapRange FindRange(PartialCopy* partial, int64_t offset, int64_t size);

// Waits for the daemon to fetch a range.
MapRange AwaitRange(PartialCopy* partial, int64_t offset, int64_t size);

}  // namespace tier
}  // namespace tf_malleable

#endif  // TF_MALLEABLE_CC_TIER_BLOCK_MAP_H_
