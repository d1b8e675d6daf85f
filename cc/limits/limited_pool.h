// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// The interface of a thread pool with a limit, as the registry uses it.

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
  // The number of workers the pool was built with.
  virtual int capacity() const = 0;
  // The number of threads TensorFlow asked for: the limit until one is set.
  virtual int requested() const = 0;
  virtual int limit() const = 0;
  // Does not block. REQUIRES: 1 <= limit <= capacity()
  virtual void SetLimit(int limit) = 0;
  // True if no worker above the limit is running a task.
  virtual bool Settled() const = 0;
  // A view of the pool with this limit. REQUIRES: 1 <= limit <= capacity()
  virtual Eigen::ThreadPoolInterface* View(int limit) const = 0;
  // A view for libraries that plan ahead; see PlannedPoolView.
  virtual Eigen::ThreadPoolInterface* PlannedView() = 0;
  // Returns all of PoolStats except the id.
  virtual PoolStats Stats() const = 0;
};

}  // namespace tf_malleable

#endif  // TF_MALLEABLE_CC_LIMITS_LIMITED_POOL_H_
