// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.

#include <algorithm>
#include <atomic>
#include <functional>
#include <initializer_list>
#include <utility>

#include "cc/limits/limited_pool_view.h"
#include "cc/tests/test_util.h"

namespace tf_malleable {
namespace {

class ViewsTest : public TimedTest {
 protected:
  // CurrentThreadId() of `of`, asked on a worker of `pool`.
  static int IdOnWorker(TestPool* pool, Eigen::ThreadPoolInterface* of) {
    std::atomic<int> id{-2};
    pool->Schedule([&] { id = of->CurrentThreadId(); });
    EXPECT_TRUE(Eventually([&] { return id != -2; }));
    return id;
  }

  PoolRegistry registry_{8};
  TestPool pool_{kIntraName, 3, true, {}, &registry_};
};

TEST_F(ViewsTest, AViewReportsItsLimitWhateverThePoolsIs) {
  for (int limit = 1; limit <= pool_.capacity(); ++limit) {
    LimitedPoolView* const view = pool_.View(limit);
    EXPECT_EQ(view->NumThreads(), limit);
    EXPECT_EQ(view->pool(), &pool_);
    EXPECT_EQ(&view->limits(), &pool_);
    EXPECT_EQ(pool_.View(limit), view);
  }
  LimitedPoolView* const view = pool_.View(5);
  pool_.SetLimit(2);
  EXPECT_EQ(view->NumThreads(), 5);
  EXPECT_EQ(view->limits().limit(), 2);
  EXPECT_EQ(pool_.NumThreads(), 8);
}

TEST_F(ViewsTest, AViewTellsWorkersFromOthers) {
  LimitedPoolView* const view = pool_.View(3);
  EXPECT_EQ(view->CurrentThreadId(), -1);
  const int id = IdOnWorker(&pool_, view);
  EXPECT_GE(id, 0);
  EXPECT_LT(id, 3);
  pool_.SetLimit(1);
  EXPECT_EQ(view->CurrentThreadId(), -1);
}

// Records what a view forwards.
class FakeThreadPool : public Eigen::ThreadPoolInterface {
 public:
  void Schedule(std::function<void()> fn) override { fn(); }
  void ScheduleWithHint(std::function<void()> fn, int start,
                        int limit) override {
    hint = {start, limit};
    fn();
  }
  void Cancel() override { cancelled = true; }
  int NumThreads() const override { return 99; }
  int CurrentThreadId() const override { return 42; }

  std::pair<int, int> hint;
  bool cancelled = false;
};

TEST_F(ViewsTest, AViewPassesOnAllButTheNumberOfThreads) {
  FakeThreadPool fake;
  LimitedPoolView limited(&pool_, &fake, 4);
  PlannedPoolView planned(&pool_, &fake, 6);
  for (Eigen::ThreadPoolInterface* view :
       std::initializer_list<Eigen::ThreadPoolInterface*>{&limited, &planned}) {
    int ran = 0;
    view->Schedule([&ran] { ++ran; });
    EXPECT_EQ(ran, 1);
    fake.hint = {};
    view->ScheduleWithHint([&ran] { ++ran; }, 1, 3);
    EXPECT_EQ(ran, 2);
    EXPECT_EQ(fake.hint, std::make_pair(1, 3));
    EXPECT_EQ(view->CurrentThreadId(), 42);
    fake.cancelled = false;
    view->Cancel();
    EXPECT_TRUE(fake.cancelled);
  }
  EXPECT_EQ(limited.NumThreads(), 4);
  EXPECT_EQ(planned.NumThreads(), 6);
}

// Plans are made for the highest number of threads that can ever be useful.
TEST_F(ViewsTest, ThePlannedViewIsAsWideAsTheHostOrTheRequest) {
  const auto expected = [](int requested, int capacity) {
    return std::min(capacity, std::max(requested, HostCpus()));
  };
  EXPECT_EQ(pool_.PlannedView()->NumThreads(), expected(3, 8));
  pool_.SetLimit(1);
  EXPECT_EQ(pool_.PlannedView()->NumThreads(), expected(3, 8));
  pool_.SetLimit(8);
  EXPECT_EQ(pool_.PlannedView()->NumThreads(), expected(3, 8));

  TestPool wide(kIntraName, HostCpus() + 20, true, {}, &registry_);
  EXPECT_EQ(wide.PlannedView()->NumThreads(), HostCpus() + 20);
  TestPool small("data", 1, true, {}, &registry_);
  EXPECT_EQ(small.PlannedView()->NumThreads(), 1);
}

TEST_F(ViewsTest, AtLimit1ThePlannedViewTakesEveryCallerForAWorker) {
  PlannedPoolView* const view = pool_.PlannedView();
  EXPECT_EQ(view->CurrentThreadId(), -1);
  pool_.SetLimit(1);
  EXPECT_EQ(view->CurrentThreadId(), 0);
  pool_.SetLimit(2);
  EXPECT_EQ(view->CurrentThreadId(), -1);
}

TEST_F(ViewsTest, OnAWorkerThePlannedViewTellsTheWorker) {
  PlannedPoolView* const view = pool_.PlannedView();
  pool_.SetLimit(8);
  Gate gate;
  std::atomic<int> right{0};
  for (int i = 0; i < 8; ++i) {
    pool_.Schedule([&] {
      if (view->CurrentThreadId() == pool_.CurrentThreadId()) ++right;
      gate.Wait();
      // Most of them are above the limit by now.
      if (view->CurrentThreadId() == pool_.CurrentThreadId()) ++right;
    });
  }
  EXPECT_TRUE(Eventually([&] { return right == 8; }));
  pool_.SetLimit(1);
  gate.Open();
  EXPECT_TRUE(Eventually([&] { return right == 16; }));
}

TEST_F(ViewsTest, WorkersOfAnotherPoolAreStrangers) {
  TestPool other(kInterName, 2, true, {}, &registry_);
  EXPECT_EQ(IdOnWorker(&other, pool_.View(2)), -1);
  EXPECT_EQ(IdOnWorker(&other, pool_.PlannedView()), -1);
  pool_.SetLimit(1);
  EXPECT_EQ(IdOnWorker(&other, pool_.PlannedView()), 0);
}

}  // namespace
}  // namespace tf_malleable
