// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// Tests that a task which is queued just when the limit is lowered does not
// wait in the queue of a parked worker while the other workers are busy.

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "cc/tests/test_util.h"

namespace tf_malleable {
namespace {

// Called once, when this thread puts its next task into a queue. By then, Eigen
// has read the limit and chosen the queue.
thread_local std::function<void()> before_queueing;

class InterruptedFunction {
 public:
  InterruptedFunction() = default;
  explicit InterruptedFunction(std::function<void()> function)
      : function_(std::move(function)) {}
  InterruptedFunction(InterruptedFunction&& other) noexcept {
    *this = std::move(other);
  }
  InterruptedFunction& operator=(InterruptedFunction&& other) noexcept {
    function_ = std::move(other.function_);
    other.function_ = nullptr;
    if (function_ && before_queueing) {
      std::exchange(before_queueing, nullptr)();
    }
    return *this;
  }
  explicit operator bool() const { return static_cast<bool>(function_); }
  void operator()() const { function_(); }

 private:
  std::function<void()> function_;
};

struct InterruptedEnvironment : Eigen::StlThreadEnvironment {
  struct Task {
    InterruptedFunction f;
  };
  Task CreateTask(std::function<void()> f) {
    return Task{InterruptedFunction(std::move(f))};
  }
  void ExecuteTask(const Task& task) { task.f(); }
};

using InterruptedPool = MalleablePool<InterruptedEnvironment>;

// Keeps the queues of the first workers filled from outside. So these always
// find a task in their own queue, and never look into those of others.
class Feeder {
 public:
  Feeder(InterruptedPool* pool, int workers) : pool_(pool), waiting_(workers) {
    thread_ = std::thread([this] { Feed(); });
  }
  ~Feeder() {
    stop_ = true;
    thread_.join();
    for (const std::atomic<int>& waiting : waiting_) {
      EXPECT_TRUE(Eventually([&waiting] { return waiting == 0; }));
    }
  }

 private:
  static constexpr int kBacklog = 200;  // Tens of milliseconds.

  void Feed() {
    while (!stop_) {
      for (int worker = 0; worker < static_cast<int>(waiting_.size());
           ++worker) {
        while (waiting_[worker] < kBacklog) {
          ++waiting_[worker];
          pool_->ScheduleWithHint(
              [this, worker] {
                SpinFor(std::chrono::microseconds(100));
                --waiting_[worker];
              },
              worker, worker + 1);
        }
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  InterruptedPool* const pool_;
  std::vector<std::atomic<int>> waiting_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

class StrayTest : public TimedTest {};

TEST_F(StrayTest, ATaskQueuedWithAStaleLimitRunsThoughThePoolIsBusy) {
  constexpr int kCapacity = 8;
  constexpr int kLimit = 2;
  PoolRegistry registry(kCapacity);
  InterruptedPool pool(kIntraName, kCapacity, true, {}, &registry);
  for (int round = 0; round < 5; ++round) {
    pool.SetLimit(kCapacity);
    std::atomic<bool> ran{false};
    Feeder feeder(&pool, kLimit);
    before_queueing = [&] {
      // All workers are busy, so those above the limit park when they end.
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      pool.SetLimit(kLimit);
      EXPECT_EQ(registry.WaitSettled(kPatience), Outcome::kDone);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    };
    pool.ScheduleWithHint([&ran] { ran = true; }, 5, 6);
    EXPECT_EQ(pool.limit(), kLimit);
    ASSERT_TRUE(Eventually([&ran] { return ran.load(); })) << round;
  }
}

}  // namespace
}  // namespace tf_malleable
