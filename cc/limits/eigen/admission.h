// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// Admission: the choice of the workers of an Eigen thread pool that may run
// tasks.
//
// The patch in patches/eigen gives every Eigen ThreadPoolTempl one Admission.
// This header is copied beside Eigen's own, so it depends only on the standard
// library and on Linux.

#ifndef TF_MALLEABLE_CC_LIMITS_EIGEN_ADMISSION_H_
#define TF_MALLEABLE_CC_LIMITS_EIGEN_ADMISSION_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "./monotonic_condition.h"
#include "./stall_watch.h"
#include "./worker_records.h"

namespace tf_malleable {

// Workers are admitted by index: with limit n, workers 0 … n-1 run tasks, and
// the others park as soon as they have finished their task. As no other worker
// can start a task, at most n tasks run at any instant once the pool has
// settled.
//
// Two races decide whether that holds. They are won in the same way: each side
// writes first and then looks at what the other side writes, both sequentially
// consistent, so that at least one of them sees the other.
//   * A worker claims a task, then looks at the limit. A thread that changes
//     the limit looks at the claims afterwards (Settled).
//   * A thread that queues a task looks at the limit afterwards (Queued). A
//     thread that stops looking into the queues above the limit reads the limit
//     first, and then looks into them a last time (TryNarrow). A worker with a
//     claim may queue tasks for itself without a look at the limit.
//
// If all admitted workers sleep in their tasks while others are queued, a
// parked worker stands in for them, until one of them continues; see
// StallWatch.
//
// Thread-safety: all methods may be called from any thread, except that only
// the worker that they name may call BeginTask, BeginStandIn, EndTask,
// BindWorker and Park.
class Admission {
 public:
  // REQUIRES: 1 <= limit <= capacity
  Admission(int capacity, int limit)
      : limit_(limit),
        reach_(Pack(0, limit)),
        records_(capacity),
        watch_(&records_),
        spots_(std::make_unique<Spot[]>(capacity)) {}

  Admission(const Admission&) = delete;
  Admission& operator=(const Admission&) = delete;

  const WorkerRecords& records() const { return records_; }
  uint64_t stand_ins() const {
    return stand_ins_.load(std::memory_order_relaxed);
  }

  int limit() const { return limit_.load(std::memory_order_seq_cst); }
  bool Admits(int worker) const { return worker < limit(); }

  // Sets the limit and returns the previous one. Parked workers that it admits
  // are woken up; workers above it finish their tasks first. To be fast, the
  // caller wakes at most one worker, which wakes the others.
  // REQUIRES: 1 <= limit <= capacity
  int Set(int limit) {
    std::lock_guard<std::mutex> lock(park_mu_);
    // Before the limit, so that a thread that sees the new limit also sees the
    // new reach.
    Widen(limit);
    const int previous = limit_.exchange(limit, std::memory_order_seq_cst);
    for (int i = previous; i < limit; ++i) {
      if (!spots_[i].taken) continue;
      rouse_ = true;  // That worker wakes the others.
      spots_[i].wake_up.NotifyOne();
      break;
    }
    return previous;
  }

  // Lowers the limit to `most` if it is higher; returns false if it is not.
  // REQUIRES: 1 <= most
  bool Cap(int most) {
    std::lock_guard<std::mutex> lock(park_mu_);
    if (limit() <= most) return false;
    limit_.store(most, std::memory_order_seq_cst);
    return true;
  }

  // Number of queues, from the first on, that can hold tasks. It is the limit,
  // or higher for a while after the limit was lowered.
  int reach() const { return Reach(reach_.load(std::memory_order_seq_cst)); }

  // To be called after another thread, or the worker itself without a claim,
  // has put a task into the queue of `worker`. Returns false if the limit does
  // not admit the worker: the task is within reach, but admitted workers look
  // for it only when their own queues are empty.
  bool Queued(int worker) {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (Admits(worker)) return true;
    Widen(worker + 1);
    return false;
  }

  // Lowers the reach to the limit if nothing above it can hold a task any more,
  // and returns the reach. `is_empty(worker)` tells whether a queue is empty.
  // May return without a look at the queues if another thread holds park_mu_.
  template <typename IsEmpty>
  int TryNarrow(IsEmpty is_empty) {
    uint64_t seen = reach_.load(std::memory_order_seq_cst);
    if (Reach(seen) <= limit()) return Reach(seen);
    std::unique_lock<std::mutex> lock(park_mu_, std::try_to_lock);
    if (!lock.owns_lock()) return Reach(seen);
    seen = reach_.load(std::memory_order_seq_cst);
    const int limit = this->limit();
    std::atomic_thread_fence(std::memory_order_seq_cst);
    // A worker that runs a task may queue others for itself.
    if (!records_.IdleFrom(limit)) return Reach(seen);
    for (int i = limit; i < Reach(seen); ++i) {
      if (!is_empty(i)) return Reach(seen);
    }
    // Fails if Queued has raised it since.
    const uint64_t narrow = Pack(Version(seen) + 1, limit);
    return reach_.compare_exchange_strong(seen, narrow,
                                          std::memory_order_seq_cst)
               ? limit
               : Reach(seen);
  }

  // BeginTask and EndTask bracket one task. BeginTask returns false if the
  // limit does not admit the worker, which must then give the task back.
  bool BeginTask(int worker) {
    records_.Claim(worker);
    if (!Admits(worker)) {
      records_.Drop(worker);
      return false;
    }
    records_.Confirm(worker);
    if (watcher_dozes_.load(std::memory_order_seq_cst)) WakeWatcher();
    return true;
  }
  // Begins a task above the limit: in place of a sleeping worker, or because
  // there is no queue left for it.
  void BeginStandIn(int worker) { records_.StandIn(worker); }
  void EndTask(int worker) { records_.Finish(worker); }

  // Tells the stall watch which thread `worker` runs on. Called on that thread.
  void BindWorker(int worker) { records_.Bind(worker); }

  // Blocks `worker` until the limit admits it (returns true) or Shutdown
  // (returns false). Meanwhile it may stand in for admitted workers that are
  // all asleep: `has_work()` tells whether a task is queued, `run_one()` runs
  // one, and `relieve()` makes sure that another worker can watch meanwhile.
  // None of them is called with a lock held.
  template <typename HasWork, typename RunOne, typename Relieve>
  bool Park(int worker, HasWork has_work, RunOne run_one, Relieve relieve) {
    Spot& me = spots_[worker];
    std::unique_lock<std::mutex> lock(park_mu_);
    me.taken = true;
    while (!shutdown_ && !Admits(worker)) {
      if (watcher_ != kNoWorker) {
        me.wake_up.Wait(&lock);
        continue;
      }
      watcher_ = worker;
      const bool stalled = Watch(&me, &lock, has_work);
      watcher_ = kNoWorker;
      if (!stalled) continue;
      const StallWatch::Progress progress = watch_.progress();
      me.taken = false;
      FindWatcher();
      lock.unlock();
      relieve();
      while (has_work() && watch_.Persists(progress, limit(), worker) &&
             run_one()) {
        stand_ins_.fetch_add(1, std::memory_order_relaxed);
      }
      lock.lock();
      me.taken = true;
    }
    me.taken = false;
    if (rouse_) {
      rouse_ = false;
      for (int i = 0; i < limit(); ++i) {
        if (spots_[i].taken) spots_[i].wake_up.NotifyOne();
      }
    }
    FindWatcher();
    return !shutdown_;
  }

  // Makes Park return false, now and later.
  void Shutdown() {
    std::lock_guard<std::mutex> lock(park_mu_);
    shutdown_ = true;
    for (int i = 0; i < records_.size(); ++i) spots_[i].wake_up.NotifyOne();
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

  // True if no worker above the limit is running a task, or about to. From then
  // on, at most as many as the limit are active, until the limit changes.
  bool Settled() const { return records_.SettledFrom(limit()); }

 private:
  static constexpr int kNoWorker = -1;

  // The place where a worker parks. The mutex is park_mu_.
  struct Spot {
    bool taken = false;
    MonotonicCondition wake_up;
  };

  // The reach carries a version, so that lowering it fails if another thread
  // has raised it meanwhile, even to the value that it had.
  static constexpr uint64_t Pack(uint64_t version, int reach) {
    return version << 32 | static_cast<uint32_t>(reach);
  }
  static constexpr int Reach(uint64_t packed) {
    return static_cast<int>(packed & 0xffffffffu);
  }
  static constexpr uint64_t Version(uint64_t packed) { return packed >> 32; }

  void Widen(int reach) {
    uint64_t seen = reach_.load(std::memory_order_relaxed);
    uint64_t wide;
    do {
      wide = Pack(Version(seen) + 1, std::max(Reach(seen), reach));
    } while (
        !reach_.compare_exchange_weak(seen, wide, std::memory_order_seq_cst));
  }

  // Wakes up a parked worker to watch, if no worker is watching.
  // REQUIRES: park_mu_ held.
  void FindWatcher() {
    if (watcher_ != kNoWorker || shutdown_) return;
    for (int i = limit(); i < records_.size(); ++i) {
      if (!spots_[i].taken) continue;
      spots_[i].wake_up.NotifyOne();
      return;
    }
  }

  // A pool without tasks cannot stall, so its watcher sleeps until a worker
  // begins one: an idle pool costs nothing.
  void WakeWatcher() {
    std::lock_guard<std::mutex> lock(park_mu_);
    if (!watcher_dozes_.exchange(false, std::memory_order_seq_cst)) return;
    if (watcher_ != kNoWorker) spots_[watcher_].wake_up.NotifyOne();
  }

  // Waits until the pool is stalled; returns false as soon as the watcher has
  // another reason to wake up. `lock` holds park_mu_, except while waiting and
  // while taking a sample. A wake-up during a sample would be lost, so the
  // conditions are checked before each wait.
  template <typename HasWork>
  bool Watch(Spot* me, std::unique_lock<std::mutex>* lock, HasWork has_work) {
    watch_.Restart();
    while (!shutdown_ && !Admits(watcher_)) {
      if (me->wake_up.WaitFor(lock, StallWatch::kPeriod)) return false;
      if (shutdown_ || Admits(watcher_)) return false;
      // Only now, or each of many short tasks would wake the watcher up.
      watcher_dozes_.store(true, std::memory_order_seq_cst);
      if (records_.IdleFrom(0)) me->wake_up.Wait(lock);
      watcher_dozes_.store(false, std::memory_order_relaxed);
      lock->unlock();
      const bool stalled = watch_.Sample(limit(), has_work());
      lock->lock();
      if (stalled) return true;
    }
    return false;
  }

  // Read for each task, and written when the limit changes. Kept on another
  // cache line than the data that is written for each task.
  alignas(kCacheLine) std::atomic<int> limit_;  // Written with park_mu_ held.
  std::atomic<uint64_t> reach_;                 // Lowered with park_mu_ held.
  std::atomic<bool> watcher_dozes_{false};
  std::atomic<bool> sweep_{false};

  alignas(kCacheLine) WorkerRecords records_;
  StallWatch watch_;  // For the watcher and its stand-ins.
  std::atomic<uint64_t> stand_ins_{0};

  std::mutex park_mu_;       // Guards all that follows.
  int watcher_ = kNoWorker;  // The parked worker that watches for stalls.
  bool rouse_ = false;  // The next to leave Park wakes all admitted workers.
  bool shutdown_ = false;
  const std::unique_ptr<Spot[]> spots_;
};

// The members before it in a pool must not share its first cache line.
static_assert(alignof(Admission) == kCacheLine);

}  // namespace tf_malleable

#endif  // TF_MALLEABLE_CC_LIMITS_EIGEN_ADMISSION_H_
