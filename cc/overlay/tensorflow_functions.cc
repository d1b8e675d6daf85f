// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.

#include "cc/overlay/tensorflow_functions.h"

#include <dlfcn.h>

// Only the tests' stand-in, which has this name itself, defines another one.
#ifndef TF_MALLEABLE_FRAMEWORK
#define TF_MALLEABLE_FRAMEWORK "libtensorflow_framework.so.2"
#endif

namespace tf_malleable {
namespace {

template <typename Pointer>
void Find(void* library, const char* symbol, Pointer* pointer) {
  *pointer = library == nullptr
                 ? nullptr
                 : reinterpret_cast<Pointer>(dlsym(library, symbol));
}

TensorFlowFunctions Load() {
  // Found by its soname. It is loaded, as its functions have called ours.
  void* const lib = dlopen(TF_MALLEABLE_FRAMEWORK, RTLD_LAZY | RTLD_NOLOAD);
  TensorFlowFunctions tf;
  Find(lib,
       "_ZN10tensorflow5ShardEiPN3tsl6thread10ThreadPoolEllSt8functionIFvllEE",
       &tf.shard);
  Find(lib, "_ZN10tensorflow26GetPerThreadMaxParallelismEv",
       &tf.per_thread_max_parallelism);
  Find(lib, "_ZN3tsl21OpDeterminismRequiredEv", &tf.op_determinism_required);
  Find(lib, "_ZN10tensorflow15OpKernelContextC2EPNS0_6ParamsE",
       &tf.make_op_context);
  Find(lib, "_ZN10tensorflow15OpKernelContextC2EPNS0_6ParamsEi",
       &tf.make_op_context_with);
  Find(lib, "_ZN3tsl4port18NumSchedulableCPUsEv", &tf.schedulable_cpus);
  Find(lib, "_ZN3tsl4port25NUMASetThreadNodeAffinityEi", &tf.set_numa_affinity);
  Find(lib, "_ZN3tsl8profiler19threadpool_listener9IsEnabledEv",
       &tf.tracing_enabled);
  Find(lib, "_ZN3tsl7tracing12GetUniqueArgEv", &tf.unique_trace_id);
  Find(lib, "_ZN3tsl7tracing14EventCollector10instances_E", &tf.collectors);
  if (tf.unique_trace_id == nullptr || tf.collectors == nullptr) {
    tf.tracing_enabled = nullptr;
  }
  return tf;
}

KernelFunctions LoadKernels() {
  void* const lib = dlopen("libtensorflow_cc.so.2", RTLD_LAZY | RTLD_NOLOAD);
  KernelFunctions kernels;
  Find(lib,
       "_ZN10tensorflow17FactoryKeyCreator6AppendESt17basic_string_viewIcSt11"
       "char_traitsIcEE",
       &kernels.append_to_key);
  Find(lib, "_ZNK3xla3cpu16SlinkyThreadPool12thread_countEv",
       &kernels.slinky_thread_count);
  Find(lib, "_ZNK3xla3cpu14YnnFusionThunk15ExecuteMayBlockEv",
       &kernels.ynn_may_block);
  return kernels;
}

}  // namespace

const TensorFlowFunctions& TensorFlowFunctions::Get() {
  static const TensorFlowFunctions functions = Load();
  return functions;
}

const KernelFunctions& KernelFunctions::Get() {
  static const KernelFunctions functions = LoadKernels();
  return functions;
}

}  // namespace tf_malleable
