// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.

#include "cc/limits/pool_registry.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <thread>

namespace tf_malleable {
namespace {

// TF_MALLEABLE_MAX_THREADS, or the number of the host's CPUs. The Python
// package refuses an invalid value; a preloaded library can only ignore it.
int MaxThreadsFromEnvironment() {
  const int fallback = std::min(HostCpus(), PoolRegistry::kMaxThreadsCeiling);
  const char* text = std::getenv("TF_MALLEABLE_MAX_THREADS");
  if (text == nullptr || *text == '\0') return fallback;
  char* end = nullptr;
  const long value = std::strtol(text, &end, 10);
  const bool valid =
      *end == '\0' && 1 <= value && value <= PoolRegistry::kMaxThreadsCeiling;
  return valid ? static_cast<int>(value) : fallback;
}

bool StartsWith(const std::string& text, const char* prefix) {
  return text.rfind(prefix, 0) == 0;
}

bool EndsWith(const std::string& text, const std::string& suffix) {
  return text.size() >= suffix.size() &&
         text.compare(text.size() - suffix.size(), suffix.size(), suffix) == 0;
}

}  // namespace

int HostCpus() {
  static const int cpus =
      static_cast<int>(std::max(sysconf(_SC_NPROCESSORS_ONLN), 1L));
  return cpus;
}

PoolKind KindOf(const std::string& name) {
  if (name == "Compute") return PoolKind::kInterOp;
  // "numa_-1_Eigen", "numa_0_Eigen", …
  if (StartsWith(name, "numa_") && EndsWith(name, "_Eigen")) {
    return PoolKind::kIntraOp;
  }
  return PoolKind::kOther;
}

PoolRegistry& PoolRegistry::Get() {
  static PoolRegistry* const registry = [] {
    auto owned = std::make_unique<PoolRegistry>(MaxThreadsFromEnvironment());
    pthread_atfork([] { Get().LockForFork(); }, [] { Get().UnlockAfterFork(); },
                   [] { Get().ResetInChild(); });
    return owned.release();
  }();
  return *registry;
}

int PoolRegistry::CapacityFor(const std::string& name, PoolKind kind,
                              int requested) const {
  const bool sized_by_cpus = kind != PoolKind::kOther ||
                             StartsWith(name, "XLA") || StartsWith(name, "xla");
  return sized_by_cpus ? std::max(requested, max_threads_) : requested;
}

int PoolRegistry::FirstLimitFor(PoolKind kind, int requested,
                                int capacity) const {
  std::lock_guard<std::mutex> lock(mu_);
  return LimitFor(kind, requested, capacity);
}

void PoolRegistry::Register(LimitedPool* pool) {
  std::lock_guard<std::mutex> lock(mu_);
  pools_.emplace(next_id_++, pool);
  // A limit may have been set or unset since FirstLimitFor().
  UpdateLimit(pool);
}

void PoolRegistry::Unregister(LimitedPool* pool) {
  std::lock_guard<std::mutex> lock(mu_);
  const auto found =
      std::find_if(pools_.begin(), pools_.end(),
                   [pool](const auto& entry) { return entry.second == pool; });
  if (found != pools_.end()) pools_.erase(found);
}

Outcome PoolRegistry::SetLimits(int intra, int inter) {
  std::lock_guard<std::mutex> lock(mu_);
  if (intra < kKeep || intra > MaxFor(PoolKind::kIntraOp) || inter < kKeep ||
      inter > MaxFor(PoolKind::kInterOp)) {
    return Outcome::kOutOfRange;
  }
  bool changed = (intra != kKeep && intra != intra_set_) ||
                 (inter != kKeep && inter != inter_set_);
  if (intra != kKeep) intra_set_ = intra;
  if (inter != kKeep) inter_set_ = inter;
  for (const auto& [id, pool] : pools_) {
    const bool is_inter = pool->kind() == PoolKind::kInterOp;
    if ((is_inter ? inter : intra) == kKeep) continue;
    changed |= UpdateLimit(pool);
  }
  return changed ? Outcome::kDone : Outcome::kNoChange;
}

Outcome PoolRegistry::SetPoolLimit(uint64_t id, int limit) {
  std::lock_guard<std::mutex> lock(mu_);
  const auto found = pools_.find(id);
  if (found == pools_.end()) return Outcome::kNoSuchPool;
  LimitedPool* const pool = found->second;
  if (limit < 1 || limit > pool->capacity()) return Outcome::kOutOfRange;
  if (limit == pool->limit()) return Outcome::kNoChange;
  pool->SetLimit(limit);
  return Outcome::kDone;
}

Limits PoolRegistry::GetLimits() const {
  std::lock_guard<std::mutex> lock(mu_);
  Limits limits;
  limits.intra = InForce(PoolKind::kIntraOp, intra_set_);
  limits.inter = InForce(PoolKind::kInterOp, inter_set_);
  limits.intra_set = intra_set_;
  limits.inter_set = inter_set_;
  limits.intra_max = MaxFor(PoolKind::kIntraOp);
  limits.inter_max = MaxFor(PoolKind::kInterOp);
  return limits;
}

std::vector<PoolStats> PoolRegistry::Stats() const {
  std::lock_guard<std::mutex> lock(mu_);
  std::vector<PoolStats> all;
  all.reserve(pools_.size());
  for (const auto& [id, pool] : pools_) {
    all.push_back(pool->Stats());
    all.back().id = id;
  }
  return all;
}

Outcome PoolRegistry::WaitSettled(std::chrono::duration<double> timeout) const {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  // The end of a task notifies nobody, to keep tasks cheap. So poll: often at
  // first, then less often, so as not to disturb a long task.
  std::chrono::microseconds pause{20};
  while (!Settled()) {
    if (Clock::now() - start >= timeout) return Outcome::kTimedOut;
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds{500});
  }
  return Outcome::kDone;
}

void PoolRegistry::ResetInChild() {
  pools_.clear();
  mu_.unlock();
}

int PoolRegistry::MaxFor(PoolKind kind) const {
  int max = max_threads_;
  for (const auto& [id, pool] : pools_) {
    if (pool->kind() == kind) max = std::max(max, pool->capacity());
  }
  return max;
}

int PoolRegistry::InForce(PoolKind kind, int set) const {
  for (const auto& [id, pool] : pools_) {
    if (pool->kind() == kind) return pool->limit();
  }
  return set;
}

int PoolRegistry::LimitFor(PoolKind kind, int requested, int capacity) const {
  const int set = kind == PoolKind::kInterOp ? inter_set_ : intra_set_;
  return set == kUnset ? requested : std::min(set, capacity);
}

bool PoolRegistry::UpdateLimit(LimitedPool* pool) {
  const int limit = LimitFor(pool->kind(), pool->requested(), pool->capacity());
  if (limit == pool->limit()) return false;
  pool->SetLimit(limit);
  return true;
}

bool PoolRegistry::Settled() const {
  std::lock_guard<std::mutex> lock(mu_);
  return std::all_of(pools_.begin(), pools_.end(),
                     [](const auto& entry) { return entry.second->Settled(); });
}

}  // namespace tf_malleable
