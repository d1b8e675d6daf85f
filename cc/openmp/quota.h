// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// The CPUs that quotas allow to the process's cgroup and its parents, as in a
// pod or a container.
//
// Thread-safety: may be called from any thread, and in a forked child.

#ifndef TF_MALLEABLE_CC_OPENMP_QUOTA_H_
#define TF_MALLEABLE_CC_OPENMP_QUOTA_H_

namespace tf_malleable {
namespace openmp {

// Returns the smallest quota in CPUs, rounded up, at most
// kFreshQuotaNanoseconds ago; `none` if there is none. The files are those of
// TF_MALLEABLE_QUOTAS, one on each line: cpu.max of cgroup v2, cpu.cfs_quota_us
// of v1.
int QuotaCpus(int none);
constexpr long kFreshQuotaNanoseconds = 20000000;

}  // namespace openmp
}  // namespace tf_malleable

#endif  // TF_MALLEABLE_CC_OPENMP_QUOTA_H_
