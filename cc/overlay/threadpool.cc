// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// The members of tsl::thread::ThreadPool that the overlay defines in
// TensorFlow's place. A pool that wraps a user's own threads has no
// eigen_threadpool_ and keeps TensorFlow's behaviour.

#define EIGEN_USE_THREADS

#include "xla/tsl/platform/threadpool.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cc/limits/parallel_for.h"
#include "cc/overlay/eigen_environment.h"
#include "unsupported/Eigen/CXX11/Tensor"

namespace tsl::thread {
namespace {

// The limit of a pool of ours, or the number of threads of a user's.
int LimitOf(const Eigen::ThreadPoolTempl<EigenEnvironment>* ours,
            const Eigen::ThreadPoolInterface* pool) {
  if (ours == nullptr) return pool->NumThreads();
  return static_cast<const tf_malleable::TensorFlowPool*>(ours)->limit();
}

}  // namespace

ThreadPool::ThreadPool(Env* env, const ThreadOptions& thread_options,
                       const std::string& name, int num_threads,
                       bool low_latency_hint, Eigen::Allocator* allocator)
#if TF_MALLEABLE_TF_MINOR >= 21
    : executor_(this)
#endif
{
  if (num_threads < 1) {
    // TensorFlow too ends the process here.
    std::fprintf(stderr, "ThreadPool %s needs at least 1 thread, not %d\n",
                 name.c_str(), num_threads);
    std::abort();
  }
  eigen_threadpool_ = std::make_unique<tf_malleable::TensorFlowPool>(
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
      total, block_size,
      LimitOf(eigen_threadpool_.get(), underlying_threadpool_)));
}

void ThreadPool::ParallelForFixedBlockSizeScheduling(
    int64_t total, int64_t block_size,
    const std::function<void(int64_t, int64_t)>& fn) {
  tf_malleable::ParallelForFixedBlocks(
      underlying_threadpool_,
      LimitOf(eigen_threadpool_.get(), underlying_threadpool_), total,
      block_size, fn);
}

void ThreadPool::ParallelFor(int64_t total, int64_t cost_per_unit,
                             const std::function<void(int64_t, int64_t)>& fn) {
  tf_malleable::ParallelForByCost(
      underlying_threadpool_,
      LimitOf(eigen_threadpool_.get(), underlying_threadpool_), total,
      cost_per_unit, fn);
}

// Of those who ask, oneDNN asks the intra-op pool.
Eigen::ThreadPoolInterface* ThreadPool::AsEigenThreadPool() const {
  auto* const pool = tf_malleable::OwnPool(underlying_threadpool_);
  return pool != nullptr && pool->kind() == tf_malleable::PoolKind::kIntraOp
             ? pool->PlannedView()
             : underlying_threadpool_;
}

#if TF_MALLEABLE_TF_MINOR >= 21
// Local to the overlay: TensorFlow's own would be an undefined symbol here.
ThreadPool::ThreadPoolExecutor::ThreadPoolExecutor(ThreadPool* thread_pool)
    : thread_pool_(thread_pool) {}

void ThreadPool::ThreadPoolExecutor::Execute(Task task) {
  thread_pool_->underlying_threadpool_->Schedule(
      [task = std::make_shared<Task>(std::move(task))]() {
        std::move (*task)();
      });
}
#endif

// Callers index buffers by the id. Some have NumThreads() + 1 of them, others
// only one more than the threads TensorFlow was started with, so there are no
// more ids than that, and no more threads take part.
void ThreadPool::ParallelForWithWorkerId(
    int64_t total, const SchedulingParams& scheduling_params,
    const std::function<void(int64_t, int64_t, int)>& fn) {
  if (total <= 0) return;
  const auto* pool = tf_malleable::OwnPool(underlying_threadpool_);
  const int threads = pool == nullptr
                          ? underlying_threadpool_->NumThreads()
                          : std::min(pool->limit(), pool->requested());
  const int64_t block_size =
      scheduling_params.strategy() == SchedulingStrategy::kFixedBlockSize
          ? *scheduling_params.block_size()
          : tf_malleable::BlockSizeByCost(
                total, *scheduling_params.cost_per_unit(), threads);
  tf_malleable::ParallelForWithThreadNumber(underlying_threadpool_, threads,
                                            total, block_size, fn);
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

// An inlined member of Eigen's pool that knows its layout.
void ThreadPool::SetStealPartitions(
    const std::vector<std::pair<unsigned, unsigned>>& partitions) {
  eigen_threadpool_->SetStealPartitions(partitions);
}
#endif

}  // namespace tsl::thread
