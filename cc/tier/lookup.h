// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// Complete copies, and how a program comes to read one.
//
// Thread-safety: all may be called from any thread and from signal handlers.
// LookUpCopy waits for the daemon's answer.

#ifndef TF_MALLEABLE_CC_TIER_LOOKUP_H_
#define TF_MALLEABLE_CC_TIER_LOOKUP_H_

#include "cc/tier/partial_copy.h"

namespace tf_malleable {
namespace tier {

// Opens a complete copy for reading; -1 if there is none that may be used. If
// the daemon does not live, compares it with `source`, the file's name in the
// program, unless that is null. `flags` has O_CLOEXEC or not. May set errno.
int OpenCopy(Key* key, const char* source, int flags);

// The same; if there is none, asks the daemon whether there can be one, and
// sets what it said.
int LookUpCopy(Key* key, const char* source, int flags, LookupResult* result);

// Puts a complete copy in the place of a program's descriptor; returns whether
// there was one.
bool SwapInCopy(PartialCopy* partial, int fd);

}  // namespace tier
}  // namespace tf_malleable

#endif  // TF_MALLEABLE_CC_TIER_LOOKUP_H_
