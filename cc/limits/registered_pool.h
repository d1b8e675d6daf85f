// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// RegisteredPool: the interface of a thread pool with a limit to the registry.

#ifndef TF_MALLEABLE_CC_LIMITS_REGISTERED_POOL_H_
#define TF_MALLEABLE_CC_LIMITS_REGISTERED_POOL_H_

#include <cstdint>
#include <string>

#include "cc/limits/pool_kind.h"

namespace Eigen {
class ThreadPoolInterface;
}

namespace tf_malleable {

// Statistics of one pool at one instant.
struct PoolStats {
  uint64_t id = 0;  // Never reused in a process.
  std::string name;
  PoolKind kind = PoolKind::kOther;
  int capacity = 0;
  int limit = 0;
  int active = 0;
  uint64_t queued = 0;
  uint64_t tasks = 0;
  uint64_t stand_ins = 0;
  double busy_seconds = 0;
};

// A pool whose number of active workers can be limited.
//
// Thread-safety: all methods may be called from any thread.
class RegisteredPool {
 public:
  virtual ~RegisteredPool() = default;

  PoolKind kind() const { return traits().kind; }

  virtual const std::string& name() const = 0;
  virtual const PoolTraits& traits() const = 0;
  // Number of workers that the pool can have. It drops for good if the system
  // refuses to start one; the limit then follows.
  virtual int capacity() const = 0;
  // Number of threads that TensorFlow requested: the limit until one is set.
  virtual int requested() const = 0;
  virtual int limit() const = 0;
  // Does not block. REQUIRES: 1 <= limit <= capacity()
  virtual void SetLimit(int limit) = 0;
  // Writes the limit to `*threads`, now and whenever it is set. `threads` must
  // outlive the pool. Only called with the registry locked, like SetLimit.
  virtual void TellLimit(int* threads) = 0;
  // Returns true if no worker above the limit runs a task.
  virtual bool Settled() const = 0;
  // Returns the view of the pool for work of this width. REQUIRES: 1 <= width
  virtual Eigen::ThreadPoolInterface* View(int width) const = 0;
  // Returns all of PoolStats except the id.
  virtual PoolStats Stats() const = 0;
};

}  // namespace tf_malleable

#endif  // TF_MALLEABLE_CC_LIMITS_REGISTERED_POOL_H_
