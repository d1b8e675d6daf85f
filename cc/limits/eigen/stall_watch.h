// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// StallWatch: detection of a pool that makes no progress because its limit is
// too low.
//
// This header is copied beside Eigen's own, so it depends only on the standard
// library and on Linux.

#ifndef TF_MALLEABLE_CC_LIMITS_EIGEN_STALL_WATCH_H_
#define TF_MALLEABLE_CC_LIMITS_EIGEN_STALL_WATCH_H_

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "./worker_records.h"

namespace tf_malleable {

// A worker that sleeps inside its task, for example in a nested ParallelFor,
// keeps its place. The same is true in a pool built with as many threads as the
// limit, but there the nested loop knows their number and runs inline if
// necessary. Here the limit may be lower than the number that the loop sees,
// and then no worker would run the parts that it has queued. So a pool is
// stalled if tasks are queued while all admitted workers have been asleep, each
// in one task, for kAfter.
//
// Thread-safety: one thread at a time may take samples; any thread may call
// Persists().
class StallWatch {
 public:
  // Time without progress after which a pool is stalled.
  static constexpr std::chrono::milliseconds kAfter{1000};
  // Time between two samples.
  static constexpr std::chrono::milliseconds kPeriod{250};

  // Number of tasks that each worker had finished when a sample was taken.
  using Progress = std::vector<uint64_t>;

  explicit StallWatch(const WorkerRecords* records) : records_(records) {}

  // Forgets the samples so far.
  void Restart() { samples_ = 0; }

  // Takes a sample; to be called every kPeriod. Returns true if the pool has
  // been stalled for kAfter. `queued` tells whether a task is queued.
  bool Sample(int limit, bool queued) {
    Progress now(records_->size());
    for (int i = 0; i < records_->size(); ++i) now[i] = records_->tasks(i);
    if (!queued || !Persists(now, limit, kNoWorker)) {
      samples_ = 0;
    } else if (samples_ == 0 || now != progress_) {
      samples_ = 1;
    } else {
      ++samples_;
    }
    progress_ = std::move(now);
    return samples_ > kAfter / kPeriod;
  }

  // Progress at the last sample.
  const Progress& progress() const { return progress_; }

  // Returns true if every admitted worker is still in the task that it was in
  // at `progress`, and every worker in a task, other than `except`, is asleep.
  bool Persists(const Progress& progress, int limit, int except) const {
    for (int i = 0; i < records_->size(); ++i) {
      if (i == except) continue;
      if (records_->state(i) == WorkerRecords::kIdle) {
        if (i < limit) return false;
        continue;
      }
      if (i < limit && records_->tasks(i) != progress[i]) return false;
      if (!IsAsleep(records_->tid(i))) return false;
    }
    return true;
  }

 private:
  static constexpr int kNoWorker = -1;

  // Returns true if the kernel reports thread `tid` of this process as
  // sleeping. A thread that waits for a CPU is not asleep.
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

  const WorkerRecords* const records_;
  Progress progress_;
  int samples_ = 0;
};

}  // namespace tf_malleable

#endif  // TF_MALLEABLE_CC_LIMITS_EIGEN_STALL_WATCH_H_
