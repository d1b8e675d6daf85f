// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// Tests that parked workers stand in for admitted ones only if all of these are
// asleep.

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "cc/limits/parallel_for.h"
#include "cc/tests/test_util.h"

namespace tf_malleable {
namespace {

constexpr std::chrono::milliseconds kStallAfter = StallWatch::kAfter;

class StallTest : public TimedTest {};

// Puts `parent` on worker 0 of a pool with limit 4, holds workers 1 to 3, lets
// `parent` begin, lowers the limit to 1, and releases the three. From then on,
// only worker 0, in `parent`, is admitted.
void LowerLimitInside(TestPool* pool, const std::function<void()>& queue_tasks,
                      const std::function<void()>& wait_for_them) {
  ASSERT_EQ(pool->limit(), 4);
  Gate lowered;
  std::atomic<int> started{0};
  std::atomic<bool> queued{false};
  std::atomic<int> ended{0};
  for (int i = 0; i < 4; ++i) {
    pool->Schedule([&, pool] {
      ++started;
      if (pool->CurrentThreadId() == 0) {
        while (started < 4) std::this_thread::yield();
        queue_tasks();
        queued = true;
        wait_for_them();
      } else {
        lowered.Wait();
      }
      ++ended;
    });
  }
  EXPECT_TRUE(Eventually([&] { return queued.load(); }));
  pool->SetLimit(1);
  lowered.Open();
  EXPECT_TRUE(Eventually([&] { return ended == 4; }));
  EXPECT_TRUE(Eventually([&] { return pool->Stats().active == 0; }));
}

// A stand-in is counted when it has ended, which may be after its waiters left.
void ExpectStandIns(const TestPool& pool, uint64_t expected) {
  EXPECT_TRUE(Eventually([&] { return pool.Stats().stand_ins >= expected; }));
  EXPECT_EQ(pool.Stats().stand_ins, expected);
}

void ExpectOneWorker(TestPool* pool) {
  EXPECT_TRUE(Eventually([&] { return pool->Settled(); }));
  EXPECT_EQ(pool->limit(), 1);
  std::atomic<int> on_worker_0{0};
  std::atomic<int> ran{0};
  for (int i = 0; i < 200; ++i) {
    pool->Schedule([&, pool] {
      if (pool->CurrentThreadId() == 0) ++on_worker_0;
      ++ran;
    });
  }
  EXPECT_TRUE(Eventually([&] { return ran == 200; }));
  EXPECT_EQ(on_worker_0, 200);
}

TEST_F(StallTest, AParkedWorkerRunsWhatASleepingOneWaitsFor) {
  PoolRegistry registry(8);
  TestPool pool(kIntraName, 4, true, {}, &registry);
  constexpr int kSubtasks = 10;
  Eigen::Barrier done(kSubtasks);
  LowerLimitInside(
      &pool,
      [&] {
        for (int i = 0; i < kSubtasks; ++i) {
          pool.Schedule([&] { done.Notify(); });
        }
      },
      [&] { done.Wait(); });
  ExpectStandIns(pool, kSubtasks);
  ExpectOneWorker(&pool);
  ExpectStandIns(pool, kSubtasks);
}

// Subtasks of subtasks, and repeated stalls in the same pool.
TEST_F(StallTest, StandInsMayNeedStandInsThemselves) {
  PoolRegistry registry(8);
  TestPool pool(kIntraName, 4, true, {}, &registry);
  Eigen::Barrier outer(1);
  Eigen::Barrier inner(1);
  LowerLimitInside(
      &pool,
      [&] {
        pool.Schedule([&] {
          pool.Schedule([&] { inner.Notify(); });
          inner.Wait();
          outer.Notify();
        });
      },
      [&] { outer.Wait(); });
  ExpectStandIns(pool, 2);
  ExpectOneWorker(&pool);
}

TEST_F(StallTest, AStandInIsNotCountedBesideTheWorkerItStandsInFor) {
  PoolRegistry registry(8);
  TestPool pool(kIntraName, 4, true, {}, &registry);
  constexpr int kSubtasks = 2000;
  Eigen::Barrier done(kSubtasks);
  std::atomic<bool> stop{false};
  std::atomic<int> most_active{0};
  std::thread sampler;
  LowerLimitInside(
      &pool,
      [&] {
        for (int i = 0; i < kSubtasks; ++i) {
          pool.Schedule([&] {
            SpinFor(std::chrono::microseconds(100));
            done.Notify();
          });
        }
        sampler = std::thread([&] {
          while (pool.Stats().stand_ins == 0) std::this_thread::yield();
          while (!stop) {
            RaiseTo(&most_active, pool.Stats().active);
          }
        });
      },
      [&] { done.Wait(); });
  stop = true;
  sampler.join();
  EXPECT_TRUE(Eventually([&] { return pool.Stats().stand_ins > 0; }));
  EXPECT_EQ(most_active, 1);
}

TEST_F(StallTest, AParallelForCompletesThoughItsPoolShrankBelowIt) {
  PoolRegistry registry(8);
  TestPool pool(kIntraName, 4, true, {}, &registry);
  std::atomic<int> covered{0};
  Gate lowered;  // Holds workers 1 to 3, so that they do not run the parts.
  std::atomic<int> started{0};
  std::atomic<bool> begun{false};
  std::atomic<bool> ended{false};
  for (int i = 0; i < 4; ++i) {
    pool.Schedule([&] {
      ++started;
      if (pool.CurrentThreadId() != 0) {
        lowered.Wait();
        return;
      }
      while (started < 4) std::this_thread::yield();
      begun = true;
      // Eigen queues all parts, or all but one, before it waits for them.
      ParallelForByCost(&pool, 4, 1000, 1000000, [&](int64_t from, int64_t to) {
        while (pool.limit() != 1) std::this_thread::yield();
        covered += static_cast<int>(to - from);
      });
      ended = true;
    });
  }
  EXPECT_TRUE(Eventually([&] { return begun.load(); }));
  pool.SetLimit(1);
  lowered.Open();
  EXPECT_TRUE(Eventually([&] { return ended.load(); }));
  EXPECT_EQ(covered, 1000);
  EXPECT_TRUE(Eventually([&] { return pool.Stats().stand_ins > 0; }));
  ExpectOneWorker(&pool);
}

TEST_F(StallTest, AStalledPoolDrains) {
  PoolRegistry registry(8);
  Gate lowered;
  Eigen::Barrier subtask(1);
  std::atomic<int> started{0};
  std::atomic<bool> queued{false};
  std::atomic<int> left{0};
  std::atomic<bool> ended{false};
  {
    TestPool pool(kIntraName, 4, true, {}, &registry);
    for (int i = 0; i < 4; ++i) {
      pool.Schedule([&] {
        ++started;
        if (pool.CurrentThreadId() != 0) {
          lowered.Wait();
          ++left;
          return;
        }
        while (started < 4) std::this_thread::yield();
        pool.Schedule([&] { subtask.Notify(); });
        queued = true;
        subtask.Wait();
        ended = true;
      });
    }
    EXPECT_TRUE(Eventually([&] { return queued.load(); }));
    pool.SetLimit(1);
    lowered.Open();
    EXPECT_TRUE(Eventually([&] { return left == 3; }));
    EXPECT_FALSE(ended);
  }
  EXPECT_TRUE(ended);
}

// Code that divides work by the pool's capacity waits for what it has queued,
// whether the limit has been lowered or has been low from the beginning.
TEST_F(StallTest, APoolStartedBelowItsCapacityHasStandIns) {
  PoolRegistry registry(8);
  TestPool pool(kIntraName, 1, true, {}, &registry);
  ASSERT_EQ(pool.NumThreads(), 8);
  std::atomic<bool> ended{false};
  pool.Schedule([&] {
    Eigen::Barrier subtask(1);
    pool.Schedule([&] { subtask.Notify(); });
    subtask.Wait();
    ended = true;
  });
  EXPECT_TRUE(Eventually([&] { return ended.load(); }));
  ExpectStandIns(pool, 1);
  ExpectOneWorker(&pool);
}

// Each stand-in needs one more worker, which has not been started before.
TEST_F(StallTest, APoolThatDrainsStartsTheStandInsItNeeds) {
  PoolRegistry registry(8);
  std::atomic<int> ended{0};
  {
    TestPool pool(kIntraName, 1, true, {}, &registry);
    pool.Schedule([&] {
      Eigen::Barrier outer(1);
      pool.Schedule([&] {
        Eigen::Barrier inner(1);
        pool.Schedule([&] { inner.Notify(); });
        inner.Wait();
        ++ended;
        outer.Notify();
      });
      outer.Wait();
      ++ended;
    });
  }
  EXPECT_EQ(ended, 2);
}

TEST_F(StallTest, APoolAtItsCapacityHasNoStandIns) {
  PoolRegistry registry(8);
  TestPool pool("data", 4, true, {}, &registry);
  ASSERT_EQ(pool.limit(), pool.capacity());
  Gate gate;
  std::atomic<int> started{0};
  std::atomic<int> ran{0};
  for (int i = 0; i < 4; ++i) {
    pool.Schedule([&] {
      ++started;
      gate.Wait();
    });
  }
  ASSERT_TRUE(Eventually([&] { return started == 4; }));
  for (int i = 0; i < 4; ++i) pool.Schedule([&] { ++ran; });
  std::this_thread::sleep_for(5 * kStallAfter / 2);
  EXPECT_EQ(ran, 0);
  gate.Open();
  EXPECT_TRUE(Eventually([&] { return ran == 4; }));
  EXPECT_EQ(pool.Stats().stand_ins, 0u);
}

TEST_F(StallTest, ShortSleepsAreNoStall) {
  PoolRegistry registry(8);
  TestPool pool(kIntraName, 4, true, {}, &registry);
  pool.SetLimit(1);
  std::atomic<int> running{0};
  std::atomic<int> most{0};
  std::atomic<int> ran{0};
  for (int i = 0; i < 12; ++i) {
    pool.Schedule([&] {
      RaiseTo(&most, ++running);
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      --running;
      ++ran;
    });
  }
  EXPECT_TRUE(Eventually([&] { return ran == 12; }));
  EXPECT_EQ(most, 1);
  EXPECT_EQ(pool.Stats().stand_ins, 0u);
}

TEST_F(StallTest, AWorkerThatComputesIsNoStall) {
  PoolRegistry registry(8);
  TestPool pool(kIntraName, 4, true, {}, &registry);
  pool.SetLimit(1);
  std::atomic<int> running{0};
  std::atomic<int> most{0};
  std::atomic<int> ran{0};
  for (int i = 0; i < 3; ++i) {
    pool.Schedule([&] {
      RaiseTo(&most, ++running);
      if (ran == 0) SpinFor(std::chrono::microseconds(2 * kStallAfter));
      --running;
      ++ran;
    });
  }
  EXPECT_TRUE(Eventually([&] { return ran == 3; }));
  EXPECT_EQ(most, 1);
  EXPECT_EQ(pool.Stats().stand_ins, 0u);
}

}  // namespace
}  // namespace tf_malleable
