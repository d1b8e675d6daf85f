// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// WorkerStarter: starts the threads of an Eigen thread pool as they are needed.
//
// This header is copied beside Eigen's own, so it depends only on the standard
// library, on POSIX threads and on Linux.

#ifndef TF_MALLEABLE_CC_LIMITS_EIGEN_WORKER_STARTER_H_
#define TF_MALLEABLE_CC_LIMITS_EIGEN_WORKER_STARTER_H_

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <thread>

#ifdef __linux__
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace tf_malleable {

// Workers are started in the order of their index. If the system refuses one,
// or would soon refuse any thread, the pool's capacity becomes the number of
// workers that run.
//
// Thread-safety: all methods may be called from any thread.
class WorkerStarter {
 public:
  // All workers get the calling thread's mask of blocked signals.
  explicit WorkerStarter(int capacity) : capacity_(capacity) {
    pthread_sigmask(SIG_SETMASK, nullptr, &blocked_signals_);
  }

  int started() const { return started_.load(std::memory_order_acquire); }
  // A thread that lowers the capacity looks at the pool's limit afterwards, and
  // a thread that sets the limit looks at the capacity afterwards: so at least
  // one of them sees that the limit is too high.
  int capacity() const { return capacity_.load(std::memory_order_seq_cst); }

  // Starts the next worker with start(index), if fewer than `wanted` and than
  // the capacity are started and Close() was not called. Returns false if the
  // system refuses a thread.
  template <typename Start>
  bool StartNext(int wanted, Start start) {
    if (started() >= std::min(wanted, capacity())) return true;
    std::lock_guard<std::mutex> lock(start_mu_);
    const int next = started();
    if (closed_ || next >= std::min(wanted, capacity())) return true;
    // A worker inherits the mask of the calling thread, which may be any
    // thread.
    const SignalMask mask(blocked_signals_);
    // Without its first worker, a pool can run nothing: `start` may fail for
    // it, as in stock TensorFlow.
    if (next > 0) {
      const int error = Probe();
      if (error != 0) {
        capacity_.store(next, std::memory_order_seq_cst);
        Warn(next, error);
        return false;
      }
    }
    start(next);
    started_.store(next + 1, std::memory_order_release);
    return true;
  }

  // No worker is started after this.
  void Close() {
    std::lock_guard<std::mutex> lock(start_mu_);
    closed_ = true;
  }

  // Gives the calling thread, a new worker, the CPUs of thread `first`, which
  // are the pool's: the thread that started the worker may have others. If
  // `first` is 0, the worker keeps its own.
  static void AdoptCpus(int first) {
#ifdef __linux__
    cpu_set_t cpus;
    if (first != 0 && sched_getaffinity(first, sizeof(cpus), &cpus) == 0) {
      sched_setaffinity(0, sizeof(cpus), &cpus);
    }
#else
    (void)first;
#endif
  }

 private:
  static constexpr int kSpareThreads = 8;
  // Time for which a thread that was joined may still count.
  static constexpr std::chrono::milliseconds kJoinedStays{10};

  // Sets this thread's mask of blocked signals as long as the object exists.
  class SignalMask {
   public:
    explicit SignalMask(const sigset_t& blocked) {
      pthread_sigmask(SIG_SETMASK, &blocked, &previous_);
    }
    ~SignalMask() { pthread_sigmask(SIG_SETMASK, &previous_, nullptr); }
    SignalMask(const SignalMask&) = delete;
    SignalMask& operator=(const SignalMask&) = delete;

   private:
    sigset_t previous_;
  };

  // A thread that is started only to see whether the system allows it.
  struct Trial {
    pthread_t thread;
    int id = 0;  // Kernel id of the thread.
    std::mutex* hold = nullptr;
  };

  // Returns 0, or the error with which the system would refuse a worker.
  // TensorFlow ends the process if it cannot start a thread, so this tries
  // first, and leaves kSpareThreads for the other threads that TensorFlow
  // starts.
  static int Probe() {
    std::array<Trial, 1 + kSpareThreads> trials;
    std::mutex hold;  // Keeps all trials alive until the last has started.
    int error = 0;
    int started = 0;
    {
      std::lock_guard<std::mutex> lock(hold);
      for (Trial& trial : trials) {
        trial.hold = &hold;
        error = pthread_create(&trial.thread, nullptr, &Try, &trial);
        if (error != 0) break;
        ++started;
      }
    }
    // A thread still counts for a while after it was joined.
    const auto deadline = std::chrono::steady_clock::now() + kJoinedStays;
    for (int i = 0; i < started; ++i) {
      pthread_join(trials[i].thread, nullptr);
      while (Exists(trials[i].id) &&
             std::chrono::steady_clock::now() < deadline) {
        std::this_thread::yield();
      }
    }
    return error;
  }

  static void* Try(void* argument) {
    auto* const trial = static_cast<Trial*>(argument);
    trial->id = KernelThreadId();
    std::lock_guard<std::mutex> lock(*trial->hold);
    return nullptr;
  }

#ifdef __linux__
  static int KernelThreadId() { return static_cast<int>(syscall(SYS_gettid)); }
  static bool Exists(int id) {
    return syscall(SYS_tgkill, getpid(), id, 0) == 0;
  }
#else
  static int KernelThreadId() { return 0; }
  static bool Exists(int /*id*/) { return false; }
#endif

  static void Warn(int capacity, int error) {
    static std::atomic<bool> warned{false};
    if (warned.exchange(true)) return;
    std::fprintf(stderr,
                 "tf_malleable: the system allows few more threads (%s): a "
                 "thread pool has a capacity of %d from now on\n",
                 std::strerror(error), capacity);
  }

  sigset_t blocked_signals_;
  std::atomic<int> started_{0};  // Written with start_mu_ held.
  std::atomic<int> capacity_;    // Written with start_mu_ held.
  std::mutex start_mu_;          // Guards the start of a worker, and closed_.
  bool closed_ = false;
};

}  // namespace tf_malleable

#endif  // TF_MALLEABLE_CC_LIMITS_EIGEN_WORKER_STARTER_H_
