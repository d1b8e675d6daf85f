// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.

#include "cc/limits/pool_registry.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <set>
#include <thread>

namespace tf_malleable {
namespace {

// Returns TF_MALLEABLE_MAX_THREADS, or else the number of the host's CPUs. The
// Python package refuses an invalid value; a preloaded library can only ignore
// it.
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

}  // namespace

int HostCpus() {
  static const int cpus =
      static_cast<int>(std::max(sysconf(_SC_NPROCESSORS_ONLN), 1L));
  return cpus;
}

PoolRegistry& PoolRegistry::Get() {
  static PoolRegistry* const registry = [] {
    auto owned = std::make_unique<PoolRegistry>(MaxThreadsFromEnvironment());
    pthread_atfork([] { Get().LockForFork(); }, [] { Get().UnlockAfterFork(); },
                   [] { Get().ResetInChild(); });
    created_.store(owned.get(), std::memory_order_release);
    return owned.release();
  }();
  return *registry;
}

int PoolRegistry::CapacityFor(const PoolTraits& traits, int requested) const {
  return traits.may_grow ? std::max(requested, max_threads_) : requested;
}

int PoolRegistry::FirstLimitFor(const PoolTraits& traits, int requested) const {
  std::lock_guard<std::mutex> lock(mu_);
  const int set = traits.kind == PoolKind::kInterOp ? inter_set_ : intra_set_;
  return set == kUnset ? requested
                       : std::min(set, CapacityFor(traits, requested));
}

void PoolRegistry::Register(RegisteredPool* pool) {
  std::lock_guard<std::mutex> lock(mu_);
  pools_.emplace(next_id_++, pool);
  // A limit may have been set or unset since FirstLimitFor().
  UpdateLimit(pool);
  if (pool->traits().numa_node >= 0) Rebalance();
  UpdateInForce();
}

void PoolRegistry::Unregister(RegisteredPool* pool) {
  std::lock_guard<std::mutex> lock(mu_);
  const auto found =
      std::find_if(pools_.begin(), pools_.end(),
                   [pool](const auto& entry) { return entry.second == pool; });
  if (found != pools_.end()) pools_.erase(found);
  if (pool->traits().numa_node >= 0) Rebalance();
  UpdateInForce();
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
  UpdateInForce();
  return changed ? Outcome::kDone : Outcome::kNoChange;
}

Outcome PoolRegistry::SetPoolLimit(uint64_t id, int limit) {
  std::lock_guard<std::mutex> lock(mu_);
  const auto found = pools_.find(id);
  if (found == pools_.end()) return Outcome::kNoSuchPool;
  RegisteredPool* const pool = found->second;
  if (limit < 1 || limit > pool->capacity()) return Outcome::kOutOfRange;
  if (limit == pool->limit()) return Outcome::kNoChange;
  Change(pool, limit);
  UpdateInForce();
  return Outcome::kDone;
}

void PoolRegistry::TellLimit(RegisteredPool* pool, int* threads) {
  std::lock_guard<std::mutex> lock(mu_);
  pool->TellLimit(threads);
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
  // The end of a task notifies no thread, to keep tasks cheap. So poll: often
  // at first, then less often, so as not to disturb a long task.
  constexpr std::chrono::microseconds kFirstPause{20};
  constexpr std::chrono::microseconds kLongestPause{500};
  std::chrono::microseconds pause = kFirstPause;
  while (!Settled()) {
    if (Clock::now() - start >= timeout) return Outcome::kTimedOut;
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, kLongestPause);
  }
  return Outcome::kDone;
}

void PoolRegistry::ResetInChild() {
  pools_.clear();
  UpdateInForce();
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
  int all_nodes = 0;
  std::set<int> counted;
  for (const auto& [id, pool] : pools_) {
    if (pool->kind() != kind) continue;
    const int node = pool->traits().numa_node;
    if (node < 0) return pool->limit();
    // Another session's pools for the same nodes have the same limits.
    if (counted.insert(node).second) all_nodes += pool->limit();
  }
  return all_nodes > 0 ? all_nodes : set;
}

int PoolRegistry::LimitFor(const RegisteredPool& pool) const {
  int limit = pool.kind() == PoolKind::kInterOp ? inter_set_ : intra_set_;
  if (limit == kUnset) return std::min(pool.requested(), pool.capacity());
  const int node = pool.traits().numa_node;
  if (node >= 0) {
    // TensorFlow builds one pool for each node; two sessions may have their
    // own.
    std::set<int> nodes;
    for (const auto& [id, other] : pools_) {
      if (other->traits().numa_node >= 0)
        nodes.insert(other->traits().numa_node);
    }
    const int rank =
        static_cast<int>(std::distance(nodes.begin(), nodes.find(node)));
    const int count = static_cast<int>(nodes.size());
    // Each node needs a worker, even if there are more nodes than threads.
    limit = std::max(1, limit / count + (rank < limit % count ? 1 : 0));
  }
  return std::min(limit, pool.capacity());
}

bool PoolRegistry::UpdateLimit(RegisteredPool* pool) {
  const int limit = LimitFor(*pool);
  if (limit == pool->limit()) return false;
  Change(pool, limit);
  return true;
}

void PoolRegistry::Change(RegisteredPool* pool, int limit) {
  changes_.fetch_add(1, std::memory_order_seq_cst);
  pool->SetLimit(limit);
  changes_.fetch_add(1, std::memory_order_seq_cst);
}

void PoolRegistry::Rebalance() {
  for (const auto& [id, pool] : pools_) {
    if (pool->traits().numa_node >= 0) UpdateLimit(pool);
  }
}

void PoolRegistry::UpdateInForce() {
  intra_in_force_.store(InForce(PoolKind::kIntraOp, intra_set_),
                        std::memory_order_relaxed);
  intra_is_set_.store(intra_set_ != kUnset, std::memory_order_relaxed);
}

bool PoolRegistry::Settled() const {
  std::lock_guard<std::mutex> lock(mu_);
  return std::all_of(pools_.begin(), pools_.end(),
                     [](const auto& entry) { return entry.second->Settled(); });
}

}  // namespace tf_malleable
