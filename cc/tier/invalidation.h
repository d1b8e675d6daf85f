// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// What programs change in the source through the shim: its copies go.
//
// Thread-safety: all may be called from any thread and from signal handlers.
// They wait up to half a second for the daemon to remove what only it can.

#ifndef TF_MALLEABLE_CC_TIER_INVALIDATION_H_
#define TF_MALLEABLE_CC_TIER_INVALIDATION_H_

#include "cc/tier/settings.h"

namespace tf_malleable {
namespace tier {

// A file, or a folder with all in it, is another one now.
void Invalidate(Key* key);
// The same, for a path that may be anywhere.
void InvalidatePath(int folder, const char* path);

}  // namespace tier
}  // namespace tf_malleable

#endif  // TF_MALLEABLE_CC_TIER_INVALIDATION_H_
