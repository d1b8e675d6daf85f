// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.

#define EIGEN_USE_THREADS

#include "cc/limits/parallel_for.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>

#include "cc/limits/eigen/worker_records.h"
#include "unsupported/Eigen/CXX11/Tensor"

namespace tf_malleable {
namespace {

// The blocks of one loop. Shared with helper tasks: those that start after the
// loop has returned find no block left, and must not use `fn`, which is gone.
class BlockLoop : public std::enable_shared_from_this<BlockLoop> {
 public:
  BlockLoop(Eigen::ThreadPoolInterface* pool, int threads, int first_number,
            int64_t total, int64_t block_size, int64_t blocks,
            const std::function<void(int64_t, int64_t, int)>* fn)
      : pool_(pool),
        threads_(threads),
        first_number_(first_number),
        total_(total),
        block_size_(block_size),
        blocks_(blocks),
        fn_(fn) {}

  // Runs blocks as thread `index` of the loop. Each thread starts two more, so
  // that no single thread has to start them all.
  void Run(int index) {
    for (int child = 2 * index + 1; child <= 2 * index + 2; ++child) {
      if (child >= threads_ || next_.load(std::memory_order_relaxed) >= blocks_)
        break;
      pool_->Schedule([loop = shared_from_this(), child] { loop->Run(child); });
    }
    int64_t done = 0;
    for (;;) {
      const int64_t block = next_.fetch_add(1, std::memory_order_relaxed);
      if (block >= blocks_) break;
      const int64_t begin = block * block_size_;
      (*fn_)(begin, std::min(begin + block_size_, total_),
             first_number_ + index);
      ++done;
    }
    if (done == 0) return;
    std::lock_guard<std::mutex> lock(done_mu_);
    done_ += done;
    if (done_ == blocks_) all_done_.notify_all();
  }

  void Wait() {
    std::unique_lock<std::mutex> lock(done_mu_);
    all_done_.wait(lock, [this] { return done_ == blocks_; });
  }

 private:
  Eigen::ThreadPoolInterface* const pool_;
  const int threads_;
  const int first_number_;
  const int64_t total_;
  const int64_t block_size_;
  const int64_t blocks_;
  const std::function<void(int64_t, int64_t, int)>* const fn_;
  // Written for each block by all threads, so kept apart from the members that
  // they only read.
  alignas(kCacheLine) std::atomic<int64_t> next_{0};
  alignas(kCacheLine) std::mutex done_mu_;  // Guards done_.
  std::condition_variable all_done_;
  int64_t done_ = 0;
};

// As in stock loops, the caller spares a thread's wake-up by doing a block
// itself, unless each thread has several: then it would be one thread too many.
// REQUIRES: blocks >= 2
void RunBlocks(Eigen::ThreadPoolInterface* pool, int limit, int64_t total,
               int64_t block_size, int64_t blocks,
               const std::function<void(int64_t, int64_t, int)>& fn) {
  const bool caller_counts = limit == 1 || pool->CurrentThreadId() >= 0;
  const bool caller_helps = !caller_counts && blocks <= limit + 1;
  const bool has_caller = caller_counts || caller_helps;
  const int threads = limit + (caller_helps ? 1 : 0);
  // Kernels clear the buffers of all numbers before the loop, the caller's
  // first: it is the one that the CPU's caches are likeliest to have dropped
  // since.
  const auto loop = std::make_shared<BlockLoop>(
      pool, static_cast<int>(std::min<int64_t>(threads, blocks)),
      has_caller ? 0 : 1, total, block_size, blocks, &fn);
  if (has_caller) {
    loop->Run(0);
  } else {
    pool->Schedule([loop] { loop->Run(0); });
  }
  loop->Wait();
}

}  // namespace

int64_t NumFixedBlocks(int64_t total, int64_t block_size, int threads) {
  if (block_size <= 0 || total <= 1 || total <= block_size || threads == 1) {
    return 1;
  }
  return (total + block_size - 1) / block_size;
}

void ParallelForWithThreadNumber(
    Eigen::ThreadPoolInterface* pool, int limit, int64_t total,
    int64_t block_size, const std::function<void(int64_t, int64_t, int)>& fn) {
  const int64_t blocks = NumFixedBlocks(total, block_size, limit);
  if (blocks == 1) {
    fn(0, total, 0);
  } else {
    RunBlocks(pool, limit, total, block_size, blocks, fn);
  }
}

void ParallelForFixedBlocks(Eigen::ThreadPoolInterface* pool, int limit,
                            int64_t total, int64_t block_size,
                            const std::function<void(int64_t, int64_t)>& fn) {
  const int64_t blocks = NumFixedBlocks(total, block_size, pool->NumThreads());
  if (blocks == 1) {
    fn(0, total);
  } else {
    RunBlocks(pool, limit, total, block_size, blocks,
              [&fn](int64_t begin, int64_t end, int) { fn(begin, end); });
  }
}

int64_t BlockSizeByCost(int64_t total, int64_t cost_per_unit, int threads) {
  using CostModel = Eigen::TensorCostModel<Eigen::ThreadPoolDevice>;
  constexpr int kBlocksPerThread = 4;  // The most in Eigen's parallelFor.
  const Eigen::TensorOpCost cost(0, 0, static_cast<double>(cost_per_unit));
  const int64_t useful =
      CostModel::numThreads(static_cast<double>(total), cost, threads);
  const int64_t blocks = useful == 1 ? 1 : kBlocksPerThread * useful;
  return std::max<int64_t>(1, (total + blocks - 1) / blocks);
}

void ParallelForByCost(Eigen::ThreadPoolInterface* pool, int limit,
                       int64_t total, int64_t cost_per_unit,
                       const std::function<void(int64_t, int64_t)>& fn) {
  const Eigen::ThreadPoolDevice device(pool, limit);
  device.parallelFor(
      total, Eigen::TensorOpCost(0, 0, static_cast<double>(cost_per_unit)),
      [&fn](Eigen::Index begin, Eigen::Index end) { fn(begin, end); });
}

}  // namespace tf_malleable
