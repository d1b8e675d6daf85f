// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// Identity of a file in the source: comparison with a status, and conversion to
// and from one.
//
// Thread-safety: pure functions.

#ifndef TF_MALLEABLE_CC_TIER_IDENTITY_H_
#define TF_MALLEABLE_CC_TIER_IDENTITY_H_

#include <sys/stat.h>
#include <sys/types.h>

#include "cc/tier/protocol.h"

namespace tf_malleable {
namespace tier {

uint64_t DeviceOf(const struct statx& status);
Identity IdentityOf(const struct statx& status);
// Returns whether an attribute's value, of `size` bytes, is an Identity.
bool IsIdentity(const Identity& identity, ssize_t size);
// Returns whether a file with this status is the version that was copied, with
// the same owner and permissions: each change changes the ctime.
bool IsSameVersion(const Identity& identity, const struct statx& status);
// Returns the VersionStamp of a file with this status.
int64_t VersionStampOf(const struct statx& status);
// Sets the fields of a stat result.
void FillStatus(const Identity& identity, struct stat* status);
// Sets the basic fields of a statx result, and the time of birth if it is
// known.
void FillStatus(const Identity& identity, struct statx* status);

}  // namespace tier
}  // namespace tf_malleable

#endif  // TF_MALLEABLE_CC_TIER_IDENTITY_H_
