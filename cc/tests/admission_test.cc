// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// Tests Admission alone, so that a test can interfere between two steps.

#include "cc/limits/eigen/admission.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "cc/tests/test_util.h"

namespace tf_malleable {
namespace {

class AdmissionTest : public TimedTest {};

bool NoWork() { return false; }
bool NothingToRun() { return false; }
void NobodyElse() {}

TEST_F(AdmissionTest, AdmitsWorkersBelowTheLimit) {
  Admission admission(4, 2);
  EXPECT_TRUE(admission.Admits(0));
  EXPECT_TRUE(admission.Admits(1));
  EXPECT_FALSE(admission.Admits(2));
  EXPECT_EQ(admission.Set(3), 2);
  EXPECT_EQ(admission.limit(), 3);
  EXPECT_TRUE(admission.Admits(2));
  EXPECT_FALSE(admission.Admits(3));
}

// A pool that gets fewer threads than it may have must not undo a lower limit.
TEST_F(AdmissionTest, ACapLowersAHigherLimitOnly) {
  Admission admission(8, 5);
  EXPECT_FALSE(admission.Cap(6));
  EXPECT_FALSE(admission.Cap(5));
  EXPECT_EQ(admission.limit(), 5);
  EXPECT_TRUE(admission.Cap(3));
  EXPECT_EQ(admission.limit(), 3);
}

TEST_F(AdmissionTest, IsSettledOnceNoWorkerAboveTheLimitRuns) {
  Admission admission(4, 4);
  EXPECT_TRUE(admission.BeginTask(0));
  EXPECT_TRUE(admission.BeginTask(3));
  EXPECT_EQ(admission.records().Active(), 2);
  EXPECT_TRUE(admission.Settled());
  admission.Set(1);
  EXPECT_FALSE(admission.Settled());
  admission.EndTask(3);
  EXPECT_TRUE(admission.Settled());
  EXPECT_EQ(admission.records().Active(), 1);
  admission.EndTask(0);
  EXPECT_EQ(admission.records().Active(), 0);
  EXPECT_EQ(admission.records().Read().tasks, 2u);
}

TEST_F(AdmissionTest, AWorkerAboveTheLimitIsRefused) {
  Admission admission(2, 1);
  EXPECT_FALSE(admission.BeginTask(1));
  EXPECT_TRUE(admission.Settled());
  EXPECT_EQ(admission.records().Active(), 0);
  EXPECT_EQ(admission.records().Read().tasks, 0u);
}

TEST_F(AdmissionTest, AStandInIsNotCountedBesideTheOneItStandsInFor) {
  Admission admission(2, 1);
  EXPECT_TRUE(admission.BeginTask(0));
  admission.BeginStandIn(1);
  EXPECT_EQ(admission.records().Active(), 1);
  EXPECT_TRUE(admission.Settled());
  admission.EndTask(1);
  admission.EndTask(0);
  EXPECT_EQ(admission.records().Read().tasks, 2u);
}

TEST_F(AdmissionTest, BusyTimeGrowsDuringATask) {
  Admission admission(1, 1);
  EXPECT_TRUE(admission.BeginTask(0));
  const uint64_t before = admission.records().Read().busy_ticks;
  SpinFor(std::chrono::milliseconds(1));
  const uint64_t during = admission.records().Read().busy_ticks;
  EXPECT_GT(during, before);
  admission.EndTask(0);
  const uint64_t after = admission.records().Read().busy_ticks;
  EXPECT_GE(after, during);
  SpinFor(std::chrono::milliseconds(1));
  EXPECT_EQ(admission.records().Read().busy_ticks, after);
}

TEST_F(AdmissionTest, TakesASweepRequestOnce) {
  Admission admission(2, 2);
  EXPECT_FALSE(admission.TakeSweepRequest());
  admission.RequestSweep();
  EXPECT_TRUE(admission.TakeSweepRequest());
  EXPECT_FALSE(admission.TakeSweepRequest());
}

// Set() wakes up one thread, which has to wake up the others.
TEST_F(AdmissionTest, ARaisedLimitFreesEveryParkedWorkerItAdmits) {
  constexpr int kCapacity = 8;
  Admission admission(kCapacity, 1);
  for (int round = 0; round < 50; ++round) {
    std::atomic<int> freed{0};
    std::vector<std::thread> workers;
    for (int i = 1; i < kCapacity; ++i) {
      workers.emplace_back([&admission, &freed, i] {
        EXPECT_TRUE(admission.Park(i, NoWork, NothingToRun, NobodyElse));
        ++freed;
      });
    }
    if (round % 2 == 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    admission.Set(5);
    EXPECT_TRUE(Eventually([&freed] { return freed == 4; }));
    EXPECT_EQ(freed, 4);
    admission.Set(kCapacity);
    EXPECT_TRUE(Eventually([&freed] { return freed == kCapacity - 1; }));
    for (std::thread& worker : workers) worker.join();
    admission.Set(1);
  }
}

TEST_F(AdmissionTest, ShutdownFreesParkedWorkersNowAndLater) {
  Admission admission(4, 1);
  std::vector<std::thread> workers;
  for (int i = 1; i < 4; ++i) {
    workers.emplace_back([&admission, i] {
      EXPECT_FALSE(admission.Park(i, NoWork, NothingToRun, NobodyElse));
    });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  admission.Shutdown();
  for (std::thread& worker : workers) worker.join();
  EXPECT_FALSE(admission.Park(2, NoWork, NothingToRun, NobodyElse));
}

// The watcher inspects the queues without the lock. A limit that is raised just
// then, but not to its highest value so far, must not be missed.
TEST_F(AdmissionTest, ALimitRaisedWhileTheWatcherLooksIsNoticed) {
  Admission admission(4, 4);
  admission.Set(1);
  ASSERT_TRUE(admission.BeginTask(0));
  std::atomic<bool> looked{false};
  std::atomic<int> freed{0};
  std::thread watcher([&] {
    const bool admitted = admission.Park(
        1,
        [&] {
          if (!looked.exchange(true)) admission.Set(3);
          return false;
        },
        NothingToRun, NobodyElse);
    if (admitted) ++freed;
  });
  std::thread other([&] {
    // After the watcher, so that Set() relies on the watcher.
    std::this_thread::sleep_for(StallWatch::kPeriod / 2);
    if (admission.Park(2, NoWork, NothingToRun, NobodyElse)) ++freed;
  });
  ASSERT_TRUE(Eventually([&looked] { return looked.load(); }));
  std::this_thread::sleep_for(2 * StallWatch::kAfter);
  EXPECT_EQ(freed, 2);
  admission.Shutdown();
  watcher.join();
  other.join();
}

// Nor may a shutdown be missed: the pool's destructor must not have to wait for
// the watcher's next inspection.
TEST_F(AdmissionTest, AShutdownWhileTheWatcherLooksEndsTheWatch) {
  Admission admission(2, 2);
  admission.Set(1);
  ASSERT_TRUE(admission.BeginTask(0));
  int looks = 0;
  EXPECT_FALSE(admission.Park(
      1,
      [&] {
        if (++looks == 1) admission.Shutdown();
        return false;
      },
      NothingToRun, NobodyElse));
  EXPECT_EQ(looks, 1);
}

// An idle pool costs nothing; a task brings its watcher back.
TEST_F(AdmissionTest, TheWatcherOfAnIdlePoolSleeps) {
  Admission admission(2, 1);
  std::atomic<int> looks{0};
  std::thread watcher([&] {
    const auto look = [&looks] {
      ++looks;
      return false;
    };
    EXPECT_FALSE(admission.Park(1, look, NothingToRun, NobodyElse));
  });
  std::this_thread::sleep_for(6 * StallWatch::kPeriod);
  EXPECT_EQ(looks, 0);
  ASSERT_TRUE(admission.BeginTask(0));
  EXPECT_TRUE(Eventually([&looks] { return looks >= 3; }));
  admission.EndTask(0);
  // One look may be under way.
  std::this_thread::sleep_for(2 * StallWatch::kPeriod);
  const int seen = looks;
  std::this_thread::sleep_for(6 * StallWatch::kPeriod);
  EXPECT_EQ(looks, seen);
  admission.Shutdown();
  watcher.join();
}

bool Empty(int /*worker*/) { return true; }

TEST_F(AdmissionTest, TheReachFollowsARaisedLimitAtOnce) {
  Admission admission(8, 2);
  EXPECT_EQ(admission.reach(), 2);
  admission.Set(5);
  EXPECT_EQ(admission.reach(), 5);
  EXPECT_EQ(admission.TryNarrow(Empty), 5);
}

TEST_F(AdmissionTest, TheReachFollowsALoweredLimitOnceNothingIsLeftAboveIt) {
  Admission admission(8, 6);
  ASSERT_TRUE(admission.BeginTask(4));
  admission.Set(2);
  EXPECT_EQ(admission.reach(), 6);
  // Worker 4 may queue tasks for itself.
  EXPECT_EQ(admission.TryNarrow(Empty), 6);
  admission.EndTask(4);
  EXPECT_EQ(admission.TryNarrow([](int worker) { return worker != 5; }), 6);
  EXPECT_EQ(admission.TryNarrow(Empty), 2);
  EXPECT_EQ(admission.reach(), 2);
}

TEST_F(AdmissionTest, ATaskQueuedForAWorkerAboveTheLimitIsWithinReach) {
  Admission admission(8, 6);
  admission.Set(2);
  ASSERT_EQ(admission.TryNarrow(Empty), 2);
  EXPECT_FALSE(admission.Queued(4));  // By a thread that saw the old limit.
  EXPECT_EQ(admission.reach(), 5);
  EXPECT_TRUE(admission.Queued(1));
  EXPECT_EQ(admission.reach(), 5);
}

// A thread queues a task just when the queues have been found empty.
TEST_F(AdmissionTest, TheReachIsNotLoweredOverATaskThatIsJustBeingQueued) {
  Admission admission(8, 6);
  admission.Set(2);
  EXPECT_EQ(admission.TryNarrow([&admission](int worker) {
    if (worker == 5) admission.Queued(3);
    return true;
  }),
            6);
  EXPECT_EQ(admission.reach(), 6);
}

}  // namespace
}  // namespace tf_malleable
