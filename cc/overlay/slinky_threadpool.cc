// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// xla::cpu::SlinkyThreadPool::thread_count, TensorFlow 2.21 and later.

#include <dlfcn.h>

#include "cc/limits/hooks.h"

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
  return PlannedThreadCount(original == nullptr ? 0 : original(self));
}

}  // namespace tf_malleable
