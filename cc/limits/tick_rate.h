// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// Rate of the clock that Ticks() reads.

#ifndef TF_MALLEABLE_CC_LIMITS_TICK_RATE_H_
#define TF_MALLEABLE_CC_LIMITS_TICK_RATE_H_

#include <cstdint>

namespace tf_malleable {

// Converts a difference of Ticks() to seconds. The rate of the clock is
// measured against the steady clock since the library was loaded. Thread-safe.
// Sleeps for 1 ms if the library was loaded less than 1 ms ago.
double TicksToSeconds(uint64_t ticks);

}  // namespace tf_malleable

#endif  // TF_MALLEABLE_CC_LIMITS_TICK_RATE_H_
