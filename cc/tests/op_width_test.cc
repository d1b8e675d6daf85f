// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.

#include "cc/limits/op_width.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <thread>

#include "cc/limits/hooks.h"
#include "cc/limits/pool_registry.h"
#include "cc/limits/schedulable_cpus.h"
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
// The pool was started with 4.
TEST_F(OpWidthTest, WorkerIdsReachTheReportedThreads) {
  registry_.SetLimits(6, PoolRegistry::kKeep);
  OpWidth::Begin();
  const int reported = ReportedThreads(pool_);
  EXPECT_EQ(reported, 6);
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

// Kernels may also have sized their buffers by the number of threads in
// CpuWorkerThreads, before the limit was raised.
TEST_F(OpWidthTest, AfterAChangeAnOpHasOneWorkerId) {
  int told = 0;
  registry_.TellLimit(&pool_, &told);
  EXPECT_EQ(told, 4);
  for (const bool changes : {true, false}) {
    registry_.SetLimits(2, PoolRegistry::kKeep);
    OpWidth::Begin();
    EXPECT_EQ(told, 2);
    if (changes) registry_.SetLimits(64, PoolRegistry::kKeep);
    EXPECT_EQ(OpWidth::LimitsAreSame(), !changes);
    std::atomic<int> highest{-1};
    ParallelForWithWorkerId(&pool_, 3, 1, std::nullopt,
                            [&](int64_t, int64_t, int id) {
                              RaiseTo(&highest, id);
                              if (changes) return;
                              Eventually([&] { return highest >= 2; });
                            });
    EXPECT_EQ(highest, changes ? 0 : 2);
  }
}

TEST_F(OpWidthTest, ThePoolsOfNoOpReportWhatWasRequested) {
  TestPool data("data", 3, true, {}, &registry_);
  data.SetLimit(1);
  EXPECT_EQ(ReportedThreads(data), 3);
}

// XLA cuts the loops of a program into as many parts when it compiles it.
TEST_F(OpWidthTest, XlaIsToldTheMostThreadsThatCanBeUseful) {
  TestPool xla("XLAEigen", 1, true, {}, &registry_);
  xla.SetLimit(1);
  EXPECT_EQ(ReportedThreads(xla), MostUsefulThreads(1));
  EXPECT_EQ(MostUsefulThreads(1),
            std::min(PoolRegistry::Get().max_threads(), HostCpus()));
  EXPECT_EQ(MostUsefulThreads(4096), 4096);
}

// A program that sets no limit gets what it gets from stock TensorFlow.
TEST_F(OpWidthTest, WhoSetsALimitMayHaveConfinedTheProcess) {
  PoolRegistry& registry = PoolRegistry::Get();
  EXPECT_EQ(SchedulableCpus(1), 1);
  registry.SetLimits(1, PoolRegistry::kKeep);
  EXPECT_EQ(SchedulableCpus(1), MostUsefulThreads(1));
  registry.SetLimits(PoolRegistry::kUnset, PoolRegistry::kKeep);
  EXPECT_EQ(SchedulableCpus(1), 1);
}

}  // namespace
}  // namespace tf_malleable
