// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// An Eigen thread pool with a limit, registered in the PoolRegistry.

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

// Environment is the parameter of Eigen's ThreadPoolTempl.
//
// The destructor runs all queued tasks, under the limit then in force, and
// joins the workers. Thread-safety: that of LimitedPool and Eigen's pool.
template <typename Environment>
class MalleablePool final : public Eigen::ThreadPoolTempl<Environment>,
                            public LimitedPool {
 public:
  // Builds a pool for which TensorFlow asks for `requested` threads. `registry`
  // decides its capacity and first limit. REQUIRES: requested >= 1
  MalleablePool(const std::string& name, int requested, bool allow_spinning,
                Environment env, PoolRegistry* registry = &PoolRegistry::Get())
      : MalleablePool(name, requested,
                      registry->CapacityFor(name, KindOf(name), requested),
                      allow_spinning, std::move(env), registry) {}

  ~MalleablePool() override {
    registry_->Unregister(this);
    // Here rather than in Eigen's destructor, as tasks may use the pool and its
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
    stats.name = "tf_" + name_;  // The name of its threads.
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
    // More threads than the host has CPUs are of no use to a plan.
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
