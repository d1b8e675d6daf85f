// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.

#include "cc/limits/hooks.h"

#include <algorithm>
#include <typeinfo>

#include "cc/limits/pool_registry.h"

namespace tf_malleable {

LimitedPool* LimitedPoolOf(Eigen::ThreadPoolInterface* pool) {
  // Asked for with every oneDNN primitive, so the cheap question comes first.
  if (typeid(*pool) == typeid(PlannedPoolView)) {
    pool = static_cast<PlannedPoolView*>(pool)->pool();
  }
  return dynamic_cast<LimitedPool*>(pool);
}

// Of those who ask, oneDNN asks the intra-op pool.
Eigen::ThreadPoolInterface* HandedOut(Eigen::ThreadPoolInterface* pool) {
  LimitedPool* const ours = LimitedPoolOf(pool);
  return ours != nullptr && ours->kind() == PoolKind::kIntraOp
             ? ours->PlannedView()
             : pool;
}

// Callers index buffers by the id. Some have NumThreads() + 1 of them, others
// only one more than the threads TensorFlow was started with, so there are no
// more ids than that, and no more threads take part.
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

// Kernels pass the number of threads their device was started with and mean all
// of them. TensorFlow's Shard runs ParallelFor, which follows the limit, for at
// least NumThreads(), and counts shards of its own for less.
int ShardParallelism(int max_parallelism, Eigen::ThreadPoolInterface* workers,
                     bool deterministic) {
  const LimitedPool* const pool = LimitedPoolOf(workers);
  if (pool == nullptr) return max_parallelism;
  const int limit = pool->limit();
  // On a device started with one thread, 1 means all as well, unless ops have
  // to be deterministic: then a kernel passes it to run alone.
  if (limit == 1 || (max_parallelism == 1 && deterministic)) return 1;
  return max_parallelism >= std::min(limit, pool->requested())
             ? pool->capacity()
             : max_parallelism;
}

// YNNPACK, which runs XLA's matrix products, asks once per program, when it
// decides which loops are parallel. A program first run at limit 1 would have
// no parallel loop ever after, so the answer is the most threads it will ever
// pay to use, as for oneDNN (PlannedPoolView). How many threads a loop then
// uses is decided anew for each run, by other members, from the view of the
// pool that the run is given.
int PlannedThreadCount(int now) {
  // Without threads there is no pool behind it, and never will be.
  if (now == 0) return 0;
  return std::max(now, std::min(PoolRegistry::Get().max_threads(), HostCpus()));
}

// XLA hands work on before a thunk that may wait for other threads, and a
// thunk planned for several counts as one for good. At limit 1 it waits for
// nobody: its loops run in the caller.
bool MayBlock(bool planned) {
  return planned && PoolRegistry::Get().GetLimits().intra != 1;
}

}  // namespace tf_malleable
