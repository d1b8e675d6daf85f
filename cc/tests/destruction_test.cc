// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// Tests that the destruction of a pool runs queued tasks, and that the end of a
// task frees its captures.

#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "cc/tests/test_util.h"

namespace tf_malleable {
namespace {

constexpr int kCapacity = 16;

class DestructionTest : public TimedTest {};

TEST_F(DestructionTest, RunsQueuedTasksUnderTheLimit) {
  PoolRegistry registry(kCapacity);
  for (const int limit : {1, 3, kCapacity}) {
    std::atomic<int> ran{0};
    std::atomic<int> running{0};
    std::atomic<int> most{0};
    {
      TestPool pool(kIntraName, kCapacity, true, {}, &registry);
      pool.SetLimit(limit);
      ASSERT_EQ(registry.WaitSettled(kPatience), Outcome::kDone);
      for (int i = 0; i < 500; ++i) {
        pool.Schedule([&] {
          RaiseTo(&most, ++running);
          std::this_thread::sleep_for(std::chrono::microseconds(50));
          --running;
          ++ran;
        });
      }
    }
    EXPECT_EQ(ran, 500);
    EXPECT_LE(most, limit);
  }
}

// A tree of 2^(depth + 1) - 1 tasks.
void Grow(Eigen::ThreadPoolInterface* pool, std::atomic<int>* ran, int depth) {
  ++*ran;
  for (int i = 0; i < 2 && depth > 0; ++i) {
    pool->Schedule([pool, ran, depth] { Grow(pool, ran, depth - 1); });
  }
}

TEST_F(DestructionTest, RunsTasksScheduledMeanwhile) {
  PoolRegistry registry(kCapacity);
  for (int round = 0; round < 100; ++round) {
    std::atomic<int> ran{0};
    {
      TestPool pool(kIntraName, kCapacity, round % 2 == 0, {}, &registry);
      pool.SetLimit(1 + round % 3);
      pool.Schedule([&] { Grow(&pool, &ran, 7); });
    }
    EXPECT_EQ(ran, 255);
  }
}

// As long as they run, tasks may use their pool and the views they were given.
TEST_F(DestructionTest, TasksMayUseThePoolWhileItDrains) {
  PoolRegistry registry(kCapacity);
  Gate gate;
  std::atomic<int> limits{0};
  std::atomic<int> threads{0};
  std::thread opener;
  {
    TestPool pool(kIntraName, kCapacity, true, {}, &registry);
    pool.SetLimit(2);
    const WidthView* view = pool.View(2);
    pool.Schedule([&, view] {
      gate.Wait();
      limits = view->registered()->limit();
      threads = view->NumThreads();
      EXPECT_EQ(view->registered()->name(), kIntraName);
    });
    opener = std::thread([&] {
      EXPECT_TRUE(Eventually([&] { return registry.Stats().empty(); }));
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      gate.Open();
    });
  }
  opener.join();
  EXPECT_EQ(limits, 2);
  EXPECT_EQ(threads, 2);
}

TEST_F(DestructionTest, DrainsWithLimitsChangingUntilJustBefore) {
  PoolRegistry registry(kCapacity);
  for (int round = 0; round < 100; ++round) {
    std::atomic<int> ran{0};
    {
      TestPool pool(kIntraName, kCapacity, round % 2 == 0, {}, &registry);
      LimitChanger changer(&pool, 2);
      for (int i = 0; i < 20; ++i) {
        pool.Schedule([&] { Grow(&pool, &ran, 3); });
      }
    }
    EXPECT_EQ(ran, 20 * 15);
  }
}

TEST_F(DestructionTest, OfAnIdlePoolWithParkedWorkersEnds) {
  PoolRegistry registry(kCapacity);
  for (int round = 0; round < 100; ++round) {
    TestPool pool(kIntraName, kCapacity, round % 2 == 0, {}, &registry);
    pool.SetLimit(1 + round % kCapacity);
    if (round % 3 == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  EXPECT_TRUE(registry.Stats().empty());
}

// All admitted workers are in a task, as Eigen's Cancel() may lose idle ones.
TEST_F(DestructionTest, ACancelledPoolEndsWithWorkersParked) {
  PoolRegistry registry(kCapacity);
  for (int round = 0; round < 50; ++round) {
    Gate gate;
    std::atomic<int> started{0};
    std::atomic<int> ran{0};
    TestPool pool(kIntraName, 2, true, {}, &registry);
    for (int i = 0; i < 2; ++i) {
      pool.Schedule([&] {
        ++started;
        gate.Wait();
      });
    }
    ASSERT_TRUE(Eventually([&] { return started == 2; }));
    for (int i = 0; i < 100; ++i) pool.Schedule([&ran] { ++ran; });
    pool.Cancel();
    EXPECT_EQ(ran, 0);
    gate.Open();
  }
}

TEST_F(DestructionTest, PoolsComeAndGoWhileTheRegistryIsInUse) {
  PoolRegistry registry(kCapacity);
  std::atomic<bool> stop{false};
  std::vector<std::thread> users;
  for (int u = 0; u < 2; ++u) {
    users.emplace_back([&, u] {
      Random random(u);
      while (!stop) {
        registry.SetLimits(random.Between(0, kCapacity),
                           random.Between(0, kCapacity));
        for (const PoolStats& stats : registry.Stats()) {
          registry.SetPoolLimit(stats.id, random.Between(1, stats.capacity));
        }
        registry.WaitSettled(std::chrono::milliseconds(1));
        registry.GetLimits();
      }
    });
  }
  std::atomic<int> ran{0};
  std::vector<std::thread> builders;
  for (int b = 0; b < 3; ++b) {
    builders.emplace_back([&, b] {
      const char* const names[] = {kIntraName, kInterName, "data"};
      for (int round = 0; round < 60; ++round) {
        TestPool pool(names[b], 1 + round % 4, true, {}, &registry);
        for (int i = 0; i < 10; ++i) {
          pool.Schedule([&] { Grow(&pool, &ran, 2); });
        }
      }
    });
  }
  for (std::thread& builder : builders) builder.join();
  stop = true;
  for (std::thread& user : users) user.join();
  EXPECT_EQ(ran, 3 * 60 * 10 * 7);
  EXPECT_TRUE(registry.Stats().empty());
}

// The last task before a worker parks may hold the last reference to a tensor,
// and the worker may stay parked for hours.
TEST_F(DestructionTest, AClosureIsFreedBeforeItsWorkerParks) {
  PoolRegistry registry(kCapacity);
  TestPool pool(kIntraName, kCapacity, true, {}, &registry);
  for (int round = 0; round < 20; ++round) {
    pool.SetLimit(kCapacity);
    Gate gate;
    std::atomic<int> started{0};
    std::vector<std::shared_ptr<int>> captured;
    for (int i = 0; i < kCapacity; ++i) {
      captured.push_back(std::make_shared<int>(i));
      pool.Schedule([&, held = captured.back()] {
        ++started;
        gate.Wait();
      });
    }
    ASSERT_TRUE(Eventually([&] { return started == kCapacity; }));
    pool.SetLimit(1);
    gate.Open();
    for (const auto& held : captured) {
      EXPECT_TRUE(Eventually([&] { return held.use_count() == 1; }));
    }
  }
}

}  // namespace
}  // namespace tf_malleable
