// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// Tests ActiveLimit alone, so that a test can interfere between two steps.

#include "cc/limits/active_limit.h"

#include <atomic>
#include <thread>

#include "cc/tests/test_util.h"

namespace tf_malleable {
namespace {

class ActiveLimitTest : public TimedTest {};

bool NoWork() { return false; }
bool NothingToRun() { return false; }

TEST_F(ActiveLimitTest, AdmitsWorkersBelowTheLimit) {
  ActiveLimit limit(4, 2);
  EXPECT_TRUE(limit.Admits(0));
  EXPECT_TRUE(limit.Admits(1));
  EXPECT_FALSE(limit.Admits(2));
  EXPECT_EQ(limit.Set(3), 2);
  EXPECT_EQ(limit.limit(), 3);
  EXPECT_TRUE(limit.Admits(2));
  EXPECT_FALSE(limit.Admits(3));
}

TEST_F(ActiveLimitTest, IsSettledOnceNoWorkerAboveTheLimitRuns) {
  ActiveLimit limit(4, 4);
  EXPECT_TRUE(limit.BeginTask(0));
  EXPECT_TRUE(limit.BeginTask(3));
  EXPECT_EQ(limit.Active(), 2);
  EXPECT_TRUE(limit.Settled());
  limit.Set(1);
  EXPECT_FALSE(limit.Settled());
  limit.EndTask(3);
  EXPECT_TRUE(limit.Settled());
  EXPECT_EQ(limit.Active(), 1);
  limit.EndTask(0);
  EXPECT_EQ(limit.Active(), 0);
  EXPECT_EQ(limit.ReadTotals().tasks, 2u);
}

TEST_F(ActiveLimitTest, AWorkerAboveTheLimitIsRefused) {
  ActiveLimit limit(2, 1);
  EXPECT_FALSE(limit.BeginTask(1));
  EXPECT_TRUE(limit.Settled());
  EXPECT_EQ(limit.Active(), 0);
  EXPECT_EQ(limit.ReadTotals().tasks, 0u);
}

TEST_F(ActiveLimitTest, AStandInIsNotCountedBesideTheOneItStandsInFor) {
  ActiveLimit limit(2, 1);
  EXPECT_TRUE(limit.BeginTask(0));
  limit.BeginStandIn(1);
  EXPECT_EQ(limit.Active(), 1);
  EXPECT_TRUE(limit.Settled());
  limit.EndTask(1);
  limit.EndTask(0);
  EXPECT_EQ(limit.ReadTotals().tasks, 2u);
}

TEST_F(ActiveLimitTest, BusyTimeGrowsDuringATask) {
  ActiveLimit limit(1, 1);
  EXPECT_TRUE(limit.BeginTask(0));
  const uint64_t before = limit.ReadTotals().busy_ticks;
  SpinFor(std::chrono::milliseconds(1));
  const uint64_t during = limit.ReadTotals().busy_ticks;
  EXPECT_GT(during, before);
  limit.EndTask(0);
  const uint64_t after = limit.ReadTotals().busy_ticks;
  EXPECT_GE(after, during);
  SpinFor(std::chrono::milliseconds(1));
  EXPECT_EQ(limit.ReadTotals().busy_ticks, after);
}

TEST_F(ActiveLimitTest, TakesASweepRequestOnce) {
  ActiveLimit limit(2, 2);
  EXPECT_FALSE(limit.TakeSweepRequest());
  limit.RequestSweep();
  EXPECT_TRUE(limit.TakeSweepRequest());
  EXPECT_FALSE(limit.TakeSweepRequest());
}

// Set() wakes up one thread, which has to wake up the others.
TEST_F(ActiveLimitTest, ARaisedLimitFreesEveryParkedWorkerItAdmits) {
  constexpr int kCapacity = 8;
  ActiveLimit limit(kCapacity, 1);
  for (int round = 0; round < 50; ++round) {
    std::atomic<int> freed{0};
    std::vector<std::thread> workers;
    for (int i = 1; i < kCapacity; ++i) {
      workers.emplace_back([&limit, &freed, i] {
        EXPECT_TRUE(limit.Park(i, NoWork, NothingToRun));
        ++freed;
      });
    }
    if (round % 2 == 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    limit.Set(5);
    EXPECT_TRUE(Eventually([&freed] { return freed == 4; }));
    EXPECT_EQ(freed, 4);
    limit.Set(kCapacity);
    EXPECT_TRUE(Eventually([&freed] { return freed == kCapacity - 1; }));
    for (std::thread& worker : workers) worker.join();
    limit.Set(1);
  }
}

TEST_F(ActiveLimitTest, ShutdownFreesParkedWorkersNowAndLater) {
  ActiveLimit limit(4, 1);
  std::vector<std::thread> workers;
  for (int i = 1; i < 4; ++i) {
    workers.emplace_back(
        [&limit, i] { EXPECT_FALSE(limit.Park(i, NoWork, NothingToRun)); });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  limit.Shutdown();
  for (std::thread& worker : workers) worker.join();
  EXPECT_FALSE(limit.Park(2, NoWork, NothingToRun));
}

// The watcher inspects the queues without the lock. A limit that is raised just
// then, but not to its highest value so far, must not be missed.
TEST_F(ActiveLimitTest, ALimitRaisedWhileTheWatcherLooksIsNoticed) {
  ActiveLimit limit(4, 4);
  limit.Set(1);
  std::atomic<bool> looked{false};
  std::atomic<int> freed{0};
  std::thread watcher([&] {
    const bool admitted = limit.Park(
        1,
        [&] {
          if (!looked.exchange(true)) limit.Set(3);
          return false;
        },
        NothingToRun);
    if (admitted) ++freed;
  });
  std::thread other([&] {
    // After the watcher, so that Set() relies on the watcher.
    std::this_thread::sleep_for(ActiveLimit::kStallAfter /
                                (2 * ActiveLimit::kStallSamples));
    if (limit.Park(2, NoWork, NothingToRun)) ++freed;
  });
  ASSERT_TRUE(Eventually([&looked] { return looked.load(); }));
  std::this_thread::sleep_for(2 * ActiveLimit::kStallAfter);
  EXPECT_EQ(freed, 2);
  limit.Shutdown();
  watcher.join();
  other.join();
}

// Nor may a shutdown be missed: the pool's destructor must not have to wait for
// the watcher's next inspection.
TEST_F(ActiveLimitTest, AShutdownWhileTheWatcherLooksEndsTheWatch) {
  ActiveLimit limit(2, 2);
  limit.Set(1);
  int looks = 0;
  EXPECT_FALSE(limit.Park(
      1,
      [&] {
        if (++looks == 1) limit.Shutdown();
        return false;
      },
      NothingToRun));
  EXPECT_EQ(looks, 1);
}

}  // namespace
}  // namespace tf_malleable
