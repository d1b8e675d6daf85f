// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// Tests everything at once, for a few seconds.

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "cc/limits/parallel_for.h"
#include "cc/tests/test_util.h"

namespace tf_malleable {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kCapacity = 12;
constexpr std::chrono::seconds kDuration{5};

class StressTest : public TimedTest {};

class Session {
 public:
  Session(PoolRegistry* registry, uint64_t seed)
      : random_(seed),
        intra_(kIntraName, random_.Between(1, kCapacity),
               random_.Between(0, 1) == 1, {}, registry),
        inter_(kInterName, random_.Between(1, kCapacity),
               random_.Between(0, 1) == 1, {}, registry) {}

  // Like a session, runs ops on the inter-op pool that have parallel loops on
  // the intra-op pool; checks that each did its work.
  void Run(int ops) {
    std::atomic<int> left{ops};
    std::atomic<int64_t> sum{0};
    int64_t expected = 0;
    for (int op = 0; op < ops; ++op) {
      const int64_t total = random_.Between(1, 300);
      const int64_t block = random_.Between(1, 50);
      const int kind = random_.Between(0, 3);
      const int start = random_.Between(0, kCapacity - 1);
      expected += total;
      inter_.ScheduleWithHint(
          [this, &left, &sum, total, block, kind] {
            RunOp(kind, total, block, &sum);
            --left;
          },
          start, random_.Between(start + 1, kCapacity));
    }
    ASSERT_TRUE(Eventually([&left] { return left == 0; })) << left;
    EXPECT_EQ(sum, expected);
  }

  // Tasks that only the destructors wait for.
  void Abandon(const std::shared_ptr<std::atomic<int>>& ran, int tasks) {
    for (int i = 0; i < tasks; ++i) {
      intra_.Schedule([ran] {
        SpinFor(std::chrono::microseconds(5));
        ++*ran;
      });
    }
  }

 private:
  void RunOp(int kind, int64_t total, int64_t block,
             std::atomic<int64_t>* sum) {
    const auto body = [sum](int64_t begin, int64_t end) {
      if (begin % 64 == 0) SpinFor(std::chrono::microseconds(3));
      *sum += end - begin;
    };
    switch (kind) {
      case 0:
        ParallelForFixedBlocks(&intra_, intra_.limit(), total, block, body);
        return;
      case 1:
        ParallelForByCost(&intra_, intra_.limit(), total, 20000, body);
        return;
      case 2:
        std::this_thread::sleep_for(std::chrono::microseconds(200));
        body(0, total);
        return;
      default: {
        Eigen::Barrier done(static_cast<unsigned>(total));
        for (int64_t i = 0; i < total; ++i) {
          intra_.Schedule([&done, &body] {
            body(0, 1);
            done.Notify();
          });
        }
        done.Wait();
      }
    }
  }

  Random random_;
  TestPool intra_;
  TestPool inter_;
};

TEST_F(StressTest, SessionsRunWhileLimitsChange) {
  PoolRegistry registry(kCapacity);
  const auto end = Clock::now() + kDuration;
  std::atomic<bool> stop{false};
  std::atomic<int> sessions{0};

  std::vector<std::thread> clients;
  for (int c = 0; c < 3; ++c) {
    clients.emplace_back([&, c] {
      for (int round = 0; Clock::now() < end; ++round) {
        Random random(1000 * c + round);
        const auto abandoned = std::make_shared<std::atomic<int>>(0);
        const int tasks = random.Between(0, 300);
        {
          Session session(&registry, 1000 * c + round);
          for (int i = random.Between(1, 6); i > 0; --i) session.Run(50);
          session.Abandon(abandoned, tasks);
        }
        EXPECT_EQ(*abandoned, tasks);
        EXPECT_EQ(abandoned.use_count(), 1);
        ++sessions;
      }
    });
  }
  std::vector<std::thread> changers;
  for (int c = 0; c < 2; ++c) {
    changers.emplace_back([&, c] {
      Random random(c);
      while (!stop) {
        registry.SetLimits(random.Between(-1, kCapacity),
                           random.Between(-1, kCapacity));
        if (c == 0) registry.WaitSettled(std::chrono::milliseconds(2));
        for (const PoolStats& stats : registry.Stats()) {
          EXPECT_LE(stats.active, stats.capacity);
          EXPECT_GE(stats.limit, 1);
          EXPECT_LE(stats.limit, stats.capacity);
          registry.SetPoolLimit(stats.id, random.Between(1, kCapacity));
        }
        std::this_thread::sleep_for(
            std::chrono::microseconds(random.Between(0, 300)));
      }
    });
  }
  for (std::thread& client : clients) client.join();
  stop = true;
  for (std::thread& changer : changers) changer.join();
  EXPECT_GT(sessions, 0);
  EXPECT_TRUE(registry.Stats().empty());
}

}  // namespace
}  // namespace tf_malleable
