// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// Hooks in the worker loops of an Eigen ThreadPoolTempl whose limit may be
// lower than its capacity. The patch in patches/eigen calls them from the
// pool's own loops; the rest of the pool is Eigen's.

#ifndef TF_MALLEABLE_CC_LIMITS_EIGEN_WORKER_HOOKS_H_
#define TF_MALLEABLE_CC_LIMITS_EIGEN_WORKER_HOOKS_H_

#include <algorithm>
#include <cstddef>
#include <utility>

#include "./admission.h"
#include "./worker_starter.h"

namespace tf_malleable {

// Number of rounds that an idle worker spins, in percent of Eigen's, for builds
// whose rounds take another time than those of TensorFlow's own build.
#ifndef TF_MALLEABLE_SPIN_PERCENT
#define TF_MALLEABLE_SPIN_PERCENT 100
#endif

// A friend of Pool, which is an instance of Eigen's ThreadPoolTempl.
//
// Thread-safety: only the worker that they name may call Begin, Run and Park;
// the rest may be called from any thread while the pool exists.
template <typename Pool>
class WorkerHooks {
 public:
  using Task = typename Pool::Task;

  static const Admission& AdmissionOf(const Pool& pool) {
    return pool.admission_;
  }
  static int Capacity(const Pool& pool) { return pool.starter_.capacity(); }

  // Starts the first workers. The others do not exist, and count as blocked,
  // until the limit reaches them.
  static void Start(Pool* pool) {
    pool->blocked_ = pool->num_threads_;
    while (pool->starter_.started() < Wanted(*pool)) {
      if (!StartNext(pool, Wanted(*pool))) return;
    }
  }

  // To be called first on the thread of `worker`.
  static void Begin(Pool* pool, int worker) {
    pool->admission_.BindWorker(worker);
    if (worker > 0) {
      WorkerStarter::AdoptCpus(pool->admission_.records().tid(0));
    }
    // Each worker starts the next, so that a change of the limit starts at most
    // one.
    StartNext(pool, Wanted(*pool));
  }

  // Sets the limit and returns at once.
  // REQUIRES: 1 <= limit <= pool.NumThreads()
  static void SetLimit(Pool* pool, int limit) {
    // The capacity may have dropped since the caller read it.
    limit = std::min(limit, Capacity(*pool));
    if (limit < pool->admission_.Set(limit)) {
      pool->admission_.RequestSweep();
    }
    StartNext(pool, Wanted(*pool));
  }

  // Number of rounds that an idle worker spins. A round visits the queues of
  // admitted workers, so it is as long as in a pool with that many workers.
  static int SpinCount(const Pool& pool) {
    if (!pool.allow_spinning_) return 0;
    return Pool::kSpinCount * TF_MALLEABLE_SPIN_PERCENT / 100 /
           Pool::kMaxSpinningThreads / pool.admission_.limit();
  }

  // Approximate number of tasks in the queues.
  static unsigned NumQueued(const Pool& pool) {
    unsigned queued = 0;
    for (int i = 0; i < pool.admission_.reach(); ++i) {
      queued += pool.thread_data_[i].queue.Size();
    }
    return queued;
  }

  // Number of queues, from the first on, that may hold tasks.
  static int Reach(Pool* pool) {
    return pool->admission_.TryNarrow([pool](int worker) {
      return pool->thread_data_[worker].queue.Empty();
    });
  }

  // Narrows [*start, *end), the queues for a new task, to those of admitted
  // workers, as the others sleep.
  static void NarrowHint(int limit, int* start, int* end) {
    if (*start >= limit) {
      *start %= limit;
      *end = *start + 1;
    } else if (*end > limit) {
      *end = limit;
    }
  }

  // To be called after a task was put into the queue of `worker`. If the limit
  // has been lowered since that worker was chosen, moves a task from there to
  // one that is admitted. If no queue has room for it, returns it in *task, and
  // the caller has to run it; otherwise *task stays empty.
  static void Queued(Pool* pool, int worker, Task* task) {
    while (!pool->admission_.Queued(worker)) {
      auto& queue = pool->thread_data_[worker].queue;
      *task = queue.PopBack();
      if (!task->f) return;  // Another thread has taken it.
      const int admitted = RandomAdmitted(pool);
      *task = pool->thread_data_[admitted].queue.PushBack(std::move(*task));
      if (task->f) {
        *task = queue.PushBack(std::move(*task));
        pool->admission_.Queued(worker);
        // For the tasks left there: a caller that runs a task wakes no worker.
        pool->ec_.Notify(false);
        return;
      }
      worker = admitted;
    }
  }

  // Runs the task that `worker` has picked. If the worker is no longer
  // admitted, leaves the task to those that are.
  static void Run(Pool* pool, int worker, Task* task) {
    if (pool->admission_.BeginTask(worker)) {
      pool->env_.ExecuteTask(*task);
      pool->admission_.EndTask(worker);
      return;
    }
    GiveAway(pool, worker, task);
  }

  // Parks `worker` until the limit admits it; returns false if the pool is
  // being destroyed.
  static bool Park(Pool* pool, int worker) {
    // Admitted workers look into its queue only when theirs are empty.
    while (!pool->admission_.Admits(worker)) {
      Task task = pool->thread_data_[worker].queue.PopFront();
      if (!task.f || !GiveAway(pool, worker, &task)) break;
    }
    // The wake-up that led here may have been meant for a task: pass it on.
    if (HasWork(pool)) pool->ec_.Notify(false);
    CountAsBlocked(pool);
    const bool admitted = pool->admission_.Park(
        worker, [pool] { return HasWork(pool); },
        [pool, worker] { return StandIn(pool, worker); },
        [pool] { StartNext(pool, pool->starter_.started() + 1); });
    if (admitted) pool->blocked_--;
    return admitted;
  }

  // Runs queued tasks and joins the workers, as the pool's destructor does.
  static void Drain(Pool* pool) {
    pool->done_ = true;
    if (!pool->cancelled_) pool->ec_.Notify(true);
    // The first worker, which is always admitted, ends when all tasks have run.
    // Until then, they may need workers that are not started yet.
    pool->thread_data_[0].thread.reset();
    pool->starter_.Close();
    for (std::size_t i = 1; i < pool->thread_data_.size(); ++i) {
      pool->thread_data_[i].thread.reset();
    }
  }

 private:
  // Number of workers to start: one more than the limit, to stand in for the
  // others if necessary.
  static int Wanted(const Pool& pool) {
    return std::min(pool.admission_.limit() + 1, Capacity(pool));
  }

  // Starts the next worker, up to `wanted`; returns false if the system refuses
  // it.
  static bool StartNext(Pool* pool, int wanted) {
    const bool started = pool->starter_.StartNext(wanted, [pool](int worker) {
      pool->blocked_--;
      pool->thread_data_[worker].thread.reset(pool->env_.CreateThread(
          [pool, worker] { pool->WorkerLoop(worker); }));
    });
    // Even if this call was not refused: another thread may just have set the
    // limit without knowing that a worker was refused.
    const int capacity = Capacity(*pool);
    if (pool->admission_.limit() > capacity && pool->admission_.Cap(capacity)) {
      pool->admission_.RequestSweep();
    }
    return started;
  }

  static bool HasWork(Pool* pool) {
    for (int i = 0; i < pool->admission_.reach(); ++i) {
      if (!pool->thread_data_[i].queue.Empty()) return true;
    }
    return false;
  }

  static int RandomAdmitted(Pool* pool) {
    const unsigned random = Pool::Rand(&pool->GetPerThread()->rand);
    return static_cast<int>(random % pool->admission_.limit());
  }

  // Moves a task to the queue of an admitted worker; returns false if the queue
  // is full.
  static bool HandOver(Pool* pool, Task* task) {
    const int admitted = RandomAdmitted(pool);
    *task = pool->thread_data_[admitted].queue.PushBack(std::move(*task));
    if (!task->f) Queued(pool, admitted, task);
    if (task->f) return false;
    pool->ec_.Notify(false);
    return true;
  }

  // Hands over a task that `worker` has picked but may not run. If that fails,
  // keeps it in the queue of `worker` and returns false.
  static bool GiveAway(Pool* pool, int worker, Task* task) {
    if (HandOver(pool, task)) return true;
    *task = pool->thread_data_[worker].queue.PushFront(std::move(*task));
    if (!task->f) {
      pool->admission_.Queued(worker);
    } else {
      // Both queues are full: run it here, as Schedule does.
      pool->admission_.BeginStandIn(worker);
      pool->env_.ExecuteTask(*task);
      pool->admission_.EndTask(worker);
    }
    return false;
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
        pool->admission_.BeginStandIn(worker);
        pool->env_.ExecuteTask(task);
        pool->admission_.EndTask(worker);
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

#endif  // TF_MALLEABLE_CC_LIMITS_EIGEN_WORKER_HOOKS_H_
