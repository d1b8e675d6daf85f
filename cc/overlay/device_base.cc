// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// The members of tensorflow::DeviceBase that the overlay replaces. A device
// gives each kernel an Eigen device, which splits the kernel's work. TensorFlow
// keeps one Eigen device for each number of threads.

#define EIGEN_USE_THREADS

#include "tensorflow/core/framework/device_base.h"

#include <algorithm>

#include "cc/limits/hooks.h"
#include "cc/overlay/tensorflow_functions.h"
#include "unsupported/Eigen/CXX11/Tensor"

namespace tensorflow {

void DeviceBase::set_eigen_cpu_device(Eigen::ThreadPoolDevice* d) {
  // DeviceBase's destructor deletes them.
  tf_malleable::AddDevices(*d, cpu_worker_threads_, &eigen_cpu_devices_);
}

const Eigen::ThreadPoolDevice* DeviceBase::eigen_cpu_device() {
  int parallelism = tf_malleable::DevicesInUse(eigen_cpu_devices_);
  const auto& tf = tf_malleable::TensorFlowFunctions::Get();
  if (tf.per_thread_max_parallelism != nullptr) {
    parallelism = std::min(parallelism, tf.per_thread_max_parallelism());
  }
  return eigen_cpu_devices_[std::max(parallelism, 1) - 1];
}

}  // namespace tensorflow
