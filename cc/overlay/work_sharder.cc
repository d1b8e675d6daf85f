// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// tensorflow::Shard, called by most kernels that split their work themselves.

#include "tensorflow/core/util/work_sharder.h"

#include <cstdint>
#include <functional>
#include <utility>

#include "cc/limits/hooks.h"
#include "cc/overlay/tensorflow_functions.h"

namespace tensorflow {

void Shard(int max_parallelism, thread::ThreadPool* workers, int64_t total,
           int64_t cost_per_unit, std::function<void(int64_t, int64_t)> work) {
  const auto& tf = tf_malleable::TensorFlowFunctions::Get();
  const bool deterministic =
      tf.op_determinism_required != nullptr && tf.op_determinism_required();
  max_parallelism = tf_malleable::ShardParallelism(
      max_parallelism, workers->AsEigenThreadPool(), deterministic);
  if (tf.shard != nullptr) {
    tf.shard(max_parallelism, workers, total, cost_per_unit, std::move(work));
  } else if (total > 0) {
    work(0, total);
  }
}

}  // namespace tensorflow
