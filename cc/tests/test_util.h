// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// Helpers shared by the tests of the limits.

#ifndef TF_MALLEABLE_CC_TESTS_TEST_UTIL_H_
#define TF_MALLEABLE_CC_TESTS_TEST_UTIL_H_

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "cc/limits/malleable_pool.h"
#include "gtest/gtest.h"

namespace tf_malleable {

using TestPool = MalleablePool<Eigen::StlThreadEnvironment>;

// TensorFlow's names for its pools.
inline constexpr char kIntraName[] = "numa_-1_Eigen";
inline constexpr char kInterName[] = "Compute";

// Longer than any test takes on a busy machine with a sanitizer.
inline constexpr std::chrono::seconds kPatience{60};

// Ends the process if a test hangs. SIGALRM kills it whatever state its threads
// are in.
class TimedTest : public ::testing::Test {
 protected:
  void SetUp() override { alarm(2 * kPatience.count()); }
  void TearDown() override { alarm(0); }
};

inline bool Eventually(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return true;
}

// Keeps a CPU busy, so that the kernel does not report the thread as sleeping.
inline void SpinFor(std::chrono::microseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
  }
}

inline void RaiseTo(std::atomic<int>* highest, int value) {
  int seen = highest->load();
  while (seen < value && !highest->compare_exchange_weak(seen, value)) {
  }
}

// Threads that pass Wait() sleep until Open() is called.
class Gate {
 public:
  void Open() {
    std::lock_guard<std::mutex> lock(mu_);
    open_ = true;
    opened_.notify_all();
  }
  void Wait() {
    std::unique_lock<std::mutex> lock(mu_);
    opened_.wait(lock, [this] { return open_; });
  }

 private:
  std::mutex mu_;
  std::condition_variable opened_;
  bool open_ = false;  // Guarded by mu_.
};

// A small generator with a seed and no shared state; good enough for limits.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 2654435761u + 1) {}

  // In [low, high].
  int Between(int low, int high) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return low + static_cast<int>((state_ >> 33) % (high - low + 1));
  }

 private:
  uint64_t state_;
};

// Calls pool->SetLimit with random limits from several threads while it lives.
class LimitChanger {
 public:
  LimitChanger(RegisteredPool* pool, int num_threads) {
    for (int i = 0; i < num_threads; ++i) {
      threads_.emplace_back([this, pool, i] {
        Random random(i + 1);
        while (!stop_.load(std::memory_order_relaxed)) {
          pool->SetLimit(random.Between(1, pool->capacity()));
          changes_.fetch_add(1, std::memory_order_relaxed);
          // Bursts of changes, then time for the workers to follow.
          if (random.Between(0, 63) == 0) {
            std::this_thread::sleep_for(
                std::chrono::microseconds(random.Between(1, 500)));
          }
        }
      });
    }
  }
  ~LimitChanger() { Stop(); }

  void Stop() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }
  int64_t changes() const { return changes_; }

 private:
  std::atomic<bool> stop_{false};
  std::atomic<int64_t> changes_{0};
  std::vector<std::thread> threads_;
};

}  // namespace tf_malleable

#endif  // TF_MALLEABLE_CC_TESTS_TEST_UTIL_H_
