// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.

#include "cc/limits/parallel_for.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "cc/tests/test_util.h"

namespace tf_malleable {
namespace {

constexpr int kCapacity = 8;

// Counts how often a loop visits each index.
class Coverage {
 public:
  explicit Coverage(int64_t total) : visits_(total) {}

  void Visit(int64_t begin, int64_t end) {
    if (begin < 0 || end > static_cast<int64_t>(visits_.size())) {
      out_of_range_ = true;
      return;
    }
    for (int64_t i = begin; i < end; ++i) ++visits_[i];
  }
  void ExpectEachOnce() const {
    EXPECT_FALSE(out_of_range_);
    EXPECT_TRUE(std::all_of(visits_.begin(), visits_.end(),
                            [](const auto& visits) { return visits == 1; }));
  }

 private:
  std::vector<std::atomic<int>> visits_;
  std::atomic<bool> out_of_range_{false};
};

class ParallelForTest : public TimedTest {
 protected:
  PoolRegistry registry_{kCapacity};
  TestPool pool_{kIntraName, 4, true, {}, &registry_};
};

TEST_F(ParallelForTest, NumFixedBlocksRoundsUp) {
  EXPECT_EQ(NumFixedBlocks(10, 3, 4), 4);
  EXPECT_EQ(NumFixedBlocks(9, 3, 4), 3);
  EXPECT_EQ(NumFixedBlocks(4, 3, 2), 2);
}

TEST_F(ParallelForTest, NumFixedBlocksIsOneWithNothingToSplit) {
  EXPECT_EQ(NumFixedBlocks(3, 3, 4), 1);
  EXPECT_EQ(NumFixedBlocks(10, 3, 1), 1);
  EXPECT_EQ(NumFixedBlocks(1, 1, 4), 1);
  EXPECT_EQ(NumFixedBlocks(0, 3, 4), 1);
  EXPECT_EQ(NumFixedBlocks(10, 0, 4), 1);
  EXPECT_EQ(NumFixedBlocks(10, -1, 4), 1);
}

TEST_F(ParallelForTest, FixedBlocksCoverEachIndexOnceAsBlocks) {
  for (const int64_t total : {2, 3, 7, 64, 1000, 4099}) {
    for (const int64_t block : {1, 2, 3, 16, 63, 999, 5000}) {
      for (const int limit : {1, 2, 3, 4, 8, 100}) {
        Coverage coverage(total);
        std::atomic<int64_t> calls{0};
        std::atomic<bool> misplaced{false};
        ParallelForFixedBlocks(
            &pool_, limit, total, block, [&](int64_t begin, int64_t end) {
              coverage.Visit(begin, end);
              ++calls;
              if (begin % block != 0 || end != std::min(begin + block, total))
                misplaced = true;
            });
        coverage.ExpectEachOnce();
        EXPECT_FALSE(misplaced);
        // Also at other limits than the one that the caller has read.
        EXPECT_EQ(calls, NumFixedBlocks(total, block, kCapacity))
            << total << " " << block << " " << limit;
      }
    }
  }
}

TEST_F(ParallelForTest, AtLimit1TheCallerDoesAllInOrder) {
  std::vector<std::pair<int64_t, int64_t>> calls;
  const auto caller = std::this_thread::get_id();
  ParallelForFixedBlocks(&pool_, 1, 25, 10, [&](int64_t begin, int64_t end) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    calls.emplace_back(begin, end);
  });
  const std::vector<std::pair<int64_t, int64_t>> blocks = {
      {0, 10}, {10, 20}, {20, 25}};
  EXPECT_EQ(calls, blocks);
}

TEST_F(ParallelForTest, APoolThatNeverHasMoreThanOneThreadDoesAllInOneCall) {
  TestPool alone("data", 1, true, {}, &registry_);
  std::vector<std::pair<int64_t, int64_t>> calls;
  ParallelForFixedBlocks(&alone, 1, 100, 10, [&](int64_t begin, int64_t end) {
    calls.emplace_back(begin, end);
  });
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_EQ(calls[0], std::make_pair(int64_t{0}, int64_t{100}));
}

// Returns the number of threads that a loop runs on. The first ones wait until
// as many as expected have come.
int ThreadsUsed(Eigen::ThreadPoolInterface* pool, int limit, int blocks,
                int expected) {
  std::atomic<int> running{0};
  std::atomic<int> most{0};
  ParallelForFixedBlocks(pool, limit, blocks, 1, [&](int64_t, int64_t) {
    RaiseTo(&most, ++running);
    std::this_thread::sleep_for(std::chrono::microseconds(500));
    Eventually([&] { return most >= expected; });
    --running;
  });
  return most;
}

TEST_F(ParallelForTest, UsesAsManyThreadsAsTheLimitAndNoMore) {
  pool_.SetLimit(kCapacity);
  for (const int limit : {1, 2, 3, 4}) {
    EXPECT_EQ(ThreadsUsed(&pool_, limit, 200, limit), limit);
  }
}

TEST_F(ParallelForTest, TheCallerDoesOneOfFewBlocks) {
  pool_.SetLimit(kCapacity);
  for (const int limit : {2, 3, 4}) {
    EXPECT_EQ(ThreadsUsed(&pool_, limit, limit + 1, limit + 1), limit + 1);
  }
}

TEST_F(ParallelForTest, AWorkerThatCallsCountsAmongTheLimit) {
  pool_.SetLimit(kCapacity);
  std::atomic<int> used{0};
  pool_.Schedule([&] { used = ThreadsUsed(&pool_, 3, 200, 3); });
  EXPECT_TRUE(Eventually([&] { return used != 0; }));
  EXPECT_EQ(used, 3);
}

// Runs tasks on threads of their own and counts what each thread schedules.
class CountingPool : public Eigen::ThreadPoolInterface {
 public:
  ~CountingPool() override {
    for (;;) {
      std::thread next;
      {
        std::lock_guard<std::mutex> lock(mu_);
        if (threads_.empty()) return;
        next = std::move(threads_.back());
        threads_.pop_back();
      }
      next.join();
    }
  }
  void Schedule(std::function<void()> fn) override {
    std::lock_guard<std::mutex> lock(mu_);
    most_ = std::max(most_, ++scheduled_[std::this_thread::get_id()]);
    threads_.emplace_back(std::move(fn));
  }
  int NumThreads() const override { return kThreads; }
  int CurrentThreadId() const override { return -1; }
  int most() {
    std::lock_guard<std::mutex> lock(mu_);
    return most_;
  }
  int tasks() {
    std::lock_guard<std::mutex> lock(mu_);
    int tasks = 0;
    for (const auto& [thread, count] : scheduled_) tasks += count;
    return tasks;
  }

  static constexpr int kThreads = 32;

 private:
  std::mutex mu_;  // Guards all that follows.
  std::map<std::thread::id, int> scheduled_;
  int most_ = 0;
  std::vector<std::thread> threads_;
};

TEST_F(ParallelForTest, NoThreadStartsMoreThanTwoOthers) {
  CountingPool pool;
  std::atomic<int> begun{0};
  ParallelForFixedBlocks(
      &pool, CountingPool::kThreads, CountingPool::kThreads, 1,
      [&begun](int64_t, int64_t) {
        ++begun;
        Eventually([&begun] { return begun == CountingPool::kThreads; });
      });
  EXPECT_EQ(begun, CountingPool::kThreads);
  EXPECT_EQ(pool.tasks(), CountingPool::kThreads - 1);
  EXPECT_LE(pool.most(), 2);
}

// Only the caller can run the blocks.
TEST_F(ParallelForTest, AWorkerCompletesALoopAlone) {
  pool_.SetLimit(1);
  ASSERT_EQ(registry_.WaitSettled(kPatience), Outcome::kDone);
  Coverage coverage(1000);
  std::atomic<bool> done{false};
  pool_.Schedule([&] {
    // For 4: as if the limit had been lowered since the caller asked.
    ParallelForFixedBlocks(&pool_, 4, 1000, 10,
                           [&](int64_t b, int64_t e) { coverage.Visit(b, e); });
    done = true;
  });
  EXPECT_TRUE(Eventually([&] { return done.load(); }));
  coverage.ExpectEachOnce();
  EXPECT_EQ(pool_.Stats().stand_ins, 0u);
}

// Every worker waits in a loop, and the loops' helpers are all queued.
TEST_F(ParallelForTest, NestedLoopsCompleteOnEveryWorkerAtOnce) {
  Coverage coverage(64 * 100);
  ParallelForFixedBlocks(&pool_, 4, 64, 1, [&](int64_t outer, int64_t) {
    ParallelForFixedBlocks(&pool_, 4, 100, 7, [&](int64_t b, int64_t e) {
      coverage.Visit(outer * 100 + b, outer * 100 + e);
    });
  });
  coverage.ExpectEachOnce();
}

// A late helper must not use the function, which is gone.
TEST_F(ParallelForTest, HelpersThatComeLateFindNothingToDo) {
  pool_.SetLimit(1);
  ASSERT_EQ(registry_.WaitSettled(kPatience), Outcome::kDone);
  Gate gate;
  std::atomic<bool> held{false};
  pool_.Schedule([&] {
    held = true;
    gate.Wait();
  });
  ASSERT_TRUE(Eventually([&] { return held.load(); }));
  int64_t visited = 0;
  {
    auto owned = std::make_unique<int64_t>(0);
    ParallelForFixedBlocks(&pool_, 4, 100, 20,
                           [&](int64_t b, int64_t e) { *owned += e - b; });
    visited = *owned;
  }
  EXPECT_EQ(visited, 100);
  // The other helpers would have been started by these.
  EXPECT_EQ(pool_.Stats().queued, 2u);
  gate.Open();
  EXPECT_TRUE(Eventually([&] { return pool_.Stats().tasks == 3; }));
}

TEST_F(ParallelForTest, FixedBlocksCompleteWhileTheLimitChanges) {
  LimitChanger changer(&pool_, 2);
  for (int round = 0; round < 300; ++round) {
    Coverage coverage(500);
    const auto body = [&](int64_t b, int64_t e) { coverage.Visit(b, e); };
    if (round % 2 == 0) {
      ParallelForFixedBlocks(&pool_, pool_.limit(), 500, 7, body);
    } else {
      std::atomic<bool> done{false};
      pool_.Schedule([&] {
        ParallelForFixedBlocks(&pool_, pool_.limit(), 500, 7, body);
        done = true;
      });
      ASSERT_TRUE(Eventually([&] { return done.load(); }));
    }
    coverage.ExpectEachOnce();
  }
}

TEST_F(ParallelForTest, ThreadNumbersStayWithinTheLimitAndAreNeverShared) {
  pool_.SetLimit(kCapacity);  // More workers than numbers.
  for (const int limit : {1, 2, 3}) {
    const int threads = limit == 1 ? 1 : limit + 1;
    Coverage coverage(500);
    std::vector<std::atomic<int>> users(threads);
    std::atomic<bool> shared{false};
    std::atomic<bool> out_of_range{false};
    ParallelForWithThreadNumber(
        &pool_, limit, 500, 3, [&](int64_t begin, int64_t end, int thread) {
          if (thread < 0 || thread >= threads) {
            out_of_range = true;
            return;
          }
          if (++users[thread] > 1) shared = true;
          std::this_thread::sleep_for(std::chrono::microseconds(50));
          coverage.Visit(begin, end);
          --users[thread];
        });
    coverage.ExpectEachOnce();
    EXPECT_FALSE(shared);
    EXPECT_FALSE(out_of_range);
  }
}

// Loops thus use the buffers that were cleared last.
TEST_F(ParallelForTest, ThreadNumber0IsTheCallers) {
  std::atomic<bool> another{false};
  const auto caller = std::this_thread::get_id();
  for (const int64_t total : {2, 3, 500}) {
    ParallelForWithThreadNumber(
        &pool_, 2, total, 1, [&](int64_t, int64_t, int thread) {
          if ((thread == 0) != (std::this_thread::get_id() == caller))
            another = true;
        });
  }
  EXPECT_FALSE(another);
}

TEST_F(ParallelForTest, BlocksByCostAreWorthATask) {
  EXPECT_EQ(BlockSizeByCost(1000, 1, 4), 1000);        // Not worth two threads.
  EXPECT_EQ(BlockSizeByCost(1000, 1000000, 1), 1000);  // One thread only.
  EXPECT_EQ(BlockSizeByCost(1600, 1000000, 4), 100);   // Four blocks a thread.
  EXPECT_EQ(BlockSizeByCost(3, 1000000, 4), 1);
  EXPECT_GE(BlockSizeByCost(0, 1000000, 4), 1);
}

TEST_F(ParallelForTest, ByCostCoversEachIndexOnce) {
  for (const int64_t total : {1, 2, 7, 1000, 4099}) {
    for (const int64_t cost : {0, 1, 1000, 10000000}) {
      for (const int limit : {1, 2, 4, 8}) {
        Coverage coverage(total);
        ParallelForByCost(&pool_, limit, total, cost,
                          [&](int64_t b, int64_t e) { coverage.Visit(b, e); });
        coverage.ExpectEachOnce();
      }
    }
  }
}

TEST_F(ParallelForTest, ByCostSplitsCostlyWorkOnly) {
  std::atomic<int> calls{0};
  const auto count = [&](int64_t, int64_t) { ++calls; };
  ParallelForByCost(&pool_, 4, 100, 1, count);
  EXPECT_EQ(calls, 1);
  calls = 0;
  ParallelForByCost(&pool_, 1, 100, 10000000, count);
  EXPECT_EQ(calls, 1);
  calls = 0;
  ParallelForByCost(&pool_, 4, 100, 10000000, count);
  EXPECT_GE(calls, 4);
}

TEST_F(ParallelForTest, ByCostCompletesWhileTheLimitChanges) {
  LimitChanger changer(&pool_, 2);
  for (int round = 0; round < 300; ++round) {
    Coverage coverage(500);
    ParallelForByCost(&pool_, pool_.limit(), 500, 100000,
                      [&](int64_t b, int64_t e) { coverage.Visit(b, e); });
    coverage.ExpectEachOnce();
  }
}

}  // namespace
}  // namespace tf_malleable
