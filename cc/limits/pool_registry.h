// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// All live pools of this process and the limits set for them.

#ifndef TF_MALLEABLE_CC_LIMITS_POOL_REGISTRY_H_
#define TF_MALLEABLE_CC_LIMITS_POOL_REGISTRY_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "cc/limits/limited_pool.h"

namespace tf_malleable {

// The outcome of a call that may be refused.
enum class Outcome { kDone, kNoChange, kOutOfRange, kNoSuchPool, kTimedOut };

// Limits as a process sees them; 0 stands for "none" in each field.
struct Limits {
  int intra = 0;  // In force.
  int inter = 0;
  int intra_set = 0;  // Set by SetLimits; 0 while pools run as requested.
  int inter_set = 0;
  int intra_max = 0;  // The highest SetLimits accepts.
  int inter_max = 0;
};

// Thread-safety: all methods may be called from any thread. After fork() the
// child starts with an empty registry, since no worker survives in it.
class PoolRegistry {
 public:
  static constexpr int kKeep = -1;  // Leave this limit as it is.
  static constexpr int kUnset = 0;  // Back to what TensorFlow requested.
  static constexpr int kMaxThreadsCeiling = 1024;

  // The registry of this process, which is never destroyed: pools may outlive
  // static destructors.
  static PoolRegistry& Get();

  // `max_threads` is the capacity of pools that may grow. For tests; everybody
  // else uses Get().
  explicit PoolRegistry(int max_threads) : max_threads_(max_threads) {}

  int max_threads() const { return max_threads_; }

  // Capacity and first limit for a pool TensorFlow wants with `requested`
  // threads. Only pools TensorFlow sizes by the number of CPUs may grow; a pool
  // of a size of its own may depend on it, one of 1 for the order of its tasks.
  int CapacityFor(const std::string& name, PoolKind kind, int requested) const;
  int FirstLimitFor(PoolKind kind, int requested, int capacity) const;

  // A pool registers itself once built and unregisters before it goes away;
  // in between its methods are called with the registry locked.
  void Register(LimitedPool* pool);
  void Unregister(LimitedPool* pool);

  // Sets the limits of all pools, present and future; each pool takes as much
  // of it as its capacity allows. Each argument is kKeep, kUnset or a limit.
  Outcome SetLimits(int intra, int inter);

  // Sets the limit of one pool until the next SetLimits for its kind.
  Outcome SetPoolLimit(uint64_t id, int limit);

  Limits GetLimits() const;
  std::vector<PoolStats> Stats() const;

  // Returns kDone as soon as no pool runs more workers than its limit, or
  // kTimedOut after `timeout`.
  Outcome WaitSettled(std::chrono::duration<double> timeout) const;

  // For pthread_atfork.
  void LockForFork() { mu_.lock(); }
  void UnlockAfterFork() { mu_.unlock(); }
  void ResetInChild();

 private:
  int MaxFor(PoolKind kind) const;            // REQUIRES: mu_ held.
  int InForce(PoolKind kind, int set) const;  // REQUIRES: mu_ held.

  // The rule: a limit that is set, as far as the capacity allows; else what
  // TensorFlow requested. REQUIRES: mu_ held.
  int LimitFor(PoolKind kind, int requested, int capacity) const;

  // Brings a pool to the limit of its kind; false if it had it already.
  // REQUIRES: mu_ held.
  bool UpdateLimit(LimitedPool* pool);
  bool Settled() const;

  const int max_threads_;

  mutable std::mutex mu_;  // Guards all below, and the pools' lifetime.
  uint64_t next_id_ = 1;
  std::map<uint64_t, LimitedPool*> pools_;
  int intra_set_ = kUnset;
  int inter_set_ = kUnset;
};

// CPUs of the host, whether or not this process may use them now.
int HostCpus();

// The kind of a pool, by the name TensorFlow gives it ("Compute", say).
PoolKind KindOf(const std::string& name);

}  // namespace tf_malleable

#endif  // TF_MALLEABLE_CC_LIMITS_POOL_REGISTRY_H_
