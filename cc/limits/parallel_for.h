// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// Parallel loops over a pool that split their work by its limit.

#ifndef TF_MALLEABLE_CC_LIMITS_PARALLEL_FOR_H_
#define TF_MALLEABLE_CC_LIMITS_PARALLEL_FOR_H_

#include <cstdint>
#include <functional>

#include "unsupported/Eigen/CXX11/ThreadPool"

namespace tf_malleable {

// Shards of `block_size` that [0, total) is split into for `limit` threads.
int64_t NumFixedBlocks(int64_t total, int64_t block_size, int limit);

// Calls fn(begin, end) for each block of `block_size` of [0, total), the last
// one perhaps smaller, on at most `limit` threads of which the caller is one.
// With one block, or limit 1, calls fn(0, total) instead. Blocks until done.
//
// Only ever waits for blocks that have begun, never for a queued task: it
// completes from within a worker too, and whatever becomes of the limit.
void ParallelForFixedBlocks(Eigen::ThreadPoolInterface* pool, int limit,
                            int64_t total, int64_t block_size,
                            const std::function<void(int64_t, int64_t)>& fn);

// As ParallelForFixedBlocks, but also gives each call the number of the thread
// it is on, among those that take part: 0 … threads - 1. Calls with the same
// number never overlap. At limit 1, `threads` is to be 1.
void ParallelForWithThreadNumber(
    Eigen::ThreadPoolInterface* pool, int threads, int64_t total,
    int64_t block_size, const std::function<void(int64_t, int64_t, int)>& fn);

// The block size with which to split `total` units of `cost_per_unit` cycles
// for `threads` threads: blocks worth a task, and some more than threads.
int64_t BlockSizeByCost(int64_t total, int64_t cost_per_unit, int threads);

// As Eigen's parallelFor with `cost_per_unit` cycles for each unit of
// [0, total), on a pool of `limit` threads.
void ParallelForByCost(Eigen::ThreadPoolInterface* pool, int limit,
                       int64_t total, int64_t cost_per_unit,
                       const std::function<void(int64_t, int64_t)>& fn);

}  // namespace tf_malleable

#endif  // TF_MALLEABLE_CC_LIMITS_PARALLEL_FOR_H_
