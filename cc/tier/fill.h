// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// How what a program reads gets into the copy.
//
// Thread-safety: all may be called from any thread and from signal handlers.

#ifndef TF_MALLEABLE_CC_TIER_FILL_H_
#define TF_MALLEABLE_CC_TIER_FILL_H_

#include "cc/tier/partial_copy.h"

namespace tf_malleable {
namespace tier {

// Says so if all of it is there by now.
void CheckFull(PartialCopy* partial);

// Takes what was read of a file with a map.
void FillMapped(PartialCopy* partial, const char* data, int64_t size,
                int64_t offset);

// Takes what was read of a small one, which is sent once it is whole.
void FillSmall(PartialCopy* partial, int fd, const char* data, int64_t size,
               int64_t offset);

}  // namespace tier
}  // namespace tf_malleable

#endif  // TF_MALLEABLE_CC_TIER_FILL_H_
