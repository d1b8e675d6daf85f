// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// What the registry needs to know of a thread pool, whatever it is made of.

#ifndef TF_MALLEABLE_CC_LIMITS_LIMITED_POOL_H_
#define TF_MALLEABLE_CC_LIMITS_LIMITED_POOL_H_

#include <cstdint>
#include <string>

namespace Eigen {
class ThreadPoolInterface;
}

namespace tf_malleable {

enum class PoolKind {
  kIntraOp = 0,  // Threads inside one op.
  kInterOp = 1,  // Ops run side by side.
  kOther = 2,    // Everything else; follows the intra-op limit.
};

// One pool at one instant.
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
class LimitedPool {
 public:
  virtual ~LimitedPool() = default;

  virtual const std::string& name() const = 0;
  virtual PoolKind kind() const = 0;
  // Workers the pool was built with.
  virtual int capacity() const = 0;
  // The limit TensorFlow asked for, which holds until somebody sets another.
  virtual int requested() const = 0;
  virtual int limit() const = 0;
  // Does not block. REQUIRES: 1 <= limit <= capacity()
  virtual void SetLimit(int limit) = 0;
  // True if no worker above the limit is running a task.
  virtual bool Settled() const = 0;
  // What the pool looks like with `limit`. REQUIRES: 1 <= limit <= capacity()
  virtual Eigen::ThreadPoolInterface* View(int limit) const = 0;
  // What it looks like to a library that plans ahead.
  virtual Eigen::ThreadPoolInterface* PlannedView() = 0;
  // Fills all of PoolStats but the id.
  virtual PoolStats Stats() const = 0;
};

}  // namespace tf_malleable

#endif  // TF_MALLEABLE_CC_LIMITS_LIMITED_POOL_H_
