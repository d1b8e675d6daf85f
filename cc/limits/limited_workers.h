// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// What an Eigen ThreadPoolTempl does differently because its limit may be lower
// than its number of workers. The patch in patches/eigen calls these from the
// pool's own loops; the rest of the pool is Eigen's.

#ifndef TF_MALLEABLE_CC_LIMITS_LIMITED_WORKERS_H_
#define TF_MALLEABLE_CC_LIMITS_LIMITED_WORKERS_H_

#include <cstddef>
#include <utility>

#include "./active_limit.h"

namespace tf_malleable {

// How long an idle worker spins, in percent of Eigen's number of rounds, for
// builds whose rounds do not take as long as those of TensorFlow's own.
#ifndef TF_MALLEABLE_SPIN_PERCENT
#define TF_MALLEABLE_SPIN_PERCENT 100
#endif

// A friend of Pool, which is an instance of Eigen's ThreadPoolTempl.
//
// Thread-safety: Run and Park may only be called by the worker that they name;
// the rest may be called from any thread while the pool exists.
template <typename Pool>
class LimitedWorkers {
 public:
  using Task = typename Pool::Task;

  static const ActiveLimit& Limit(const Pool& pool) {
    return pool.active_limit_;
  }

  // Sets the limit and returns at once.
  // REQUIRES: 1 <= limit <= pool.NumThreads()
  static void SetLimit(Pool* pool, int limit) {
    if (limit < pool->active_limit_.Set(limit)) {
      pool->active_limit_.RequestSweep();
    }
  }

  static constexpr int SpinRounds(int rounds) {
    return rounds * TF_MALLEABLE_SPIN_PERCENT / 100;
  }

  // Tasks waiting in the queues, approximately.
  static unsigned NumQueued(const Pool& pool) {
    unsigned queued = 0;
    for (std::size_t i = 0; i < pool.thread_data_.size(); ++i) {
      queued += pool.thread_data_[i].queue.Size();
    }
    return queued;
  }

  // Narrows [*start, *end), the queues a new task may go to, to those of
  // admitted workers, as nobody would run the tasks in others.
  static void NarrowHint(int limit, int* start, int* end) {
    if (*start >= limit) {
      *start %= limit;
      *end = *start + 1;
    } else if (*end > limit) {
      *end = limit;
    }
  }

  // Runs the task that `worker` has picked. If the worker is no longer
  // admitted, hands the task over to one that is.
  static void Run(Pool* pool, int worker, Task* task) {
    if (pool->active_limit_.BeginTask(worker)) {
      pool->env_.ExecuteTask(*task);
      pool->active_limit_.EndTask(worker);
      return;
    }
    if (HandOver(pool, task)) return;
    *task = pool->thread_data_[worker].queue.PushFront(std::move(*task));
    // If every queue is full, run it here, as Schedule does.
    if (task->f) pool->env_.ExecuteTask(*task);
  }

  // Parks `worker` until the limit admits it; false if the pool is being
  // destroyed.
  static bool Park(Pool* pool, int worker) {
    auto& queue = pool->thread_data_[worker].queue;
    for (Task task = queue.PopFront(); task.f; task = queue.PopFront()) {
      if (HandOver(pool, &task)) continue;
      task = queue.PushFront(std::move(task));
      // Others may have filled the queue meanwhile.
      if (task.f) pool->env_.ExecuteTask(task);
      break;
    }
    // The wake-up that led here may have been meant for a task: pass it on.
    if (HasWork(pool)) pool->ec_.Notify(false);
    CountAsBlocked(pool);
    const bool admitted = pool->active_limit_.Park(
        worker, [pool] { return HasWork(pool); },
        [pool, worker] { return StandIn(pool, worker); });
    if (admitted) pool->blocked_--;
    return admitted;
  }

  // Runs queued tasks and joins the workers, as the pool's destructor does.
  static void Drain(Pool* pool) {
    pool->done_ = true;
    if (!pool->cancelled_) pool->ec_.Notify(true);
    for (std::size_t i = 0; i < pool->thread_data_.size(); ++i) {
      pool->thread_data_[i].thread.reset();
    }
  }

 private:
  static bool HasWork(Pool* pool) { return pool->NonEmptyQueueIndex() != -1; }

  // Moves a task to the queue of an admitted worker; false if that is full.
  static bool HandOver(Pool* pool, Task* task) {
    const unsigned random = Pool::Rand(&pool->GetPerThread()->rand);
    const int owner = random % pool->active_limit_.limit();
    *task = pool->thread_data_[owner].queue.PushBack(std::move(*task));
    if (task->f) return false;
    pool->ec_.Notify(false);
    return true;
  }

  // Runs one queued task although the limit does not admit `worker`.
  static bool StandIn(Pool* pool, int worker) {
    pool->blocked_--;
    bool found = false;
    {
      const int victim = pool->NonEmptyQueueIndex();
      Task task;
      if (victim != -1) task = pool->thread_data_[victim].queue.PopBack();
      if (task.f) {
        found = true;
        pool->active_limit_.BeginStandIn(worker);
        pool->env_.ExecuteTask(task);
        pool->active_limit_.EndTask(worker);
      }
    }
    CountAsBlocked(pool);
    return found;
  }

  // A parked worker counts as blocked. When the last worker of a pool under
  // destruction blocks, the pool can end; but only a worker that waits for
  // tasks checks this, so wake those up.
  static void CountAsBlocked(Pool* pool) {
    const unsigned blocked = ++pool->blocked_;
    if (blocked == static_cast<unsigned>(pool->num_threads_) && pool->done_) {
      pool->ec_.Notify(true);
    }
  }
};

}  // namespace tf_malleable

#endif  // TF_MALLEABLE_CC_LIMITS_LIMITED_WORKERS_H_
