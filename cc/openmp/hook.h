// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// Hooks of functions of other libraries, and the state of a thread in them.

#ifndef TF_MALLEABLE_CC_OPENMP_HOOK_H_
#define TF_MALLEABLE_CC_OPENMP_HOOK_H_

#include "cc/openmp/latch.h"
#include "cc/openmp/operation.h"
#include "cc/openmp/runtime.h"

// Defines extern "C" RESULT NAME PARAMETERS under a C++ name.
#define TFM_OPENMP_HOOK(result, name, parameters)                           \
  extern "C" __attribute__((                                                \
      visibility("default"))) result Hook_##name parameters __asm__(#name); \
  result Hook_##name parameters

namespace tf_malleable {
namespace openmp {

struct ThreadState {
  Operation operation;
  Latch latches[kMostRuntimes];
  // 1 + Forks() at the last team of more than one thread; 0 if none.
  unsigned forks_at_team[kMostRuntimes];
  // Answer to omp_get_num_procs, and the operation that it is for.
  int procs;
  unsigned procs_operation;
  // Whether the program is setting torch's number of threads.
  bool is_in_torch;
  // What has called a hook of torch, which goes on as that, as torch's function
  // may jump to one of the runtime. Null outside.
  const Caller* torch_caller;
};

// Of the calling thread.
extern thread_local ThreadState thread_state;

// Whether teams of this caller can follow the limit.
bool CanFollow(const Caller& caller);

}  // namespace openmp
}  // namespace tf_malleable

#endif  // TF_MALLEABLE_CC_OPENMP_HOOK_H_
