// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// Hooks that make TensorFlow's functions follow the limit of a MalleablePool.
// The overlay and the patches to TensorFlow's sources call them from the same
// functions, which patches/README.md lists.
//
// In the parameters, `own` is the pool that a tsl::thread::ThreadPool owns,
// null if it wraps a pool of the user; `pool` is the pool to which it schedules
// tasks.
//
// Thread-safety: all may be called from any thread while the pool exists,
// except AddDevices, which only the owner of the list may call.

#ifndef TF_MALLEABLE_CC_LIMITS_HOOKS_H_
#define TF_MALLEABLE_CC_LIMITS_HOOKS_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <typeinfo>

#include "cc/limits/malleable_pool.h"
#include "cc/limits/parallel_for.h"
#include "cc/limits/pool_registry.h"
#include "cc/limits/registered_pool.h"
#include "cc/limits/width_view.h"
#include "unsupported/Eigen/CXX11/ThreadPool"

namespace tf_malleable {

// Returns the registered pool behind `pool`, which may be a view of it; null
// for a pool of the user.
RegisteredPool* RegisteredPoolOf(Eigen::ThreadPoolInterface* pool);

// All members of tsl::thread::ThreadPool that split work: the number of threads
// among which they split it.
template <typename Environment>
int LimitOf(const Eigen::ThreadPoolTempl<Environment>* own,
            const Eigen::ThreadPoolInterface* pool) {
  if (own == nullptr) return pool->NumThreads();
  return static_cast<const MalleablePool<Environment>*>(own)->limit();
}

// ThreadPool::AsEigenThreadPool: the pool to return instead of `pool`.
Eigen::ThreadPoolInterface* HandedOut(Eigen::ThreadPoolInterface* pool);

// ThreadPool::NumThreads: the number of threads to report.
int ReportedThreads(const RegisteredPool& pool);
template <typename Environment>
int ReportedThreads(const Eigen::ThreadPoolTempl<Environment>* own,
                    const Eigen::ThreadPoolInterface* pool) {
  if (own == nullptr) return pool->NumThreads();
  return ReportedThreads(*static_cast<const MalleablePool<Environment>*>(own));
}

// ThreadPool::ParallelForWithWorkerId: exactly one of `block_size` and
// `cost_per_unit` has a value.
void ParallelForWithWorkerId(
    Eigen::ThreadPoolInterface* pool, int64_t total,
    std::optional<int64_t> block_size, std::optional<int64_t> cost_per_unit,
    const std::function<void(int64_t, int64_t, int)>& fn);

// tensorflow::Shard: the parallelism to use instead. `deterministic` says
// whether ops have to be deterministic.
int ShardParallelism(int max_parallelism, Eigen::ThreadPoolInterface* workers,
                     bool deterministic);

// xla::cpu::SlinkyThreadPool::thread_count: the result instead of `now`.
int PlannedThreadCount(int now);

// xla::cpu::YnnFusionThunk::ExecuteMayBlock: the result instead of `planned`.
bool MayBlock(bool planned);

// tensorflow::DeviceBase::set_eigen_cpu_device: appends a device for each
// number of threads; that at index i has i + 1. The caller's list owns them.
// `workers`, which may be null, are those that the caller gives to kernels.
// Many kernels decide by its number of threads how to divide their work, so
// from now on that number is the limit.
template <typename Device, typename Workers, typename Devices>
void AddDevices(const Device& device, Workers* workers, Devices* devices) {
  RegisteredPool* const pool = RegisteredPoolOf(device.getPool());
  // Only the workers of these outlive their pools, which they own.
  if (workers != nullptr && pool != nullptr &&
      pool->kind() == PoolKind::kIntraOp) {
    PoolRegistry::Get().TellLimit(pool, &workers->num_threads);
  }
  const int most = pool == nullptr ? device.numThreads() : pool->capacity();
  for (int n = 1; n <= most; ++n) {
    Eigen::ThreadPoolInterface* const threads =
        pool == nullptr ? device.getPool() : pool->View(n);
    devices->push_back(
        std::make_unique<Device>(threads, n, device.allocator()).release());
  }
}

// tensorflow::DeviceBase::eigen_cpu_device: how many of the devices appended by
// AddDevices() may be used now.
template <typename Devices>
int DevicesInUse(const Devices& devices) {
  const int all = static_cast<int>(devices.size());
  const Eigen::ThreadPoolInterface& pool = *devices[0]->getPool();
  if (typeid(pool) != typeid(WidthView)) return all;
  return std::min(static_cast<const WidthView&>(pool).registered()->limit(),
                  all);
}

}  // namespace tf_malleable

#endif  // TF_MALLEABLE_CC_LIMITS_HOOKS_H_
