// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// What TensorFlow uses a pool for, as its name tells.

#ifndef TF_MALLEABLE_CC_LIMITS_POOL_KIND_H_
#define TF_MALLEABLE_CC_LIMITS_POOL_KIND_H_

#include <string>

namespace tf_malleable {

enum class PoolKind {
  kIntraOp = 0,  // Threads inside one op.
  kInterOp = 1,  // Ops run side by side.
  kOther = 2,    // Everything else; follows the intra-op limit.
};

// What follows from the name of a pool.
struct PoolTraits {
  PoolKind kind = PoolKind::kOther;

  // True if TensorFlow sizes the pool by the number of CPUs, so that it may
  // grow with the limit. Other pools may depend on their size: with one thread,
  // tasks run in order.
  bool may_grow = false;

  // The NUMA node that the pool works for; -1 if it works for all.
  int numa_node = -1;
};

// `name` is what TensorFlow gives the pool, without the "tf_" of its threads.
PoolTraits TraitsOf(const std::string& name);

}  // namespace tf_malleable

#endif  // TF_MALLEABLE_CC_LIMITS_POOL_KIND_H_
