// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// Views of a limited thread pool, as it appears to code that splits work.

#ifndef TF_MALLEABLE_CC_LIMITS_LIMITED_POOL_VIEW_H_
#define TF_MALLEABLE_CC_LIMITS_LIMITED_POOL_VIEW_H_

#include <functional>
#include <utility>

#include "cc/limits/limited_pool.h"
#include "unsupported/Eigen/CXX11/ThreadPool"

namespace tf_malleable {

// Forwards everything to a pool. The base of the views below.
//
// Thread-safety: that of the pool. The pool must outlive the view.
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

// The pool with a fixed limit, which it reports as its number of threads. So
// code that splits work by NumThreads() splits it by the limit. A view never
// changes, so code that asks twice gets the same answer; after a change of the
// limit, callers get another view.
//
// CurrentThreadId() may be NumThreads() or above just after the limit was
// lowered. None of the callers that get a view use it as an index.
class LimitedPoolView final : public PoolView {
 public:
  LimitedPoolView(const LimitedPool* limits, Eigen::ThreadPoolInterface* pool,
                  int limit)
      : PoolView(limits, pool), limit_(limit) {}

  int NumThreads() const override { return limit_; }

 private:
  const int limit_;
};

// The pool for oneDNN, which plans a kernel once, for a number of threads that
// it must never exceed, and runs the plan many times. That number is the
// highest that can ever be useful, whatever the limit is now. If a plan has
// more threads than the limit, its tasks run on fewer workers.
//
// At limit 1, every caller is told that it is on a worker. So oneDNN runs the
// tasks in the caller instead of sending them to the only worker.
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
