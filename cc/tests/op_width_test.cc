// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.

#include "cc/limits/op_width.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <thread>

#include "cc/limits/hooks.h"
#include "cc/tests/test_util.h"

namespace tf_malleable {
namespace {

class OpWidthTest : public TimedTest {
 protected:
  void SetUp() override {
    TimedTest::SetUp();
    OpWidth::Begin();
  }

  PoolRegistry registry_{64};
  TestPool pool_{kIntraName, 4, true, {}, &registry_};
};

TEST_F(OpWidthTest, TheFirstQuestionOfAnOpDecides) {
  EXPECT_EQ(OpWidth::Latch(0), 0);
  EXPECT_EQ(OpWidth::Latch(3), 3);
  EXPECT_EQ(OpWidth::Latch(7), 3);
  OpWidth::Begin();
  EXPECT_EQ(OpWidth::Latch(7), 7);
}

TEST_F(OpWidthTest, EachThreadHasAnOpOfItsOwn) {
  EXPECT_EQ(OpWidth::Latch(3), 3);
  int other = 0;
  std::thread([&other] { other = OpWidth::Latch(5); }).join();
  EXPECT_EQ(other, 5);
  EXPECT_EQ(OpWidth::Latch(9), 3);
}

TEST_F(OpWidthTest, PlansAreAsWideAsTheLimitOrLittleNarrower) {
  std::set<int> widths;
  for (int limit = 1; limit <= 1024; ++limit) {
    const int width = PlanWidth(limit);
    EXPECT_LE(width, limit);
    EXPECT_GT(9 * width, 8 * limit) << limit;
    if (limit <= 16) {
      EXPECT_EQ(width, limit);
    }
    widths.insert(width);
  }
  EXPECT_LE(widths.size(), 16u + 6 * 8);
  EXPECT_EQ(PlanWidth(0), 0);
}

TEST_F(OpWidthTest, OneDnnIsHandedAPoolOfTheOpsWidth) {
  EXPECT_EQ(HandedOut(&pool_)->NumThreads(), 4);
  pool_.SetLimit(35);
  EXPECT_EQ(HandedOut(&pool_)->NumThreads(), 4);
  OpWidth::Begin();
  EXPECT_EQ(HandedOut(&pool_)->NumThreads(), 32);
  pool_.SetLimit(1);
  EXPECT_EQ(HandedOut(&pool_)->NumThreads(), 32);
  OpWidth::Begin();
  EXPECT_EQ(HandedOut(&pool_)->NumThreads(), 1);
  EXPECT_EQ(RegisteredPoolOf(HandedOut(&pool_)), &pool_);
}

TEST_F(OpWidthTest, OtherPoolsAreHandedOutAsTheyAre) {
  TestPool inter(kInterName, 2, true, {}, &registry_);
  EXPECT_EQ(HandedOut(&inter), &inter);
}

// As in stock TensorFlow, buffers for worker ids are one more than the threads.
// The limit has been raised meanwhile.
TEST_F(OpWidthTest, WorkerIdsReachTheReportedThreads) {
  pool_.SetLimit(2);
  const int reported = ReportedThreads(pool_);
  EXPECT_EQ(reported, 2);
  pool_.SetLimit(64);
  std::atomic<int> highest{-1};
  ParallelForWithWorkerId(&pool_, reported + 1, 1, std::nullopt,
                          [&](int64_t, int64_t, int id) {
                            RaiseTo(&highest, id);
                            // The first ones wait for the others.
                            Eventually([&] { return highest >= reported; });
                          });
  EXPECT_EQ(highest, reported);
}

// A view keeps its width, also for a caller that sized buffers by it.
TEST_F(OpWidthTest, WorkerIdsStayWithinTheWidthOfAView) {
  pool_.SetLimit(2);
  Eigen::ThreadPoolInterface* const view = HandedOut(&pool_);
  OpWidth::Begin();
  pool_.SetLimit(64);
  std::atomic<int> highest{-1};
  ParallelForWithWorkerId(view, 1000, 1, std::nullopt,
                          [&highest](int64_t, int64_t, int id) {
                            RaiseTo(&highest, id);
                            SpinFor(std::chrono::microseconds(20));
                          });
  EXPECT_GE(highest, 0);
  EXPECT_LE(highest, view->NumThreads());
}

// TensorFlow's kernels may also have sized their buffers by the number of
// threads that TensorFlow was started with.
TEST_F(OpWidthTest, WorkerIdsStayWithinWhatTensorFlowRequested) {
  pool_.SetLimit(64);
  EXPECT_EQ(ReportedThreads(pool_), 64);
  std::atomic<int> highest{-1};
  ParallelForWithWorkerId(&pool_, 1000, 1, std::nullopt,
                          [&highest](int64_t, int64_t, int id) {
                            RaiseTo(&highest, id);
                            SpinFor(std::chrono::microseconds(20));
                          });
  EXPECT_LE(highest, 4);
}

TEST_F(OpWidthTest, ThePoolsOfNoOpReportWhatWasRequested) {
  TestPool data("data", 3, true, {}, &registry_);
  data.SetLimit(1);
  EXPECT_EQ(ReportedThreads(data), 3);
}

}  // namespace
}  // namespace tf_malleable
