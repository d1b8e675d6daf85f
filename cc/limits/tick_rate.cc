// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.

#include "cc/limits/tick_rate.h"

#include <chrono>
#include <thread>

#include "cc/limits/eigen/worker_records.h"

namespace tf_malleable {
namespace {

struct Instant {
  uint64_t ticks = Ticks();
  std::chrono::steady_clock::time_point time = std::chrono::steady_clock::now();
};

const Instant loaded;

}  // namespace

double TicksToSeconds(uint64_t ticks) {
  // Over a shorter time, the error of the rate would exceed 0.1 %.
  constexpr std::chrono::milliseconds kShortestStretch{1};
  if (std::chrono::steady_clock::now() - loaded.time < kShortestStretch) {
    std::this_thread::sleep_for(kShortestStretch);
  }
  const Instant now;
  const std::chrono::duration<double> elapsed = now.time - loaded.time;
  return static_cast<double>(ticks) * elapsed.count() /
         static_cast<double>(now.ticks - loaded.ticks);
}

}  // namespace tf_malleable
