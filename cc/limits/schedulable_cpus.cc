// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.

#include "cc/limits/schedulable_cpus.h"

#include <algorithm>

#include "cc/limits/pool_registry.h"

namespace tf_malleable {

int MostUsefulThreads(int now) {
  return std::max(now, std::min(PoolRegistry::Get().max_threads(), HostCpus()));
}

// TensorFlow keeps what follows from this number: XLA the loops that it makes
// parallel, tf.data the most calls that it runs side by side, a pool its size.
// Whoever sets limits may also have confined the process for now, as a
// controller does. How many threads run is then decided by the limit alone. In
// a program that sets none, the affinity decides, as in stock TensorFlow.
// TensorFlow asks even while it is imported.
int SchedulableCpus(int now) {
  const PoolRegistry* const registry = PoolRegistry::IfCreated();
  return registry != nullptr && registry->intra_is_set()
             ? MostUsefulThreads(now)
             : now;
}

}  // namespace tf_malleable
