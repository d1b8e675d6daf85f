// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// The number of CPUs by which TensorFlow decides, once, what cannot follow a
// limit later.

#ifndef TF_MALLEABLE_CC_LIMITS_SCHEDULABLE_CPUS_H_
#define TF_MALLEABLE_CC_LIMITS_SCHEDULABLE_CPUS_H_

namespace tf_malleable {

// The highest number of threads that can ever be useful: the host's CPUs, or
// the capacity of growing pools if that is lower; at least `now`.
int MostUsefulThreads(int now);

// tsl::port::NumSchedulableCPUs: the result instead of `now`, which is the
// number of CPUs in the caller's affinity mask. Declared here, not in hooks.h,
// as port.cc includes it: a header that needs no other.
int SchedulableCpus(int now);

}  // namespace tf_malleable

#endif  // TF_MALLEABLE_CC_LIMITS_SCHEDULABLE_CPUS_H_
