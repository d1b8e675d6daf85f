// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.

#include "cc/limits/hooks.h"

#include <algorithm>
#include <typeinfo>

#include "cc/limits/pool_registry.h"

namespace tf_malleable {

LimitedPool* LimitedPoolOf(Eigen::ThreadPoolInterface* pool) {
  // Called for every oneDNN primitive, so the cheap check comes first.
  if (typeid(*pool) == typeid(PlannedPoolView)) {
    pool = static_cast<PlannedPoolView*>(pool)->pool();
  }
  return dynamic_cast<LimitedPool*>(pool);
}

// Among the callers, only oneDNN asks the intra-op pool.
Eigen::ThreadPoolInterface* HandedOut(Eigen::ThreadPoolInterface* pool) {
  LimitedPool* const ours = LimitedPoolOf(pool);
  return ours != nullptr && ours->kind() == PoolKind::kIntraOp
             ? ours->PlannedView()
             : pool;
}

// Callers use the id as an index into buffers. Some have NumThreads() + 1 of
// them, others one more than the number of threads TensorFlow was started with.
// So ids stay below the latter, and no more threads take part.
void ParallelForWithWorkerId(
    Eigen::ThreadPoolInterface* pool, int64_t total,
    std::optional<int64_t> block_size, std::optional<int64_t> cost_per_unit,
    const std::function<void(int64_t, int64_t, int)>& fn) {
  if (total <= 0) return;
  const LimitedPool* const ours = LimitedPoolOf(pool);
  const int threads = ours == nullptr
                          ? pool->NumThreads()
                          : std::min(ours->limit(), ours->requested());
  ParallelForWithThreadNumber(
      pool, threads, total,
      block_size ? *block_size
                 : BlockSizeByCost(total, *cost_per_unit, threads),
      fn);
}

// Kernels pass the number of threads that their device was started with,
// meaning all of them. For at least NumThreads(), TensorFlow's Shard calls
// ParallelFor, which follows the limit; for fewer, it counts shards itself.
int ShardParallelism(int max_parallelism, Eigen::ThreadPoolInterface* workers,
                     bool deterministic) {
  const LimitedPool* const pool = LimitedPoolOf(workers);
  if (pool == nullptr) return max_parallelism;
  const int limit = pool->limit();
  // On a device started with one thread, 1 also means all, unless ops have to
  // be deterministic: then a kernel passes 1 to run on a single thread.
  if (limit == 1 || (max_parallelism == 1 && deterministic)) return 1;
  return max_parallelism >= std::min(limit, pool->requested())
             ? pool->capacity()
             : max_parallelism;
}

// YNNPACK, which runs XLA's matrix products, calls this once per program to
// decide which loops are parallel. A program first run at limit 1 would never
// have a parallel loop. So the answer is the highest number of threads that can
// ever be useful, as for oneDNN (PlannedPoolView). How many threads a loop uses
// is decided for each run, by other members, from the pool's view at that time.
int PlannedThreadCount(int now) {
  // 0 threads: there is no pool, and there never will be.
  if (now == 0) return 0;
  return std::max(now, std::min(PoolRegistry::Get().max_threads(), HostCpus()));
}

// XLA hands over other work before it runs a thunk that may block, and a thunk
// planned for several threads counts as blocking. At limit 1 it never blocks,
// as its loops run in the caller.
bool MayBlock(bool planned) {
  return planned && PoolRegistry::Get().GetLimits().intra != 1;
}

}  // namespace tf_malleable
