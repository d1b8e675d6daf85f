// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// The members of tensorflow::DeviceBase that the overlay defines in
// TensorFlow's place. A device hands each kernel an Eigen device that splits
// the kernel's work; TensorFlow keeps one for each number of threads.

#define EIGEN_USE_THREADS

#include "tensorflow/core/framework/device_base.h"

#include <algorithm>
#include <typeinfo>

#include "cc/limits/limited_pool_view.h"
#include "cc/overlay/eigen_environment.h"
#include "cc/overlay/tensorflow_functions.h"
#include "unsupported/Eigen/CXX11/Tensor"

namespace tensorflow {

void DeviceBase::set_eigen_cpu_device(Eigen::ThreadPoolDevice* d) {
  const auto* pool = tf_malleable::OwnPool(d->getPool());
  const int most = pool == nullptr ? d->numThreads() : pool->capacity();
  for (int n = 1; n <= most; ++n) {
    Eigen::ThreadPoolInterface* const threads =
        pool == nullptr ? d->getPool() : pool->View(n);
    // DeviceBase's destructor deletes them.
    eigen_cpu_devices_.push_back(
        std::make_unique<Eigen::ThreadPoolDevice>(threads, n, d->allocator())
            .release());
  }
}

const Eigen::ThreadPoolDevice* DeviceBase::eigen_cpu_device() {
  int parallelism = static_cast<int>(eigen_cpu_devices_.size());
  const Eigen::ThreadPoolInterface& pool = *eigen_cpu_devices_[0]->getPool();
  if (typeid(pool) == typeid(tf_malleable::LimitedPoolView)) {
    parallelism =
        static_cast<const tf_malleable::PoolView&>(pool).limits().limit();
  }
  const auto& tf = tf_malleable::TensorFlowFunctions::Get();
  if (tf.per_thread_max_parallelism != nullptr) {
    parallelism = std::min(parallelism, tf.per_thread_max_parallelism());
  }
  return eigen_cpu_devices_[std::max(parallelism, 1) - 1];
}

}  // namespace tensorflow
