// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// Starts the threads of an Eigen thread pool as they are needed.
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
// or would soon refuse any thread, the pool's capacity is from then on the
// number of those that run.
//
// Thread-safety: all methods may be called from any thread.
class WorkerStarter {
 public:
  // The calling thread's mask of blocked signals is that of all workers.
  explicit WorkerStarter(int capacity) : capacity_(capacity) {
    pthread_sigmask(SIG_SETMASK, nullptr, &blocked_signals_);
  }

  int started() const { return started_.load(std::memory_order_acquire); }
  // Who lowers it looks at the pool's limit afterwards, and who sets the limit
  // looks at it afterwards: so one of them sees that the limit is too high.
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
    // A thread inherits it, and this may be anybody's.
    const SignalMask mask(blocked_signals_);
    // Without its first worker, a pool can do nothing: then `start` fails, as
    // it does in stock TensorFlow.
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

  // Gives the calling thread, a new worker, the CPUs of thread `first`: those
  // of the pool, while this one was started by anybody. 0: keeps its own.
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
  static constexpr int kSpare = 8;

  // This thread's mask of blocked signals, for a while.
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

  // A thread that tries out whether the system allows it.
  struct Trial {
    pthread_t thread;
    int id = 0;  // As the kernel numbers it.
    std::mutex* hold = nullptr;
  };

  // Returns 0, or why the system would refuse a worker. TensorFlow ends the
  // process if it cannot start a thread, so this tries before, and leaves
  // kSpare for the other threads that TensorFlow starts.
  static int Probe() {
    std::array<Trial, 1 + kSpare> trials;
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
    const auto deadline =
        std::chrono::steady_clock::now() + std::chrono::milliseconds(10);
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
