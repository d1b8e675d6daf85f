// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// Tests the number of tasks that run at once, which the tasks count themselves.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "cc/tests/test_util.h"

namespace tf_malleable {
namespace {

constexpr int kCapacity = 16;

// Counts running tasks, in phases. Phase and count change atomically, as a task
// of an earlier phase must not be counted in a later one.
class Meter {
 public:
  explicit Meter(int max_phases) : highest_(max_phases) {}

  void Enter() {
    const uint64_t before = state_.fetch_add(1);
    const int running = static_cast<int>(before & 0xffffffff) + 1;
    RaiseTo(&highest_[before >> 32], running);
  }
  void Leave() { state_.fetch_sub(1); }

  // Begins a new phase and returns it.
  int NextPhase() {
    return static_cast<int>(state_.fetch_add(uint64_t{1} << 32) >> 32) + 1;
  }
  int Highest(int phase) const { return highest_[phase].load(); }

 private:
  std::atomic<uint64_t> state_{0};
  std::vector<std::atomic<int>> highest_;
};

// Keeps more tasks than workers in a pool: chains of tasks that schedule their
// successors, and now and then a task from outside.
class Load {
 public:
  Load(TestPool* pool, Meter* meter) : pool_(pool), meter_(meter) {
    for (int i = 0; i < 3 * kCapacity; ++i) Add(i);
    feeder_ = std::thread([this] {
      for (int i = 0; !stop_; ++i) {
        if (outside_ < 4 * kCapacity) {
          ++outside_;
          ++unfinished_;
          pool_->ScheduleWithHint(
              [this, i] {
                Run(i);
                --outside_;
                --unfinished_;
              },
              i % kCapacity, kCapacity);
        }
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      }
    });
  }
  ~Load() {
    stop_ = true;
    feeder_.join();
    EXPECT_TRUE(Eventually([this] { return unfinished_ == 0; }));
  }

 private:
  void Add(int seed) {
    ++unfinished_;
    pool_->Schedule([this, seed] {
      Run(seed);
      if (!stop_) Add(seed + 1);
      --unfinished_;
    });
  }
  void Run(int seed) {
    meter_->Enter();
    if (seed % 3 == 0) {
      std::this_thread::sleep_for(
          std::chrono::microseconds(100 + seed * 37 % 900));
    } else {
      SpinFor(std::chrono::microseconds(1 + seed % 5));
    }
    meter_->Leave();
  }

  TestPool* const pool_;
  Meter* const meter_;
  std::atomic<bool> stop_{false};
  std::atomic<int> unfinished_{0};
  std::atomic<int> outside_{0};
  std::thread feeder_;
};

class ConcurrencyTest : public TimedTest,
                        public ::testing::WithParamInterface<bool> {};

TEST_P(ConcurrencyTest, ReachesEveryLimitAndNeverExceedsIt) {
  constexpr int kRounds = 3;
  PoolRegistry registry(kCapacity);
  TestPool pool(kIntraName, 4, GetParam(), {}, &registry);
  Meter meter(kRounds * kCapacity + 1);
  Load load(&pool, &meter);

  std::vector<int> limits(kCapacity);
  std::iota(limits.begin(), limits.end(), 1);
  std::mt19937 random(1);
  for (int round = 0; round < kRounds; ++round) {
    std::shuffle(limits.begin(), limits.end(), random);
    for (const int limit : limits) {
      pool.SetLimit(limit);
      ASSERT_EQ(registry.WaitSettled(kPatience), Outcome::kDone);
      const int phase = meter.NextPhase();
      int most_active = 0;
      const auto look = [&] {
        most_active = std::max(most_active, pool.Stats().active);
      };
      EXPECT_TRUE(Eventually([&] {
        look();
        return meter.Highest(phase) >= limit;
      })) << "limit "
          << limit;
      const auto end =
          std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
      while (std::chrono::steady_clock::now() < end) look();
      EXPECT_EQ(meter.Highest(phase), limit);
      EXPECT_LE(most_active, limit);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Spinning, ConcurrencyTest, ::testing::Bool());

class ConcurrencyStatsTest : public TimedTest {};

TEST_F(ConcurrencyStatsTest, CountsActiveAndQueuedTasks) {
  PoolRegistry registry(8);
  TestPool pool(kIntraName, 8, true, {}, &registry);
  Gate gate;
  std::atomic<int> started{0};
  for (int i = 0; i < 8; ++i) {
    pool.Schedule([&] {
      ++started;
      gate.Wait();
    });
  }
  ASSERT_TRUE(Eventually([&] { return started == 8; }));
  std::atomic<int> ran{0};
  for (int i = 0; i < 5; ++i) pool.Schedule([&] { ++ran; });
  PoolStats stats = pool.Stats();
  EXPECT_EQ(stats.name, std::string("tf_") + kIntraName);
  EXPECT_EQ(stats.kind, PoolKind::kIntraOp);
  EXPECT_EQ(stats.capacity, 8);
  EXPECT_EQ(stats.limit, 8);
  EXPECT_EQ(stats.active, 8);
  EXPECT_EQ(stats.queued, 5u);
  EXPECT_EQ(stats.tasks, 0u);
  EXPECT_GT(stats.busy_seconds, 0);

  pool.SetLimit(3);
  EXPECT_FALSE(pool.Settled());
  EXPECT_EQ(registry.WaitSettled(std::chrono::milliseconds(5)),
            Outcome::kTimedOut);
  gate.Open();
  EXPECT_EQ(registry.WaitSettled(kPatience), Outcome::kDone);
  ASSERT_TRUE(Eventually([&] { return pool.Stats().tasks == 13; }));
  stats = pool.Stats();
  EXPECT_EQ(ran, 5);
  EXPECT_EQ(stats.limit, 3);
  EXPECT_EQ(stats.active, 0);
  EXPECT_EQ(stats.queued, 0u);
}

// A lowered limit takes effect between two tasks of a worker, not within one.
TEST_F(ConcurrencyStatsTest, TasksRunOnAdmittedWorkersOnly) {
  PoolRegistry registry(8);
  TestPool pool(kIntraName, 8, true, {}, &registry);
  for (const int limit : {3, 1, 5, 2, 8, 1}) {
    pool.SetLimit(limit);
    ASSERT_EQ(registry.WaitSettled(kPatience), Outcome::kDone);
    std::atomic<int> left{2000};
    std::atomic<int> highest_id{-1};
    for (int i = 0; i < 2000; ++i) {
      pool.ScheduleWithHint(
          [&] {
            RaiseTo(&highest_id, pool.CurrentThreadId());
            --left;
          },
          i % 8, 8);
    }
    ASSERT_TRUE(Eventually([&] { return left == 0; }));
    EXPECT_GE(highest_id, 0);
    EXPECT_LT(highest_id, limit);
  }
}

}  // namespace
}  // namespace tf_malleable
