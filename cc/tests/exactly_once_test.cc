// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// Tests that every task runs exactly once, however the limit changes meanwhile.

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "cc/tests/test_util.h"

namespace tf_malleable {
namespace {

constexpr int kCapacity = 16;
constexpr int kChildren = 3;        // Tasks that every 4th task schedules.
constexpr int kQueueLength = 1024;  // Tasks in a worker's queue, in Eigen.

// Counts how often each task ran.
class Tally {
 public:
  explicit Tally(int tasks) : runs_(tasks) {}

  void Run(int task) {
    runs_[task].fetch_add(1, std::memory_order_relaxed);
    total_.fetch_add(1);
  }
  void ExpectEachOnce() {
    const int tasks = static_cast<int>(runs_.size());
    EXPECT_TRUE(Eventually([&] { return total_ >= tasks; }))
        << total_ << " of " << tasks;
    EXPECT_TRUE(std::all_of(runs_.begin(), runs_.end(),
                            [](const auto& runs) { return runs == 1; }));
  }

 private:
  std::vector<std::atomic<int>> runs_;
  std::atomic<int> total_{0};
};

class ExactlyOnceTest : public TimedTest,
                        public ::testing::WithParamInterface<bool> {};

TEST_P(ExactlyOnceTest, WhileSeveralThreadsChangeTheLimit) {
  constexpr int kOutside = 20000;  // Tasks that each thread schedules.
  constexpr int kThreads = 2;
  constexpr int kChanges = 40000;
  PoolRegistry registry(kCapacity);
  TestPool pool(kIntraName, 4, GetParam(), {}, &registry);
  LimitChanger changer(&pool, 3);
  Tally tally(kThreads * kOutside * (1 + kChildren));

  std::vector<std::thread> schedulers;
  for (int t = 0; t < kThreads; ++t) {
    schedulers.emplace_back([&, t] {
      Random random(100 + t);
      for (int i = 0; i < kOutside; ++i) {
        const int first = (t * kOutside + i) * (1 + kChildren);
        const auto parent = [&tally, &pool, first] {
          tally.Run(first);
          if (first % 16 != 0) {
            for (int c = 1; c <= kChildren; ++c) tally.Run(first + c);
            return;
          }
          for (int c = 1; c <= kChildren; ++c) {
            const auto child = [&tally, first, c] { tally.Run(first + c); };
            if (c == 1) {
              pool.Schedule(child);
            } else {
              pool.ScheduleWithHint(child, c, kCapacity);
            }
          }
        };
        const int start = random.Between(0, kCapacity - 1);
        switch (i % 3) {
          case 0:
            pool.Schedule(parent);
            break;
          case 1:
            pool.ScheduleWithHint(parent, start, start + 1);
            break;
          default:
            pool.ScheduleWithHint(parent, start,
                                  random.Between(start + 1, kCapacity));
        }
        // Pauses, so that workers become idle and are woken up again.
        if (i % 512 == 0) {
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
      }
    });
  }
  for (std::thread& scheduler : schedulers) scheduler.join();
  EXPECT_TRUE(Eventually([&] { return changer.changes() >= kChanges; }));
  tally.ExpectEachOnce();
  changer.Stop();
  EXPECT_EQ(registry.WaitSettled(kPatience), Outcome::kDone);
}

// With one task at a time, a wake-up lost between two limits becomes visible.
TEST_P(ExactlyOnceTest, OneAtATimeWhileTheLimitChanges) {
  constexpr int kTasks = 5000;
  PoolRegistry registry(kCapacity);
  TestPool pool(kIntraName, 4, GetParam(), {}, &registry);
  LimitChanger changer(&pool, 1);
  Random random(7);
  std::atomic<int> ran{0};
  for (int i = 0; i < kTasks; ++i) {
    const int start = random.Between(0, kCapacity - 1);
    pool.ScheduleWithHint([&ran] { ++ran; }, start, kCapacity);
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (ran <= i) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "task " << i;
      std::this_thread::yield();
    }
  }
  EXPECT_EQ(ran, kTasks);
}

TEST_P(ExactlyOnceTest, WithEveryQueueFull) {
  constexpr int kTasks = kCapacity * kQueueLength + 3000;
  PoolRegistry registry(kCapacity);
  TestPool pool(kIntraName, kCapacity, GetParam(), {}, &registry);
  Gate gate;
  std::atomic<int> held{0};
  for (int i = 0; i < kCapacity; ++i) {
    pool.Schedule([&] {
      ++held;
      gate.Wait();
    });
  }
  ASSERT_TRUE(Eventually([&] { return held == kCapacity; }));

  Tally tally(kTasks);
  int ran_here = 0;
  const auto self = std::this_thread::get_id();
  for (int i = 0; i < kTasks; ++i) {
    pool.Schedule([&, i] {
      if (std::this_thread::get_id() == self) ++ran_here;
      tally.Run(i);
    });
  }
  EXPECT_EQ(pool.Stats().queued, uint64_t{kCapacity * kQueueLength});
  EXPECT_EQ(ran_here, kTasks - kCapacity * kQueueLength);

  // Workers that park cannot hand over their tasks, as the queues are full.
  pool.SetLimit(1);
  gate.Open();
  tally.ExpectEachOnce();
  EXPECT_EQ(pool.limit(), 1);
}

// A worker that parks takes tasks out of its queue to hand them over. Others
// may fill both queues before it has to put a task back.
TEST_P(ExactlyOnceTest, WithQueuesFullWhileTheLimitChanges) {
  constexpr int kRounds = 8;
  constexpr int kTasks = 2 * kCapacity * kQueueLength;
  PoolRegistry registry(kCapacity);
  TestPool pool(kIntraName, kCapacity, GetParam(), {}, &registry);
  LimitChanger changer(&pool, 2);
  for (int round = 0; round < kRounds && !HasFailure(); ++round) {
    Tally tally(kTasks);
    for (int i = 0; i < kTasks; ++i) {
      pool.Schedule([&tally, i] {
        SpinFor(std::chrono::microseconds(2));
        tally.Run(i);
      });
    }
    tally.ExpectEachOnce();
  }
}

INSTANTIATE_TEST_SUITE_P(Spinning, ExactlyOnceTest, ::testing::Bool());

}  // namespace
}  // namespace tf_malleable
