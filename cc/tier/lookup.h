// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// Lookup of complete copies, which programs then read.
//
// Thread-safety: all functions may be called from any thread and from signal
// handlers. LookUpCopy blocks until the daemon has replied, or for a bounded
// time.

#ifndef TF_MALLEABLE_CC_TIER_LOOKUP_H_
#define TF_MALLEABLE_CC_TIER_LOOKUP_H_

#include "cc/tier/partial_copy.h"

namespace tf_malleable {
namespace tier {

// Opens a complete copy for reading; if there is none that may be used, asks
// the daemon for one, sets `result`, and returns -1. Compares the copy with
// `source`, the path of the file in the program, unless the daemon permits
// readers not to. Of `flags`, only O_CLOEXEC is used. May set errno.
int LookUpCopy(Key* key, const char* source, int flags, LookupResult* result);

// Closes the descriptors by which copies are opened faster; returns whether
// there were any.
bool CloseCopiesFolders();

// Opens the complete copy of the version that the program has open as `fd`;
// returns -1 if there is none. May set errno.
int OpenCopyOf(const PartialCopy& partial, int fd);

// Replaces a descriptor of the program by one of the complete copy, if that
// exists, or is fetched and complete soon; returns whether it did.
bool AwaitSwap(PartialCopy* partial, int fd);

}  // namespace tier
}  // namespace tf_malleable

#endif  // TF_MALLEABLE_CC_TIER_LOOKUP_H_
