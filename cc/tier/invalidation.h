// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// Invalidation: copies of files that a program changes through the shim are
// removed.
//
// Thread-safety: all functions may be called from any thread and from signal
// handlers. They block for at most half a second, until the daemon has removed
// the copies that only it can remove.

#ifndef TF_MALLEABLE_CC_TIER_INVALIDATION_H_
#define TF_MALLEABLE_CC_TIER_INVALIDATION_H_

#include "cc/tier/settings.h"

namespace tf_malleable {
namespace tier {

// Removes the copies of a file or folder that has changed; of a folder, the
// copies of all its contents.
void Invalidate(Key* key);
// The same for a path of the program, which need not be in the source.
void InvalidatePath(int folder, const char* path);

}  // namespace tier
}  // namespace tf_malleable

#endif  // TF_MALLEABLE_CC_TIER_INVALIDATION_H_
