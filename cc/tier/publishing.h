// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// How a reader gives a small copy its place.
//
// Thread-safety: all may be called from any thread and from signal handlers.

#ifndef TF_MALLEABLE_CC_TIER_PUBLISHING_H_
#define TF_MALLEABLE_CC_TIER_PUBLISHING_H_

#include "cc/tier/growing.h"

namespace tf_malleable {
namespace tier {

// Publishes a part that has all of the file, which `fd` is open for; returns
// whether it did. If not, the daemon may.
bool Publish(const Growing& growing, int fd);

}  // namespace tier
}  // namespace tf_malleable

#endif  // TF_MALLEABLE_CC_TIER_PUBLISHING_H_
