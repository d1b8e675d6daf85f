// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// xla::cpu::SlinkyThreadPool::thread_count, TensorFlow 2.21 and later.
//
// YNNPACK, which runs XLA's matrix products, asks it once per program, when it
// decides which loops are parallel. A program first run at limit 1 would have
// no parallel loop ever after, so the answer is the most threads it will ever
// pay to use, as for oneDNN (PlannedPoolView). How many threads
// a loop then uses is decided anew for each run, by other members, from the
// view of the pool that the run is given.

#include <dlfcn.h>

#include <algorithm>

#include "cc/limits/pool_registry.h"

namespace tf_malleable {

extern "C" __attribute__((visibility("default"))) int SlinkyThreadCount(
    const void* self) asm("_ZNK3xla3cpu16SlinkyThreadPool12thread_countEv");

extern "C" int SlinkyThreadCount(const void* self) {
  using ThreadCount = int (*)(const void*);
  static const ThreadCount original = [] {
    void* const lib = dlopen("libtensorflow_cc.so.2", RTLD_LAZY | RTLD_NOLOAD);
    return lib == nullptr
               ? nullptr
               : reinterpret_cast<ThreadCount>(dlsym(
                     lib, "_ZNK3xla3cpu16SlinkyThreadPool12thread_countEv"));
  }();
  const int now = original == nullptr ? 0 : original(self);
  // Without threads there is no pool behind it, and never will be.
  if (now == 0) return 0;
  return std::max(now, std::min(PoolRegistry::Get().max_threads(), HostCpus()));
}

}  // namespace tf_malleable
