// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// Creation of partial copies: a reader begins a copy, or joins another
// reader's.
//
// Thread-safety: all functions may be called from any thread and from signal
// handlers. BeginCopy waits for at most 50 ms while another thread begins the
// same copy.

#ifndef TF_MALLEABLE_CC_TIER_COPY_CREATION_H_
#define TF_MALLEABLE_CC_TIER_COPY_CREATION_H_

#include "cc/tier/partial_copy.h"

namespace tf_malleable {
namespace tier {

// Begins the copy at the first read, which is at `offset`, of the open file
// `fd`; returns the stage of the copy.
PartialCopy::Stage BeginCopy(PartialCopy* partial, int fd, int64_t offset);

}  // namespace tier
}  // namespace tf_malleable

#endif  // TF_MALLEABLE_CC_TIER_COPY_CREATION_H_
