// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// TensorFlow's own functions that the overlay calls. It cannot link against
// TensorFlow: that would load TensorFlow's libraries before Python's, and
// globally, so that their BoringSSL would replace Python's OpenSSL. Hence they
// are looked up once TensorFlow is loaded.

#ifndef TF_MALLEABLE_CC_OVERLAY_TENSORFLOW_FUNCTIONS_H_
#define TF_MALLEABLE_CC_OVERLAY_TENSORFLOW_FUNCTIONS_H_

#include <cstdint>
#include <functional>
#include <string_view>

#include "tsl/platform/tracing.h"
#include "xla/tsl/platform/threadpool.h"

namespace tf_malleable {

// A null pointer means that this TensorFlow has no such function; the comments
// state what the overlay does then. Thread-safe: filled once, on first use.
struct TensorFlowFunctions {
  static const TensorFlowFunctions& Get();

  // tensorflow::Shard. Null: the caller does all the work itself.
  void (*shard)(int max_parallelism, tsl::thread::ThreadPool* workers,
                int64_t total, int64_t cost_per_unit,
                std::function<void(int64_t, int64_t)> work);
  // tensorflow::GetPerThreadMaxParallelism. Null: there is no maximum.
  int (*per_thread_max_parallelism)();
  // tsl::OpDeterminismRequired. Null: determinism is never required.
  bool (*op_determinism_required)();
  // tensorflow::OpKernelContext's constructors. Never null.
  void (*make_op_context)(void* self, void* params);
  void (*make_op_context_with)(void* self, void* params, int outputs);
  // tsl::port::NumSchedulableCPUs. Never null.
  int (*schedulable_cpus)();
  // tsl::port::NUMASetThreadNodeAffinity. Null: threads keep their affinity.
  void (*set_numa_affinity)(int node);
  // tsl::profiler::threadpool_listener::IsEnabled. Null: never enabled.
  bool (*tracing_enabled)();
  // tsl::tracing::GetUniqueArg. Null if and only if tracing is never enabled.
  uint64_t (*unique_trace_id)();
  // tsl::tracing::EventCollector::instances_, indexed by EventCategory.
  const tsl::tracing::EventCollector* const* collectors;

  // The collector for `category` if thread-pool events are being recorded.
  const tsl::tracing::EventCollector* Collector(
      tsl::tracing::EventCategory category) const {
    if (tracing_enabled == nullptr || !tracing_enabled()) return nullptr;
    return collectors[static_cast<unsigned>(category)];
  }
};

// The same for libtensorflow_cc, which is loaded when kernels or XLA call the
// overlay.
struct KernelFunctions {
  static const KernelFunctions& Get();

  // tensorflow::FactoryKeyCreator::Append. Never null.
  void (*append_to_key)(void* self, std::string_view text);

  // xla::cpu::SlinkyThreadPool::thread_count. Null: there are no threads.
  int (*slinky_thread_count)(const void* self);
  // xla::cpu::YnnFusionThunk::ExecuteMayBlock. Null: it never blocks.
  bool (*ynn_may_block)(const void* self);
};

}  // namespace tf_malleable

#endif  // TF_MALLEABLE_CC_OVERLAY_TENSORFLOW_FUNCTIONS_H_
