// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// A condition variable whose timeouts do not move with the wall clock.
//
// std::condition_variable's do not either, but only from glibc 2.30 on, and
// what is compiled so does not load with an older one, which TensorFlow's
// wheels support.

#ifndef TF_MALLEABLE_CC_LIMITS_EIGEN_MONOTONIC_CONDITION_H_
#define TF_MALLEABLE_CC_LIMITS_EIGEN_MONOTONIC_CONDITION_H_

#include <pthread.h>
#include <time.h>

#include <chrono>
#include <mutex>

namespace tf_malleable {

class MonotonicCondition {
 public:
  MonotonicCondition() {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&condition_, &attributes);
    pthread_condattr_destroy(&attributes);
  }
  ~MonotonicCondition() { pthread_cond_destroy(&condition_); }

  MonotonicCondition(const MonotonicCondition&) = delete;
  MonotonicCondition& operator=(const MonotonicCondition&) = delete;

  void NotifyOne() { pthread_cond_signal(&condition_); }

  void Wait(std::unique_lock<std::mutex>* lock) {
    pthread_cond_wait(&condition_, lock->mutex()->native_handle());
  }

  // Returns false if the time is over.
  bool WaitFor(std::unique_lock<std::mutex>* lock,
               std::chrono::nanoseconds duration) {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    const std::chrono::nanoseconds end = std::chrono::seconds(now.tv_sec) +
                                         std::chrono::nanoseconds(now.tv_nsec) +
                                         duration;
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(end);
    const timespec until = {seconds.count(), (end - seconds).count()};
    return pthread_cond_timedwait(&condition_, lock->mutex()->native_handle(),
                                  &until) == 0;
  }

 private:
  pthread_cond_t condition_;
};

}  // namespace tf_malleable

#endif  // TF_MALLEABLE_CC_LIMITS_EIGEN_MONOTONIC_CONDITION_H_
