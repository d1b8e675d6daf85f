// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.

#ifndef TF_MALLEABLE_CC_LIMITS_TICK_RATE_H_
#define TF_MALLEABLE_CC_LIMITS_TICK_RATE_H_

#include <cstdint>

namespace tf_malleable {

// Converts a difference of Ticks() to seconds. The counter's rate
// is measured against the steady clock since the library was loaded.
// Thread-safe.
double TicksToSeconds(uint64_t ticks);

}  // namespace tf_malleable

#endif  // TF_MALLEABLE_CC_LIMITS_TICK_RATE_H_
