// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// Fill of a partial copy with the bytes that a program reads.
//
// Thread-safety: all functions may be called from any thread and from signal
// handlers.

#ifndef TF_MALLEABLE_CC_TIER_FILL_H_
#define TF_MALLEABLE_CC_TIER_FILL_H_

#include "cc/tier/partial_copy.h"

namespace tf_malleable {
namespace tier {

// Tells the daemon if all units of the copy are present now.
void CheckFull(PartialCopy* partial);

// Adds bytes that were read to a copy with a map.
void FillMapped(PartialCopy* partial, const char* data, int64_t size,
                int64_t offset);

// Adds bytes that were read, by the descriptor `fd`, to the copy of a small
// file, which is sent once it is complete.
void FillSmall(PartialCopy* partial, int fd, const char* data, int64_t size,
               int64_t offset);

}  // namespace tier
}  // namespace tf_malleable

#endif  // TF_MALLEABLE_CC_TIER_FILL_H_
