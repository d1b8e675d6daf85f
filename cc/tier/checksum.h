// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// Checksum of blocks: the one of zlib's crc32().
//
// Thread-safety: a pure function.

#ifndef TF_MALLEABLE_CC_TIER_CHECKSUM_H_
#define TF_MALLEABLE_CC_TIER_CHECKSUM_H_

#include <stddef.h>
#include <stdint.h>

namespace tf_malleable {
namespace tier {

// Returns the checksum of bytes. `before` is the checksum of the bytes before
// them, or 0.
uint32_t Checksum(uint32_t before, const char* data, size_t size);

}  // namespace tier
}  // namespace tf_malleable

#endif  // TF_MALLEABLE_CC_TIER_CHECKSUM_H_
