// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// tensorflow::Shard, which most kernels that split their work by hand call.

#include "tensorflow/core/util/work_sharder.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>

#include "cc/overlay/eigen_environment.h"
#include "cc/overlay/tensorflow_functions.h"

namespace tensorflow {

// Kernels pass the number of threads their device was started with and mean
// all of them. TensorFlow's Shard runs ParallelFor, which follows the limit,
// for at least NumThreads(), and counts shards of its own for less.
void Shard(int max_parallelism, thread::ThreadPool* workers, int64_t total,
           int64_t cost_per_unit, std::function<void(int64_t, int64_t)> work) {
  const auto& tf = tf_malleable::TensorFlowFunctions::Get();
  const auto* pool = tf_malleable::OwnPool(workers->AsEigenThreadPool());
  if (pool != nullptr) {
    const int limit = pool->limit();
    // On a device started with one thread, 1 means all as well, unless ops have
    // to be deterministic: then a kernel passes it to run alone.
    const bool means_one = max_parallelism == 1 &&
                           tf.op_determinism_required != nullptr &&
                           tf.op_determinism_required();
    if (limit == 1 || means_one) {
      max_parallelism = 1;
    } else if (max_parallelism >= std::min(limit, pool->requested())) {
      max_parallelism = pool->capacity();
    }
  }
  if (tf.shard != nullptr) {
    tf.shard(max_parallelism, workers, total, cost_per_unit, std::move(work));
  } else if (total > 0) {
    work(0, total);
  }
}

}  // namespace tensorflow
