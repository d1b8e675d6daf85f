// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.

#include "cc/limits/hooks.h"

#include <algorithm>
#include <typeinfo>

#include "cc/limits/op_width.h"
#include "cc/limits/pool_registry.h"
#include "cc/limits/schedulable_cpus.h"

namespace tf_malleable {
namespace {

// Returns the number of threads for this thread's work: for an intra-op pool,
// which serves ops, the limit under which the thread's op began; for other
// pools, the limit in force.
int WidthIn(const RegisteredPool& pool) {
  return pool.kind() == PoolKind::kIntraOp ? OpWidth::Latch(pool.limit())
                                           : pool.limit();
}

}  // namespace

RegisteredPool* RegisteredPoolOf(Eigen::ThreadPoolInterface* pool) {
  // Called for every oneDNN primitive, so the cheap check comes first.
  if (typeid(*pool) == typeid(WidthView)) {
    return static_cast<WidthView*>(pool)->registered();
  }
  return dynamic_cast<RegisteredPool*>(pool);
}

// Among the callers, only oneDNN uses the intra-op pool. It divides its work by
// NumThreads(), and keeps some of the divisions in plans; see PlanKey.
Eigen::ThreadPoolInterface* HandedOut(Eigen::ThreadPoolInterface* pool) {
  RegisteredPool* const ours = RegisteredPoolOf(pool);
  return ours != nullptr && ours->kind() == PoolKind::kIntraOp
             ? ours->View(PlanWidth(WidthIn(*ours)))
             : pool;
}

// Callers size buffers by this number, which they index by the ids of
// ParallelForWithWorkerId, and choose the number of parts of their work by it.
// XLA asks its own pool while it compiles, and cuts loops into at most as many
// parts: once and for all, so the number is the highest that can ever be
// useful. A run of a loop has the intra-op pool, and uses as many threads as
// that pool's view has.
int ReportedThreads(const RegisteredPool& pool) {
  switch (pool.kind()) {
    case PoolKind::kIntraOp:
      return WidthIn(pool);
    case PoolKind::kInterOp:
      return pool.requested();
    case PoolKind::kOther:
      return pool.traits().may_grow ? MostUsefulThreads(pool.requested())
                                    : pool.requested();
  }
  return pool.requested();
}

// Callers use the id as an index into buffers, of which some have NumThreads()
// + 1, others one more than CpuWorkerThreads::num_threads, which AddDevices()
// keeps equal to the limit. The highest id is the limit, so it must exceed
// neither. A kernel that has read num_threads before the limit was raised has
// too few, so after a change the rest of an op runs on the calling thread. If
// the caller's ThreadPool wraps a view, its NumThreads() is the width of that
// view.
void ParallelForWithWorkerId(
    Eigen::ThreadPoolInterface* pool, int64_t total,
    std::optional<int64_t> block_size, std::optional<int64_t> cost_per_unit,
    const std::function<void(int64_t, int64_t, int)>& fn) {
  if (total <= 0) return;
  const RegisteredPool* const ours = RegisteredPoolOf(pool);
  int limit = pool->NumThreads();
  if (ours != nullptr) {
    limit = std::min(limit, WidthIn(*ours));
    if (ours->kind() != PoolKind::kIntraOp) {
      limit = std::min(limit, ours->requested());
    } else if (!OpWidth::LimitsAreSame()) {
      limit = 1;
    }
  }
  ParallelForWithThreadNumber(
      pool, limit, total,
      block_size ? *block_size : BlockSizeByCost(total, *cost_per_unit, limit),
      fn);
}

// Kernels pass the number of threads that their device was started with,
// meaning all of them. For at least NumThreads(), TensorFlow's Shard calls
// ParallelFor, which follows the limit; for fewer, it counts shards itself.
int ShardParallelism(int max_parallelism, Eigen::ThreadPoolInterface* workers,
                     bool deterministic) {
  const RegisteredPool* const pool = RegisteredPoolOf(workers);
  if (pool == nullptr) return max_parallelism;
  const int limit = pool->limit();
  // On a device started with one thread, 1 also means all, unless ops have to
  // be deterministic: then a kernel passes 1 to run on a single thread.
  if (limit == 1 || (max_parallelism == 1 && deterministic)) return 1;
  return max_parallelism >= std::min(limit, pool->requested())
             ? std::max(pool->capacity(), ReportedThreads(*pool))
             : max_parallelism;
}

// YNNPACK, which runs XLA's matrix products, calls this once per program to
// decide which loops are parallel. A program first run at limit 1 would never
// have a parallel loop. So the answer is the highest number of threads that can
// ever be useful. How many threads a loop uses is decided for each run, by
// other members, from the pool's view at that time.
int PlannedThreadCount(int now) {
  // 0 threads: there is no pool, and there never will be.
  if (now == 0) return 0;
  return MostUsefulThreads(now);
}

// XLA hands over other work before it runs a thunk that may block, and a thunk
// planned for several threads counts as blocking. At limit 1 it never blocks,
// as its loops run in the caller.
bool MayBlock(bool planned) {
  return planned && PoolRegistry::Get().intra_in_force() != 1;
}

}  // namespace tf_malleable
