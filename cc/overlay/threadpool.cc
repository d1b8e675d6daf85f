// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// The members of tsl::thread::ThreadPool that the overlay replaces. A pool that
// wraps a pool of the user has no eigen_threadpool_ and behaves as in stock
// TensorFlow.

#define EIGEN_USE_THREADS

#include "xla/tsl/platform/threadpool.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cc/limits/hooks.h"
#include "cc/overlay/eigen_environment.h"
#include "unsupported/Eigen/CXX11/Tensor"

namespace tsl::thread {

ThreadPool::ThreadPool(Env* env, const ThreadOptions& thread_options,
                       const std::string& name, int num_threads,
                       bool low_latency_hint, Eigen::Allocator* allocator)
#if TF_MALLEABLE_TF_MINOR >= 21
    : executor_(this)
#endif
{
  if (num_threads < 1) {
    // TensorFlow aborts here, too.
    std::fprintf(stderr, "ThreadPool %s needs at least 1 thread, not %d\n",
                 name.c_str(), num_threads);
    std::abort();
  }
  eigen_threadpool_ =
      std::make_unique<tf_malleable::MalleablePool<EigenEnvironment>>(
          name, num_threads, low_latency_hint,
          EigenEnvironment{env, thread_options, "tf_" + name});
  underlying_threadpool_ = eigen_threadpool_.get();
  threadpool_device_ = std::make_unique<Eigen::ThreadPoolDevice>(
      underlying_threadpool_, underlying_threadpool_->NumThreads(), allocator);
}

ThreadPool::~ThreadPool() = default;

int ThreadPool::NumShardsUsedByFixedBlockSizeScheduling(int64_t total,
                                                        int64_t block_size) {
  return static_cast<int>(tf_malleable::NumFixedBlocks(
      total, block_size, underlying_threadpool_->NumThreads()));
}

void ThreadPool::ParallelForFixedBlockSizeScheduling(
    int64_t total, int64_t block_size,
    const std::function<void(int64_t, int64_t)>& fn) {
  tf_malleable::ParallelForFixedBlocks(
      underlying_threadpool_,
      tf_malleable::LimitOf(eigen_threadpool_.get(), underlying_threadpool_),
      total, block_size, fn);
}

void ThreadPool::ParallelFor(int64_t total, int64_t cost_per_unit,
                             const std::function<void(int64_t, int64_t)>& fn) {
  tf_malleable::ParallelForByCost(
      underlying_threadpool_,
      tf_malleable::LimitOf(eigen_threadpool_.get(), underlying_threadpool_),
      total, cost_per_unit, fn);
}

int ThreadPool::NumThreads() const {
  return tf_malleable::ReportedThreads(eigen_threadpool_.get(),
                                       underlying_threadpool_);
}

Eigen::ThreadPoolInterface* ThreadPool::AsEigenThreadPool() const {
  return tf_malleable::HandedOut(underlying_threadpool_);
}

#if TF_MALLEABLE_TF_MINOR >= 21
// Defined locally, as TensorFlow's would be an undefined symbol here.
ThreadPool::ThreadPoolExecutor::ThreadPoolExecutor(ThreadPool* thread_pool)
    : thread_pool_(thread_pool) {}

void ThreadPool::ThreadPoolExecutor::Execute(Task task) {
  thread_pool_->underlying_threadpool_->Schedule(
      [task = std::make_shared<Task>(std::move(task))]() {
        std::move (*task)();
      });
}
#endif

void ThreadPool::ParallelForWithWorkerId(
    int64_t total, const SchedulingParams& scheduling_params,
    const std::function<void(int64_t, int64_t, int)>& fn) {
  tf_malleable::ParallelForWithWorkerId(underlying_threadpool_, total,
                                        scheduling_params.block_size(),
                                        scheduling_params.cost_per_unit(), fn);
}

#if TF_MALLEABLE_TF_MINOR < 20
void ThreadPool::ParallelForWithWorkerId(
    int64_t total, int64_t cost_per_unit,
    const std::function<void(int64_t, int64_t, int)>& fn) {
  ParallelForWithWorkerId(total,
                          SchedulingParams(SchedulingStrategy::kAdaptive,
                                           cost_per_unit, std::nullopt),
                          fn);
}

// TensorFlow's own inlines a member of Eigen's pool, which depends on the
// layout of the pool.
void ThreadPool::SetStealPartitions(
    const std::vector<std::pair<unsigned, unsigned>>& partitions) {
  eigen_threadpool_->SetStealPartitions(partitions);
}
#endif

}  // namespace tsl::thread
