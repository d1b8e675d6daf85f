// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// WidthView: a view of a thread pool that reports a fixed number of threads.

#ifndef TF_MALLEABLE_CC_LIMITS_WIDTH_VIEW_H_
#define TF_MALLEABLE_CC_LIMITS_WIDTH_VIEW_H_

#include <functional>
#include <utility>

#include "cc/limits/registered_pool.h"
#include "unsupported/Eigen/CXX11/ThreadPool"

namespace tf_malleable {

// A view of a pool, which reports its width as the number of threads. Code that
// divides work by NumThreads() thus divides it by the width. The width never
// changes, so code that asks twice gets the same answer; after a change of the
// limit, callers get another view.
//
// CurrentThreadId() may be NumThreads() or above: the width may be below the
// limit, or the limit may have been lowered. No caller that gets a view uses
// the id as an index.
//
// Thread-safety: that of the pool, which must outlive the view.
class WidthView final : public Eigen::ThreadPoolInterface {
 public:
  WidthView(RegisteredPool* registered, Eigen::ThreadPoolInterface* pool,
            int width)
      : registered_(registered), pool_(pool), width_(width) {}

  // The pool behind the view.
  RegisteredPool* registered() const { return registered_; }

  void Schedule(std::function<void()> fn) override {
    pool_->Schedule(std::move(fn));
  }
  void ScheduleWithHint(std::function<void()> fn, int start,
                        int limit) override {
    pool_->ScheduleWithHint(std::move(fn), start, limit);
  }
  void Cancel() override { pool_->Cancel(); }
  int NumThreads() const override { return width_; }
  int CurrentThreadId() const override { return pool_->CurrentThreadId(); }

 private:
  RegisteredPool* const registered_;
  Eigen::ThreadPoolInterface* const pool_;
  const int width_;
};

}  // namespace tf_malleable

#endif  // TF_MALLEABLE_CC_LIMITS_WIDTH_VIEW_H_
