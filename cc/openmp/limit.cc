// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.

#include "cc/openmp/limit.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <initializer_list>

#include "cc/openmp/quota.h"

namespace tf_malleable {
namespace openmp {
namespace {

// As PoolRegistry::kMaxThreadsCeiling.
constexpr int kCeiling = 1024;
constexpr int kUnread = -1;

std::atomic<int> capacity{0};
std::atomic<int> word{kUnread};
std::atomic<int> user_bound{0};
std::atomic<int> placed{kUnread};
std::atomic<int> placed_by_kmp{kUnread};

struct Cached {
  long until;
  int cpus;
};
thread_local Cached cached = {0, 0};

// Returns the number that a variable begins with; 0 if it is not from 1.
int ReadCount(const char* variable) {
  const char* text = getenv(variable);
  if (text == nullptr) return 0;
  const long value = strtol(text, nullptr, 10);
  if (value < 1) return 0;
  return value > kCeiling ? kCeiling : static_cast<int>(value);
}

bool IsSet(const char* variable) {
  const char* text = getenv(variable);
  return text != nullptr && *text != '\0';
}

long Nanoseconds() {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000L + now.tv_nsec;
}

int Min(int a, int b) { return a < b ? a : b; }

}  // namespace

int Capacity() {
  int value = capacity.load(std::memory_order_relaxed);
  if (value > 0) return value;
  value = ReadCount("TF_MALLEABLE_MAX_THREADS");
  if (value == 0) {
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    value = online < 1 ? 1 : online > kCeiling ? kCeiling : online;
  }
  capacity.store(value, std::memory_order_relaxed);
  return value;
}

int AllowedCpus() {
  const long now = Nanoseconds();
  if (now < cached.until) return cached.cpus;
  // Larger than cpu_set_t, as the kernel refuses a set smaller than its own.
  unsigned long cpus[8192 / 8 / sizeof(unsigned long)] = {};
  int count = 0;
  if (sched_getaffinity(0, sizeof cpus, reinterpret_cast<cpu_set_t*>(cpus)) ==
      0) {
    for (unsigned long bits : cpus) count += __builtin_popcountl(bits);
  }
  cached.cpus = count > 0 ? count : kCeiling;
  cached.until = now + kFreshNanoseconds;
  return cached.cpus;
}

int Word() {
  int value = word.load(std::memory_order_relaxed);
  if (value != kUnread) return value;
  // A job's number is its first grant; later ones are in its affinity.
  value = IsSet("TF_MALLEABLE_JOIN") ? 0 : ReadCount("TF_MALLEABLE_THREADS");
  int expected = kUnread;
  if (word.compare_exchange_strong(expected, value)) return value;
  return expected;
}

void SetWord(int threads) {
  word.store(threads < 0 ? 0 : threads, std::memory_order_relaxed);
}

int ToldCpus() {
  const int by_word = Word();
  return by_word > 0 ? by_word : QuotaCpus(kCeiling);
}

int Limit() {
  const int told = ToldCpus();
  const int cpus = Word() > 0 ? told : Min(told, AllowedCpus());
  return Min(cpus, Capacity());
}

int UserBound() {
  int value = user_bound.load(std::memory_order_relaxed);
  if (value > 0) return value;
  value = ReadCount("OMP_NUM_THREADS");
  if (value == 0) value = Capacity();
  user_bound.store(value, std::memory_order_relaxed);
  return value;
}

bool IsPlaced() {
  int value = placed.load(std::memory_order_relaxed);
  if (value != kUnread) return value != 0;
  const char* bind = getenv("OMP_PROC_BIND");
  const bool is_bound = bind != nullptr && *bind != '\0' &&
                        strcasecmp(bind, "false") != 0 && *bind != '0';
  value = is_bound || IsSet("OMP_PLACES") || IsSet("GOMP_CPU_AFFINITY");
  placed.store(value, std::memory_order_relaxed);
  return value != 0;
}

bool IsPlacedByKmp() {
  int value = placed_by_kmp.load(std::memory_order_relaxed);
  if (value != kUnread) return value != 0;
  value = 0;
  if (const char* text = getenv("KMP_AFFINITY"); text != nullptr) {
    // Its other words place none.
    for (const char* word : {"compact", "scatter", "balanced", "explicit",
                             "logical", "physical"}) {
      if (strcasestr(text, word) != nullptr) value = 1;
    }
  }
  placed_by_kmp.store(value, std::memory_order_relaxed);
  return value != 0;
}

}  // namespace openmp
}  // namespace tf_malleable
