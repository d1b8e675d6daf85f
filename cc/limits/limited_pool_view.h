// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// A limited thread pool as others are to see it.

#ifndef TF_MALLEABLE_CC_LIMITS_LIMITED_POOL_VIEW_H_
#define TF_MALLEABLE_CC_LIMITS_LIMITED_POOL_VIEW_H_

#include <functional>
#include <utility>

#include "cc/limits/limited_pool.h"
#include "unsupported/Eigen/CXX11/ThreadPool"

namespace tf_malleable {

// Passes everything on to a pool; the base of what follows.
//
// Thread-safety: as the pool's. The pool must outlive the view.
class PoolView : public Eigen::ThreadPoolInterface {
 public:
  PoolView(const LimitedPool* limits, Eigen::ThreadPoolInterface* pool)
      : limits_(limits), pool_(pool) {}

  const LimitedPool& limits() const { return *limits_; }
  Eigen::ThreadPoolInterface* pool() const { return pool_; }

  void Schedule(std::function<void()> fn) override {
    pool_->Schedule(std::move(fn));
  }
  void ScheduleWithHint(std::function<void()> fn, int start,
                        int limit) override {
    pool_->ScheduleWithHint(std::move(fn), start, limit);
  }
  void Cancel() override { pool_->Cancel(); }
  int NumThreads() const override { return pool_->NumThreads(); }
  int CurrentThreadId() const override { return pool_->CurrentThreadId(); }

 private:
  const LimitedPool* const limits_;
  Eigen::ThreadPoolInterface* const pool_;
};

// The pool with a given limit, which it reports as its number of threads. Code
// that splits work by NumThreads() then splits it by the limit. A view never
// changes, so code that asks twice gets one answer; after a limit change
// callers are handed another view.
//
// CurrentThreadId() may be above NumThreads() while the limit falls. Of the
// callers TensorFlow hands a view to, none uses it as an index.
class LimitedPoolView final : public PoolView {
 public:
  LimitedPoolView(const LimitedPool* limits, Eigen::ThreadPoolInterface* pool,
                  int limit)
      : PoolView(limits, pool), limit_(limit) {}

  int NumThreads() const override { return limit_; }

 private:
  const int limit_;
};

// The pool for a library that plans a kernel once, for a number of threads it
// must never exceed, and runs the plan many times: oneDNN. That number is the
// most threads it will ever pay to use, whatever the limit is now. A plan for
// more threads than the limit runs as so many tasks on fewer workers.
//
// At limit 1 every caller is told that it is on a worker already, which makes
// oneDNN run the tasks there and then instead of on the one worker there is.
class PlannedPoolView final : public PoolView {
 public:
  PlannedPoolView(const LimitedPool* limits, Eigen::ThreadPoolInterface* pool,
                  int threads)
      : PoolView(limits, pool), threads_(threads) {}

  int NumThreads() const override { return threads_; }
  int CurrentThreadId() const override {
    const int id = PoolView::CurrentThreadId();
    return id < 0 && limits().limit() == 1 ? 0 : id;
  }

 private:
  const int threads_;
};

}  // namespace tf_malleable

#endif  // TF_MALLEABLE_CC_LIMITS_LIMITED_POOL_VIEW_H_
