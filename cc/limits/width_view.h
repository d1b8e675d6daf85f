// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// A limited thread pool as it appears to code that divides work.

#ifndef TF_MALLEABLE_CC_LIMITS_WIDTH_VIEW_H_
#define TF_MALLEABLE_CC_LIMITS_WIDTH_VIEW_H_

#include <functional>
#include <utility>

#include "cc/limits/registered_pool.h"
#include "unsupported/Eigen/CXX11/ThreadPool"

namespace tf_malleable {

// The pool, which reports a fixed width as its number of threads. So code that
// divides work by NumThreads() divides it by the width. A view never changes,
// so code that asks twice gets the same answer; after a change of the limit,
// callers get another view.
//
// CurrentThreadId() may be NumThreads() or above: the work may be narrower than
// the limit, or the limit have been lowered. None of the callers that get a
// view use it as an index.
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
