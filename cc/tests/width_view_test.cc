// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.

#include "cc/limits/width_view.h"

#include <atomic>
#include <functional>
#include <utility>

#include "cc/tests/test_util.h"

namespace tf_malleable {
namespace {

class WidthViewTest : public TimedTest {
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

TEST_F(WidthViewTest, AViewReportsItsWidthWhateverTheLimitIs) {
  for (int width = 1; width <= pool_.capacity(); ++width) {
    WidthView* const view = pool_.View(width);
    EXPECT_EQ(view->NumThreads(), width);
    EXPECT_EQ(view->registered(), &pool_);
    EXPECT_EQ(pool_.View(width), view);
  }
  WidthView* const view = pool_.View(5);
  pool_.SetLimit(2);
  EXPECT_EQ(view->NumThreads(), 5);
  EXPECT_EQ(view->registered()->limit(), 2);
  EXPECT_EQ(pool_.NumThreads(), 8);
}

TEST_F(WidthViewTest, NoViewIsWiderThanThePool) {
  EXPECT_EQ(pool_.View(9), pool_.View(8));
}

TEST_F(WidthViewTest, AViewTellsWorkersFromOthers) {
  WidthView* const view = pool_.View(3);
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

TEST_F(WidthViewTest, AViewPassesOnAllButTheNumberOfThreads) {
  FakeThreadPool fake;
  WidthView view(&pool_, &fake, 4);
  int ran = 0;
  view.Schedule([&ran] { ++ran; });
  EXPECT_EQ(ran, 1);
  view.ScheduleWithHint([&ran] { ++ran; }, 1, 3);
  EXPECT_EQ(ran, 2);
  EXPECT_EQ(fake.hint, std::make_pair(1, 3));
  EXPECT_EQ(view.CurrentThreadId(), 42);
  view.Cancel();
  EXPECT_TRUE(fake.cancelled);
  EXPECT_EQ(view.NumThreads(), 4);
}

TEST_F(WidthViewTest, WorkersOfAnotherPoolAreStrangers) {
  TestPool other(kInterName, 2, true, {}, &registry_);
  EXPECT_EQ(IdOnWorker(&other, pool_.View(2)), -1);
}

}  // namespace
}  // namespace tf_malleable
