// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// EigenEnvironment: creates the threads and tasks of a tsl::thread::ThreadPool.
// TensorFlow's own definition is private to threadpool.cc, which the overlay
// replaces.

#ifndef TF_MALLEABLE_CC_OVERLAY_EIGEN_ENVIRONMENT_H_
#define TF_MALLEABLE_CC_OVERLAY_EIGEN_ENVIRONMENT_H_

#include <cfenv>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#if defined(__SSE3__) || defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "cc/overlay/tensorflow_functions.h"
#include "tsl/platform/numa.h"
#include "tsl/platform/tracing.h"
#include "xla/tsl/platform/env.h"

namespace tsl::thread {

struct EigenEnvironment {
  using EnvThread = Thread;

  struct Closure {
    std::function<void()> fn;
    uint64_t trace_id;
  };
  // Eigen's pool tests `if (task.f)`.
  struct Task {
    std::optional<Closure> f;
  };

  Env* env;
  ThreadOptions options;
  std::string thread_name;

  EnvThread* CreateThread(std::function<void()> loop) {
    return env->StartThread(
        options, thread_name, [node = options.numa_node, loop]() {
          SetFloatingPointMode();
          const auto& tf = tf_malleable::TensorFlowFunctions::Get();
          if (node != port::kNUMANoAffinity &&
              tf.set_numa_affinity != nullptr) {
            tf.set_numa_affinity(node);
          }
          loop();
        });
  }

  Task CreateTask(std::function<void()> fn) {
    const auto& tf = tf_malleable::TensorFlowFunctions::Get();
    uint64_t id = 0;
    if (const auto* collector =
            tf.Collector(tracing::EventCategory::kScheduleClosure)) {
      id = tf.unique_trace_id();
      collector->RecordEvent(id);
    }
    return Task{Closure{std::move(fn), id}};
  }

  void ExecuteTask(const Task& task) {
    const auto& tf = tf_malleable::TensorFlowFunctions::Get();
    const auto* collector = tf.Collector(tracing::EventCategory::kRunClosure);
    if (collector == nullptr) {
      task.f->fn();
      return;
    }
    collector->StartRegion(task.f->trace_id);
    task.f->fn();
    if (tf.tracing_enabled()) collector->StopRegion();
  }

 private:
  // For its whole life, a worker flushes denormal results and operands to zero
  // and rounds to nearest.
  static void SetFloatingPointMode() {
#if defined(__x86_64__)
    constexpr unsigned kFlushToZero = 1u << 15;
    constexpr unsigned kDenormalsAreZero = 1u << 6;
    _mm_setcsr(_mm_getcsr() | kFlushToZero | kDenormalsAreZero);
#elif defined(__aarch64__)
    constexpr uint64_t kFlushToZero = uint64_t{1} << 24;
    uint64_t fpcr;
    asm volatile("mrs %0, fpcr" : "=r"(fpcr));
    asm volatile("msr fpcr, %0" ::"r"(fpcr | kFlushToZero));
#endif
    std::fesetround(FE_TONEAREST);
  }
};

}  // namespace tsl::thread

#endif  // TF_MALLEABLE_CC_OVERLAY_EIGEN_ENVIRONMENT_H_
