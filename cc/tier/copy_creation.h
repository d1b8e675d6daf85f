// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// How a reader begins a copy, or joins one.
//
// Thread-safety: all may be called from any thread and from signal handlers.
// Start waits while another thread starts the same copy, 50 ms at most.

#ifndef TF_MALLEABLE_CC_TIER_COPY_CREATION_H_
#define TF_MALLEABLE_CC_TIER_COPY_CREATION_H_

#include "cc/tier/partial_copy.h"

namespace tf_malleable {
namespace tier {

// Begins the copy at the first read. Another thread's read waits for that.
PartialCopy::Stage BeginCopy(PartialCopy* partial, int fd, int64_t offset);

}  // namespace tier
}  // namespace tf_malleable

#endif  // TF_MALLEABLE_CC_TIER_COPY_CREATION_H_
