// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// Kind of a pool: its use by TensorFlow, as its name shows.

#ifndef TF_MALLEABLE_CC_LIMITS_POOL_KIND_H_
#define TF_MALLEABLE_CC_LIMITS_POOL_KIND_H_

#include <string>

namespace tf_malleable {

enum class PoolKind {
  kIntraOp = 0,  // Threads inside one op.
  kInterOp = 1,  // Ops run side by side.
  kOther = 2,    // Everything else; follows the intra-op limit.
};

// Traits of a pool, which follow from its name.
struct PoolTraits {
  PoolKind kind = PoolKind::kOther;

  // True if TensorFlow sizes the pool by the number of CPUs, so that it may
  // grow with the limit. Other pools may depend on their size: with one thread,
  // tasks run in order.
  bool may_grow = false;

  // The NUMA node that the pool works for; -1 if it works for all.
  int numa_node = -1;
};

// Returns the traits of a pool. `name` is its name in TensorFlow, without the
// "tf_" that begins the names of its threads. Thread-safety: a pure function.
PoolTraits TraitsOf(const std::string& name);

}  // namespace tf_malleable

#endif  // TF_MALLEABLE_CC_LIMITS_POOL_KIND_H_
