// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// The members of xla::cpu's YNNPACK classes that the overlay replaces, in
// TensorFlow 2.21 and later. One is defined by symbol name, as TensorFlow's
// header defines it inline. tests/packaging/test_declarations.py compares it
// with that header.

#if TF_MALLEABLE_TF_MINOR >= 21

#include "cc/limits/hooks.h"
#include "cc/overlay/tensorflow_functions.h"
#include "xla/backends/cpu/runtime/ynnpack/slinky_threadpool.h"

namespace xla::cpu {

using tf_malleable::KernelFunctions;
using tf_malleable::PlannedThreadCount;

int SlinkyThreadPool::thread_count() const {
  const auto thread_count = KernelFunctions::Get().slinky_thread_count;
  return PlannedThreadCount(thread_count == nullptr ? 0 : thread_count(this));
}

}  // namespace xla::cpu

namespace tf_malleable {

extern "C" __attribute__((visibility("default"))) bool YnnMayBlock(
    const void* self) asm("_ZNK3xla3cpu14YnnFusionThunk15ExecuteMayBlockEv");

extern "C" bool YnnMayBlock(const void* self) {
  const auto may_block = KernelFunctions::Get().ynn_may_block;
  return MayBlock(may_block != nullptr && may_block(self));
}

}  // namespace tf_malleable

#endif  // TF_MALLEABLE_TF_MINOR >= 21
