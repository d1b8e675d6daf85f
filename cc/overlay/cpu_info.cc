// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// The function of tsl::port that the overlay replaces.

#include "tsl/platform/cpu_info.h"

#include "cc/limits/schedulable_cpus.h"
#include "cc/overlay/tensorflow_functions.h"

namespace tsl::port {

int NumSchedulableCPUs() {
  return tf_malleable::SchedulableCpus(
      tf_malleable::TensorFlowFunctions::Get().schedulable_cpus());
}

}  // namespace tsl::port
