// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// Records of the workers of an Eigen thread pool: their states and totals.
//
// This header is copied beside Eigen's own, so it depends only on the standard
// library and on Linux.

#ifndef TF_MALLEABLE_CC_LIMITS_EIGEN_WORKER_RECORDS_H_
#define TF_MALLEABLE_CC_LIMITS_EIGEN_WORKER_RECORDS_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>

#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace tf_malleable {

// Size of a cache line in bytes. Two threads that write to the same line slow
// each other down.
inline constexpr int kCacheLine = 64;

// Reads a clock that is cheap enough to be read twice per task: the time-stamp
// counter if there is one, else nanoseconds.
inline uint64_t Ticks() {
#if defined(__x86_64__)
  return __rdtsc();
#else
  return static_cast<uint64_t>(
      std::chrono::steady_clock::now().time_since_epoch() /
      std::chrono::nanoseconds(1));
#endif
}

// Thread-safety: only a worker itself writes its record; any thread may read
// all records.
class WorkerRecords {
 public:
  // State of a worker. kClaimed lasts for a few instructions.
  enum State : uint8_t { kIdle, kClaimed, kRunning, kStandingIn };

  // Totals of one pool since it was built.
  struct Totals {
    uint64_t tasks = 0;
    uint64_t busy_ticks = 0;  // In units of Ticks().
  };

  explicit WorkerRecords(int workers)
      : size_(workers), records_(std::make_unique<Record[]>(workers)) {}

  int size() const { return size_; }
  State state(int worker) const {
    return records_[worker].state.load(std::memory_order_seq_cst);
  }
  // Number of tasks that the worker has finished.
  uint64_t tasks(int worker) const {
    return records_[worker].tasks.load(std::memory_order_relaxed);
  }
  // Kernel id of the worker's thread; 0 if the thread has not begun.
  int tid(int worker) const {
    return records_[worker].tid.load(std::memory_order_relaxed);
  }

  // Called on the worker's thread, before all others.
  void Bind(int worker) {
#ifdef __linux__
    records_[worker].tid.store(static_cast<int>(syscall(SYS_gettid)),
                               std::memory_order_relaxed);
#else
    (void)worker;
#endif
  }

  // A task begins with Claim and then Confirm or Drop, or with StandIn; Finish
  // ends it.
  void Claim(int worker) {
    Record& record = records_[worker];
    record.started.store(Ticks(), std::memory_order_relaxed);
    record.state.store(kClaimed, std::memory_order_seq_cst);
  }
  void Confirm(int worker) {
    records_[worker].state.store(kRunning, std::memory_order_release);
  }
  void Drop(int worker) {
    records_[worker].state.store(kIdle, std::memory_order_release);
  }
  void StandIn(int worker) {
    Record& record = records_[worker];
    record.started.store(Ticks(), std::memory_order_relaxed);
    record.state.store(kStandingIn, std::memory_order_seq_cst);
  }
  void Finish(int worker) {
    Record& record = records_[worker];
    const uint64_t started = record.started.load(std::memory_order_relaxed);
    const uint64_t now = Ticks();
    // Only this worker writes these, so plain additions suffice.
    record.tasks.store(record.tasks.load(std::memory_order_relaxed) + 1,
                       std::memory_order_relaxed);
    if (now > started) {
      record.busy.store(
          record.busy.load(std::memory_order_relaxed) + (now - started),
          std::memory_order_relaxed);
    }
    record.state.store(kIdle, std::memory_order_release);
  }

  // Returns the number of workers that run a task now. A stand-in takes the
  // place of a sleeping worker, which is counted already.
  int Active() const {
    int active = 0;
    for (int i = 0; i < size_; ++i) {
      if (records_[i].state.load(std::memory_order_acquire) == kRunning) {
        ++active;
      }
    }
    return active;
  }

  // Returns true if none of the workers from `first` on runs a task or is about
  // to, other than as a stand-in.
  bool SettledFrom(int first) const {
    for (int i = first; i < size_; ++i) {
      const State now = state(i);
      if (now == kClaimed || now == kRunning) return false;
    }
    return true;
  }

  // Returns true if none of the workers from `first` on runs a task.
  bool IdleFrom(int first) const {
    for (int i = first; i < size_; ++i) {
      if (state(i) != kIdle) return false;
    }
    return true;
  }

  Totals Read() const {
    Totals totals;
    const uint64_t now = Ticks();
    for (int i = 0; i < size_; ++i) {
      const Record& record = records_[i];
      totals.tasks += record.tasks.load(std::memory_order_relaxed);
      totals.busy_ticks += record.busy.load(std::memory_order_relaxed);
      const uint64_t started = record.started.load(std::memory_order_relaxed);
      if (record.state.load(std::memory_order_relaxed) != kIdle &&
          now > started) {
        totals.busy_ticks += now - started;
      }
    }
    return totals;
  }

 private:
  struct alignas(kCacheLine) Record {
    std::atomic<State> state{kIdle};
    std::atomic<int> tid{0};
    std::atomic<uint64_t> started{0};  // In Ticks().
    std::atomic<uint64_t> tasks{0};
    std::atomic<uint64_t> busy{0};  // In Ticks().
  };
  static_assert(sizeof(Record) == kCacheLine);

  const int size_;
  const std::unique_ptr<Record[]> records_;
};

}  // namespace tf_malleable

#endif  // TF_MALLEABLE_CC_LIMITS_EIGEN_WORKER_RECORDS_H_
