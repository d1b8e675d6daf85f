// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// The number of threads that OpenMP teams of this process may have now.
//
// It is a word that the process itself sets (TF_MALLEABLE_THREADS,
// tfm.set_threads(), its agent). Without one it is the number of CPUs that the
// calling thread may use: a controller, a cpuset or taskset confines any
// process to its CPUs, and so changes the limit from outside, whatever the
// process is. A CPU quota limits it as well, where `tfm run` follows the
// cgroup.
//
// Thread-safety: all functions may be called from any thread, and in a forked
// child.

#ifndef TF_MALLEABLE_CC_OPENMP_LIMIT_H_
#define TF_MALLEABLE_CC_OPENMP_LIMIT_H_

namespace tf_malleable {
namespace openmp {

// Highest limit: TF_MALLEABLE_MAX_THREADS, or else the host's CPUs; 1 … 1024.
int Capacity();

// Limit of the calling thread, 1 … Capacity(). It is at most kFreshNanoseconds
// old, but for the word, which is always fresh, and a quota; see quota.h.
int Limit();
constexpr long kFreshNanoseconds = 500000;

// The part of it that does not show in the affinity: the word, or the quota; at
// least 1024 if there is neither.
int ToldCpus();

// CPUs that the calling thread may use, at most kFreshNanoseconds ago.
int AllowedCpus();

// Sets the word; 0 for none. Numbers above the capacity stand for it.
void SetWord(int threads);
int Word();

// Upper bound that the user gives with OMP_NUM_THREADS; the capacity if none.
int UserBound();

// Whether the user places threads (OMP_PROC_BIND, OMP_PLACES,
// GOMP_CPU_AFFINITY): then the affinity of a thread says nothing about the
// process, and its teams are left alone.
bool IsPlaced();

// Whether LLVM's and Intel's runtimes place threads (KMP_AFFINITY).
bool IsPlacedByKmp();

}  // namespace openmp
}  // namespace tf_malleable

#endif  // TF_MALLEABLE_CC_OPENMP_LIMIT_H_
