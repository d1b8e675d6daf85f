// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// Parallel loops that split their work by the limit of a pool.
//
// Thread-safety: all functions may be called from any thread while the
// pool exists.

#ifndef TF_MALLEABLE_CC_LIMITS_PARALLEL_FOR_H_
#define TF_MALLEABLE_CC_LIMITS_PARALLEL_FOR_H_

#include <cstdint>
#include <functional>

#include "unsupported/Eigen/CXX11/ThreadPool"

namespace tf_malleable {

// The number of blocks of `block_size` into which [0, total) is split on a pool
// of `threads`. Callers may size buffers by it before the loop runs, so it must
// not depend on the limit, which may change meanwhile.
int64_t NumFixedBlocks(int64_t total, int64_t block_size, int threads);

// Calls fn(begin, end) for each block of `block_size` of [0, total), of which
// the last may be smaller, on at most `limit` threads of the pool. At limit 1,
// the caller runs all blocks; with at most `limit` + 1 blocks, it runs one. The
// number of blocks is NumFixedBlocks() for pool->NumThreads(); if it is 1,
// calls fn(0, total). Blocks until all calls have returned.
//
// A caller that is one of the pool's threads counts towards `limit`. It waits
// only for blocks that have begun, never for a queued task. So the loop
// completes even if all of the pool's threads run such loops, and whatever the
// limit becomes.
void ParallelForFixedBlocks(Eigen::ThreadPoolInterface* pool, int limit,
                            int64_t total, int64_t block_size,
                            const std::function<void(int64_t, int64_t)>& fn);

// Like ParallelForFixedBlocks, but also passes to each call the number of its
// thread: 0 is the caller, which may run no block, and 1 … limit are the
// others. Calls with the same number never overlap. The number of blocks is
// NumFixedBlocks() for `limit`.
void ParallelForWithThreadNumber(
    Eigen::ThreadPoolInterface* pool, int limit, int64_t total,
    int64_t block_size, const std::function<void(int64_t, int64_t, int)>& fn);

// The block size for `total` units of `cost_per_unit` cycles on `threads`
// threads: each block is worth a task, and there are a few more than threads.
int64_t BlockSizeByCost(int64_t total, int64_t cost_per_unit, int threads);

// Eigen's parallelFor with `cost_per_unit` cycles for each unit of [0, total),
// as on a pool of `limit` threads.
void ParallelForByCost(Eigen::ThreadPoolInterface* pool, int limit,
                       int64_t total, int64_t cost_per_unit,
                       const std::function<void(int64_t, int64_t)>& fn);

}  // namespace tf_malleable

#endif  // TF_MALLEABLE_CC_LIMITS_PARALLEL_FOR_H_
