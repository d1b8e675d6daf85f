// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// A thread pool as it looks with a given limit.

#ifndef TF_MALLEABLE_CC_LIMITS_LIMITED_POOL_VIEW_H_
#define TF_MALLEABLE_CC_LIMITS_LIMITED_POOL_VIEW_H_

#include <functional>
#include <utility>

#include "unsupported/Eigen/CXX11/ThreadPool"

#include "cc/limits/limited_pool.h"

namespace tf_malleable {

// Passes everything on to a pool but reports `limit` as its number of threads.
// Code that splits work by NumThreads() then splits it by the limit. A view
// never changes, so code that asks twice gets one answer; after a limit change
// callers are handed another view.
//
// CurrentThreadId() may be above NumThreads() while the limit falls. Of the
// callers TensorFlow hands a view to, none uses it as an index.
//
// Thread-safety: as the pool's. The pool must outlive the view.
class LimitedPoolView final : public Eigen::ThreadPoolInterface {
 public:
  LimitedPoolView(const LimitedPool* limits, Eigen::ThreadPoolInterface* pool,
                  int limit)
      : limits_(limits), pool_(pool), limit_(limit) {}

  // The pool's limit now, not that of this view.
  int CurrentLimit() const { return limits_->limit(); }

  void Schedule(std::function<void()> fn) override {
    pool_->Schedule(std::move(fn));
  }
  void ScheduleWithHint(std::function<void()> fn, int start,
                        int limit) override {
    pool_->ScheduleWithHint(std::move(fn), start, limit);
  }
  void Cancel() override { pool_->Cancel(); }
  int NumThreads() const override { return limit_; }
  int CurrentThreadId() const override { return pool_->CurrentThreadId(); }

 private:
  const LimitedPool* const limits_;
  Eigen::ThreadPoolInterface* const pool_;
  const int limit_;
};

}  // namespace tf_malleable

#endif  // TF_MALLEABLE_CC_LIMITS_LIMITED_POOL_VIEW_H_
