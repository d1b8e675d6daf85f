// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// Decides which workers of an Eigen thread pool may run tasks, and counts what
// they run.
//
// The patch in patches/eigen gives every Eigen ThreadPoolTempl one ActiveLimit.
// This header is copied beside Eigen's own, so it depends only on the standard
// library and, for its stall watch, on Linux.

#ifndef TF_MALLEABLE_CC_LIMITS_ACTIVE_LIMIT_H_
#define TF_MALLEABLE_CC_LIMITS_ACTIVE_LIMIT_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace tf_malleable {

// Workers are admitted by index: with limit n, workers 0 … n-1 run tasks, and
// the others park as soon as they have finished their task. As no other worker
// can start a task, at most n run once the pool has settled, at any instant.
//
// A worker that sleeps inside its task (for example in a nested ParallelFor)
// keeps its place. The same is true of a pool built with n threads, but there
// the nested loop knows n and runs inline if need be. Here the limit may be
// lowered after the loop has queued its parts, and then nobody would run them.
// So Park() detects a stall: tasks are queued while all admitted workers have
// been asleep, each in one task, for kStallAfter. A parked worker then stands
// in for them until one of them continues.
//
// Thread-safety: all methods may be called from any thread, except that
// BeginTask, BeginStandIn, EndTask, BindWorker and Park may only be called by
// the worker that they name.
class ActiveLimit {
 public:
  static constexpr std::chrono::milliseconds kStallAfter{1000};
  static constexpr int kStallSamples = 4;

  // What one pool has done since it was built.
  struct Totals {
    uint64_t tasks = 0;
    uint64_t busy_ticks = 0;  // In units of Ticks().
    uint64_t stand_ins = 0;   // Tasks run by stand-ins.
  };

  // REQUIRES: 1 <= limit <= capacity
  ActiveLimit(int capacity, int limit)
      : capacity_(capacity),
        limit_(limit),
        highest_(limit),
        workers_(std::make_unique<Worker[]>(capacity)) {}

  ActiveLimit(const ActiveLimit&) = delete;
  ActiveLimit& operator=(const ActiveLimit&) = delete;

  int limit() const { return limit_.load(std::memory_order_acquire); }

  // The highest limit so far. Tasks are queued for admitted workers only, so
  // the queues at and above this index have always been empty, and a pool with
  // spare capacity need not look into them.
  int highest() const { return highest_.load(std::memory_order_relaxed); }

  bool Admits(int worker) const {
    return worker < limit_.load(std::memory_order_seq_cst);
  }

  // Sets the limit and returns the previous one. Parked workers that it admits
  // are woken up; workers above it finish their tasks first. To be fast, this
  // wakes one thread at most, which wakes the others.
  // REQUIRES: 1 <= limit <= capacity
  int Set(int limit) {
    std::lock_guard<std::mutex> lock(park_mu_);
    // Before the limit, so that whoever sees the new limit sees this, too.
    if (limit > highest()) highest_.store(limit, std::memory_order_relaxed);
    const int previous = limit_.exchange(limit, std::memory_order_seq_cst);
    for (int i = previous; i < limit; ++i) {
      if (!workers_[i].parked) continue;
      rouse_ = true;  // That worker wakes the others.
      workers_[i].wake_up.notify_one();
      break;
    }
    return previous;
  }

  // BeginTask and EndTask bracket one task. BeginTask returns false if the
  // limit does not admit the worker, which must then hand over the task.
  bool BeginTask(int worker) {
    Worker& w = workers_[worker];
    w.started.store(Ticks(), std::memory_order_relaxed);
    // Claim first, then check the limit: either the worker sees a new limit, or
    // whoever set that limit sees the claim.
    w.state.store(kClaimed, std::memory_order_seq_cst);
    const bool admitted = Admits(worker);
    w.state.store(admitted ? kRunning : kIdle, std::memory_order_release);
    return admitted;
  }
  // Begins a task above the limit, in place of a sleeping worker.
  void BeginStandIn(int worker) {
    Worker& w = workers_[worker];
    w.started.store(Ticks(), std::memory_order_relaxed);
    w.state.store(kStandingIn, std::memory_order_release);
  }
  void EndTask(int worker) {
    Worker& w = workers_[worker];
    const uint64_t started = w.started.load(std::memory_order_relaxed);
    const uint64_t now = Ticks();
    // Only this worker writes these, so plain additions suffice.
    w.tasks.store(w.tasks.load(std::memory_order_relaxed) + 1,
                  std::memory_order_relaxed);
    if (now > started) {
      w.busy.store(w.busy.load(std::memory_order_relaxed) + (now - started),
                   std::memory_order_relaxed);
    }
    w.state.store(kIdle, std::memory_order_release);
  }

  // Blocks `worker` until the limit admits it (returns true) or Shutdown
  // (returns false). Meanwhile it may stand in for admitted workers that are
  // all asleep: `has_work()` tells whether a task is queued, `run_one()` runs
  // one.
  template <typename HasWork, typename RunOne>
  bool Park(int worker, HasWork has_work, RunOne run_one) {
    Worker& me = workers_[worker];
    std::unique_lock<std::mutex> lock(park_mu_);
    me.parked = true;
    while (!shutdown_ && !Admits(worker)) {
      if (watched_ || !NeedsWatch()) {
        me.wake_up.wait(lock);
        continue;
      }
      watched_ = true;
      const std::vector<uint64_t> stalled =
          WatchForStall(worker, &lock, has_work);
      watched_ = false;
      if (stalled.empty()) continue;
      me.parked = false;
      FindWatcher();
      lock.unlock();
      while (has_work() && IsStalled(stalled, worker) && run_one()) {
        stand_ins_.fetch_add(1, std::memory_order_relaxed);
      }
      lock.lock();
      me.parked = true;
    }
    me.parked = false;
    if (rouse_) {
      rouse_ = false;
      for (int i = 0; i < limit(); ++i) {
        if (workers_[i].parked) workers_[i].wake_up.notify_one();
      }
    }
    FindWatcher();
    return !shutdown_;
  }

  // Makes Park return false, now and later.
  void Shutdown() {
    std::lock_guard<std::mutex> lock(park_mu_);
    shutdown_ = true;
    for (int i = 0; i < capacity_; ++i) workers_[i].wake_up.notify_one();
  }

  // Idle workers wait for tasks in the pool's event count, not in Park. After
  // the limit was lowered, the next worker that a task wakes up takes this
  // request and wakes up all others, so that those above the limit park. That
  // costs one unnecessary wake-up per change instead of one for most tasks.
  void RequestSweep() { sweep_.store(true, std::memory_order_release); }
  bool TakeSweepRequest() {
    return sweep_.load(std::memory_order_relaxed) &&
           sweep_.exchange(false, std::memory_order_acq_rel);
  }

  // Tells the stall watch the thread of `worker`. Called on that thread.
  void BindWorker(int worker) {
#ifdef __linux__
    workers_[worker].tid.store(static_cast<int>(syscall(SYS_gettid)),
                               std::memory_order_relaxed);
#else
    (void)worker;
#endif
  }

  // Workers running a task now. A stand-in takes the place of a sleeping
  // worker, which is counted already.
  int Active() const {
    int active = 0;
    for (int i = 0; i < capacity_; ++i) {
      if (workers_[i].state.load(std::memory_order_acquire) == kRunning) {
        ++active;
      }
    }
    return active;
  }

  // True if no worker above the limit is running a task, or about to. From then
  // on, Active() is at most the limit, until the limit changes.
  bool Settled() const {
    for (int i = limit_.load(std::memory_order_seq_cst); i < capacity_; ++i) {
      const State state = workers_[i].state.load(std::memory_order_seq_cst);
      if (state == kClaimed || state == kRunning) return false;
    }
    return true;
  }

  Totals ReadTotals() const {
    Totals totals;
    const uint64_t now = Ticks();
    for (int i = 0; i < capacity_; ++i) {
      const Worker& w = workers_[i];
      totals.tasks += w.tasks.load(std::memory_order_relaxed);
      totals.busy_ticks += w.busy.load(std::memory_order_relaxed);
      const uint64_t started = w.started.load(std::memory_order_relaxed);
      if (w.state.load(std::memory_order_relaxed) != kIdle && now > started) {
        totals.busy_ticks += now - started;
      }
    }
    totals.stand_ins = stand_ins_.load(std::memory_order_relaxed);
    return totals;
  }

  // A clock that is cheap enough to be read twice per task: the time-stamp
  // counter if there is one, else nanoseconds.
  static uint64_t Ticks() {
#if defined(__x86_64__)
    return __rdtsc();
#else
    return static_cast<uint64_t>(
        std::chrono::steady_clock::now().time_since_epoch() /
        std::chrono::nanoseconds(1));
#endif
  }

 private:
  // The state of a worker. kClaimed lasts for a few instructions.
  enum State : uint8_t { kIdle, kClaimed, kRunning, kStandingIn };

  // One cache line each, to avoid false sharing.
  struct alignas(64) Worker {
    std::atomic<State> state{kIdle};
    std::atomic<int> tid{0};
    std::atomic<uint64_t> started{0};
    std::atomic<uint64_t> tasks{0};
    std::atomic<uint64_t> busy{0};
    bool parked = false;              // Guarded by park_mu_.
    std::condition_variable wake_up;  // For Park, with park_mu_.
  };

  // If the limit was never lowered, no stall can be due to it; then nobody
  // watches, and parked workers cost nothing.
  // REQUIRES: park_mu_ held.
  bool NeedsWatch() const { return limit() < highest(); }

  // Wakes up a parked worker to watch, if none does. REQUIRES: park_mu_ held.
  void FindWatcher() {
    if (watched_ || shutdown_ || !NeedsWatch()) return;
    for (int i = limit(); i < capacity_; ++i) {
      if (!workers_[i].parked) continue;
      workers_[i].wake_up.notify_one();
      return;
    }
  }

  // Waits until the pool has been stalled for kStallAfter, and returns how many
  // tasks each worker had finished by then. Returns an empty vector as soon as
  // `worker` has another reason to wake up. `lock` holds park_mu_, except while
  // waiting and while inspecting threads. A wake-up during the inspection would
  // be lost, so the conditions are checked before each wait.
  template <typename HasWork>
  std::vector<uint64_t> WatchForStall(int worker,
                                      std::unique_lock<std::mutex>* lock,
                                      HasWork has_work) {
    std::vector<uint64_t> seen;
    int samples = 0;
    while (!shutdown_ && !Admits(worker) && NeedsWatch()) {
      if (workers_[worker].wake_up.wait_for(*lock,
                                            kStallAfter / kStallSamples) ==
          std::cv_status::no_timeout) {
        break;
      }
      lock->unlock();
      std::vector<uint64_t> now(capacity_);
      for (int i = 0; i < capacity_; ++i) {
        now[i] = workers_[i].tasks.load(std::memory_order_relaxed);
      }
      const bool stalled = has_work() && IsStalled(now, /*except=*/-1);
      lock->lock();
      if (!stalled) {
        samples = 0;
      } else if (samples == 0 || now != seen) {
        samples = 1;
      } else if (++samples > kStallSamples) {
        return now;
      }
      seen = std::move(now);
    }
    return {};
  }

  // True if every admitted worker is still in the task that it was in after
  // `tasks` finished ones, and every worker in a task, other than `except`, is
  // asleep.
  bool IsStalled(const std::vector<uint64_t>& tasks, int except) const {
    const int limit = limit_.load(std::memory_order_relaxed);
    for (int i = 0; i < capacity_; ++i) {
      if (i == except) continue;
      const Worker& w = workers_[i];
      if (w.state.load(std::memory_order_acquire) == kIdle) {
        if (i < limit) return false;
        continue;
      }
      if (i < limit && w.tasks.load(std::memory_order_relaxed) != tasks[i]) {
        return false;
      }
      if (!IsAsleep(w.tid.load(std::memory_order_relaxed))) return false;
    }
    return true;
  }

  // True if the kernel reports thread `tid` of this process as sleeping. A
  // thread that waits for a CPU is not asleep.
  static bool IsAsleep(int tid) {
#ifdef __linux__
    char path[64];
    std::snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
    std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path, "re"),
                                                         &std::fclose);
    if (file == nullptr) return false;
    char line[256];
    if (std::fgets(line, sizeof(line), file.get()) == nullptr) return false;
    // "tid (name) S …": the name may contain spaces and parentheses.
    const char* name_end = std::strrchr(line, ')');
    if (name_end == nullptr || std::strlen(name_end) < 3) return false;
    return name_end[2] == 'S' || name_end[2] == 'D';
#else
    (void)tid;
    return false;
#endif
  }

  const int capacity_;
  std::atomic<int> limit_;    // Written with park_mu_ held.
  std::atomic<int> highest_;  // Written with park_mu_ held.
  std::atomic<uint64_t> stand_ins_{0};
  std::atomic<bool> sweep_{false};

  std::mutex park_mu_;    // Guards the next three and each worker's `parked`.
  bool watched_ = false;  // A parked worker is watching for stalls.
  bool rouse_ = false;    // The next to leave Park wakes all admitted workers.
  bool shutdown_ = false;

  std::unique_ptr<Worker[]> workers_;
};

}  // namespace tf_malleable

#endif  // TF_MALLEABLE_CC_LIMITS_ACTIVE_LIMIT_H_
