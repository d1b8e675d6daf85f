// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// An Eigen thread pool that is known to the registry.

#ifndef TF_MALLEABLE_CC_LIMITS_MALLEABLE_POOL_H_
#define TF_MALLEABLE_CC_LIMITS_MALLEABLE_POOL_H_

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cc/limits/limited_pool.h"
#include "cc/limits/limited_pool_view.h"
#include "cc/limits/pool_registry.h"
#include "cc/limits/tick_rate.h"
#include "unsupported/Eigen/CXX11/ThreadPool"

namespace tf_malleable {

// Environment is what Eigen's ThreadPoolTempl takes.
//
// The destructor runs all queued tasks, under the limit then in force, and
// joins the workers. Thread-safety: as LimitedPool and Eigen's pool.
template <typename Environment>
class MalleablePool final : public Eigen::ThreadPoolTempl<Environment>,
                            public LimitedPool {
 public:
  // Builds the pool with what `registry` says a pool of that `name` asking for
  // `requested` threads may grow to. REQUIRES: requested >= 1
  MalleablePool(const std::string& name, int requested, bool allow_spinning,
                Environment env, PoolRegistry* registry = &PoolRegistry::Get())
      : MalleablePool(name, requested,
                      registry->CapacityFor(name, KindOf(name), requested),
                      allow_spinning, std::move(env), registry) {}

  ~MalleablePool() override {
    registry_->Unregister(this);
    // Here rather than in Eigen's destructor: tasks may ask the pool and its
    // views until they end.
    Workers::Drain(this);
  }

  const std::string& name() const override { return name_; }
  PoolKind kind() const override { return kind_; }
  int capacity() const override { return this->NumThreads(); }
  int requested() const override { return requested_; }
  int limit() const override { return Workers::Limit(*this).limit(); }
  void SetLimit(int limit) override { Workers::SetLimit(this, limit); }
  LimitedPoolView* View(int limit) const override {
    return views_[limit - 1].get();
  }
  PlannedPoolView* PlannedView() override { return &*planned_view_; }
  bool Settled() const override { return Workers::Limit(*this).Settled(); }

  PoolStats Stats() const override {
    const ActiveLimit& workers = Workers::Limit(*this);
    const ActiveLimit::Totals totals = workers.ReadTotals();
    PoolStats stats;
    stats.name = "tf_" + name_;  // As its threads are called.
    stats.kind = kind_;
    stats.capacity = capacity();
    stats.limit = limit();
    stats.active = workers.Active();
    stats.queued = Workers::NumQueued(*this);
    stats.tasks = totals.tasks;
    stats.stand_ins = totals.stand_ins;
    stats.busy_seconds = TicksToSeconds(totals.busy_ticks);
    return stats;
  }

 private:
  using EigenPool = Eigen::ThreadPoolTempl<Environment>;
  using Workers = LimitedWorkers<EigenPool>;

  MalleablePool(const std::string& name, int requested, int capacity,
                bool allow_spinning, Environment env, PoolRegistry* registry)
      : EigenPool(capacity, allow_spinning, std::move(env),
                  registry->FirstLimitFor(KindOf(name), requested, capacity)),
        registry_(registry),
        name_(name),
        kind_(KindOf(name)),
        requested_(requested) {
    for (int limit = 1; limit <= capacity; ++limit) {
      views_.push_back(std::make_unique<LimitedPoolView>(this, this, limit));
    }
    // No plan gains by more threads than the host has CPUs.
    planned_view_.emplace(this, this,
                          std::min(capacity, std::max(requested, HostCpus())));
    registry_->Register(this);
  }

  PoolRegistry* const registry_;
  const std::string name_;
  const PoolKind kind_;
  const int requested_;
  std::vector<std::unique_ptr<LimitedPoolView>> views_;  // One per limit.
  std::optional<PlannedPoolView> planned_view_;
};

}  // namespace tf_malleable

#endif  // TF_MALLEABLE_CC_LIMITS_MALLEABLE_POOL_H_
