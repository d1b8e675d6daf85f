// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// All live pools of this process, and the limits set for them.

#ifndef TF_MALLEABLE_CC_LIMITS_POOL_REGISTRY_H_
#define TF_MALLEABLE_CC_LIMITS_POOL_REGISTRY_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "cc/limits/pool_kind.h"
#include "cc/limits/registered_pool.h"

namespace tf_malleable {

// The result of a call that may be refused.
enum class Outcome { kDone, kNoChange, kOutOfRange, kNoSuchPool, kTimedOut };

// The limits of this process; 0 means "none" in each field.
struct Limits {
  int intra = 0;  // Intra-op limit in force.
  int inter = 0;
  int intra_set = 0;  // Set by SetLimits; 0 if pools run as requested.
  int inter_set = 0;
  int intra_max = 0;  // Highest limit that SetLimits accepts.
  int inter_max = 0;
};

// Thread-safety: all methods may be called from any thread. After fork(), the
// child has an empty registry, as no worker survives in it.
class PoolRegistry {
 public:
  static constexpr int kKeep = -1;  // Leave this limit unchanged.
  static constexpr int kUnset = 0;  // Restore what TensorFlow requested.
  // Highest number of threads that TF_MALLEABLE_MAX_THREADS may set.
  static constexpr int kMaxThreadsCeiling = 1024;

  // The registry of this process. It is never destroyed, as pools may outlive
  // static destructors.
  static PoolRegistry& Get();

  // The same, or null before the first Get(), which reads the environment.
  static PoolRegistry* IfCreated() {
    return created_.load(std::memory_order_acquire);
  }

  // `max_threads` is the capacity of pools that may grow. Only for tests;
  // other code uses Get().
  explicit PoolRegistry(int max_threads) : max_threads_(max_threads) {}

  int max_threads() const { return max_threads_; }

  // Capacity and first limit of a pool for which TensorFlow requests
  // `requested` threads.
  int CapacityFor(const PoolTraits& traits, int requested) const;
  int FirstLimitFor(const PoolTraits& traits, int requested) const;

  // A pool registers itself once it is built, and unregisters before it is
  // destroyed. Its methods are called with the registry locked.
  void Register(RegisteredPool* pool);
  void Unregister(RegisteredPool* pool);

  // Sets the limits of all pools, present and future, each up to the pool's
  // capacity. Each argument is kKeep, kUnset or a limit.
  Outcome SetLimits(int intra, int inter);

  // Sets the limit of one pool until the next SetLimits for its kind.
  Outcome SetPoolLimit(uint64_t id, int limit);

  // Keeps `*threads` equal to the limit of a live pool, which it must outlive.
  void TellLimit(RegisteredPool* pool, int* threads);

  Limits GetLimits() const;
  std::vector<PoolStats> Stats() const;

  // A number that is odd while the limit of a pool is being changed, and higher
  // afterwards. It is that of all registries. Takes no lock.
  static uint64_t changes() { return changes_.load(std::memory_order_seq_cst); }

  // The intra-op limit in force; 0 if there is no pool and none is set. Takes
  // no lock.
  int intra_in_force() const {
    return intra_in_force_.load(std::memory_order_relaxed);
  }

  // Whether an intra-op limit is set. Takes no lock.
  bool intra_is_set() const {
    return intra_is_set_.load(std::memory_order_relaxed);
  }

  // Returns kDone as soon as no pool runs more workers than its limit, or
  // kTimedOut after `timeout`.
  Outcome WaitSettled(std::chrono::duration<double> timeout) const;

  // Handlers for pthread_atfork.
  void LockForFork() { mu_.lock(); }
  void UnlockAfterFork() { mu_.unlock(); }
  void ResetInChild();

 private:
  // REQUIRES: mu_ held, for all of these.
  int MaxFor(PoolKind kind) const;
  int InForce(PoolKind kind, int set) const;

  // Returns the limit of a pool: the limit set for its kind, at most the pool's
  // capacity; if none is set, the number of threads that TensorFlow requested.
  // Pools that each work for one NUMA node share the limit.
  int LimitFor(const RegisteredPool& pool) const;

  // Sets the limit of a pool, and counts it in changes().
  static void Change(RegisteredPool* pool, int limit);

  // Gives a pool the limit of its kind; returns false if the pool had that
  // limit already.
  bool UpdateLimit(RegisteredPool* pool);

  // Shares the limit out among the pools of NUMA nodes anew, after one of them
  // was registered or unregistered.
  void Rebalance();
  // Updates what is read without a lock, after the set of pools or a limit has
  // changed.
  void UpdateInForce();

  bool Settled() const;  // Takes mu_.

  static inline std::atomic<PoolRegistry*> created_{nullptr};
  static inline std::atomic<uint64_t> changes_{0};

  const int max_threads_;

  mutable std::mutex mu_;  // Guards all that follows, and the pools' lifetime.
  uint64_t next_id_ = 1;
  std::map<uint64_t, RegisteredPool*> pools_;
  int intra_set_ = kUnset;
  int inter_set_ = kUnset;
  std::atomic<int> intra_in_force_{0};     // Written with mu_ held.
  std::atomic<bool> intra_is_set_{false};  // Written with mu_ held.
};

// Returns the number of the host's CPUs, whether or not this process may use
// them. Thread-safe.
int HostCpus();

}  // namespace tf_malleable

#endif  // TF_MALLEABLE_CC_LIMITS_POOL_REGISTRY_H_
