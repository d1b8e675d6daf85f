// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// What tells a file of the source from others, and what stat() answers for it.

#ifndef TF_MALLEABLE_CC_TIER_IDENTITY_H_
#define TF_MALLEABLE_CC_TIER_IDENTITY_H_

#include <sys/stat.h>
#include <sys/types.h>

#include "cc/tier/protocol.h"

namespace tf_malleable {
namespace tier {

// Thread-safety: pure functions.

uint64_t DeviceOf(const struct statx& status);
Identity IdentityOf(const struct statx& status);
// Whether the attribute's value is one.
bool IsIdentity(const Identity& identity, ssize_t size);
// Whether a file with this status is the version of the file that was copied,
// and may be read by the same users.
bool IsSameVersionAndMode(const Identity& identity, const struct statx& status);
// Whether an open file with this status is still that version.
bool IsSameVersion(const Identity& identity, const struct statx& status);
void FillStatus(const Identity& identity, struct stat* status);
// Fills in what `status` has, of what statx was asked for.
void FillStatus(const Identity& identity, struct statx* status);

}  // namespace tier
}  // namespace tf_malleable

#endif  // TF_MALLEABLE_CC_TIER_IDENTITY_H_
