// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// Descriptors of complete copies: recognition, and replacement by descriptors
// of the source.
//
// A copy is recognised by its attribute, not by the way it was opened, so this
// is also right for duplicated and inherited descriptors.
//
// Thread-safety: all functions may be called from any thread and from signal
// handlers. They block for no longer than an open of the source does.

#ifndef TF_MALLEABLE_CC_TIER_COPY_DESCRIPTOR_H_
#define TF_MALLEABLE_CC_TIER_COPY_DESCRIPTOR_H_

#include <stdint.h>
#include <sys/types.h>

#include "cc/tier/protocol.h"

namespace tf_malleable {
namespace tier {

// Returns whether an open file with this device, mode and inode is a complete
// copy.
bool IsCopy(int fd, uint64_t device, mode_t mode, uint64_t inode,
            Identity* identity);
// The same of any open file, of which no server is asked. `has_name` says
// whether a copy still has one.
bool IsCopy(int fd, Identity* identity, bool* has_name);

// Called before a call by a descriptor that is about the file itself. Replaces
// a descriptor of a copy, and all duplicates of it in this process, by
// descriptors of the source with the same position; its data is still read from
// the copy. Does nothing for other files.
//
// Returns 0; ESTALE if the path of the source is another file by now, or none;
// or the error of opening the source. The descriptor is the copy's then.
int UseSource(int fd);

// Called when a program opens a copy.
void ForgetLooks(int fd);
// Called when a read has found the end of the file, or the program has asked
// for its size. Who looks again waits for the file to grow: from then on, the
// copy is compared with the source, and the descriptor replaced if the source
// has changed. Each returns whether it was, so that the call is to be repeated.
bool IsOutdatedAtEnd(int fd);
bool IsOutdatedAtStatus(int fd);
// As IsOutdatedAtEnd, but compares only if a read has found the end before.
bool IsOutdatedAtSeek(int fd);
// Compares at once.
bool IsOutdated(int fd);

// Returns whether the process has a record lock of fcntl() on an open file. The
// kernel drops all of them when the process closes any descriptor of the file.
bool HasRecordLock(int fd);

}  // namespace tier
}  // namespace tf_malleable

#endif  // TF_MALLEABLE_CC_TIER_COPY_DESCRIPTOR_H_
