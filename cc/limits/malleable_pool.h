// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// An Eigen thread pool with a limit, registered in the PoolRegistry.

#ifndef TF_MALLEABLE_CC_LIMITS_MALLEABLE_POOL_H_
#define TF_MALLEABLE_CC_LIMITS_MALLEABLE_POOL_H_

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cc/limits/pool_registry.h"
#include "cc/limits/registered_pool.h"
#include "cc/limits/tick_rate.h"
#include "cc/limits/width_view.h"
#include "unsupported/Eigen/CXX11/ThreadPool"

namespace tf_malleable {

// Environment is the parameter of Eigen's ThreadPoolTempl.
//
// The destructor runs all queued tasks, under the limit then in force, and
// joins the workers. Thread-safety: that of RegisteredPool and Eigen's pool.
template <typename Environment>
class MalleablePool final : public Eigen::ThreadPoolTempl<Environment>,
                            public RegisteredPool {
 public:
  // Builds a pool for which TensorFlow asks for `requested` threads. `registry`
  // decides its capacity and first limit. REQUIRES: requested >= 1
  MalleablePool(const std::string& name, int requested, bool allow_spinning,
                Environment env, PoolRegistry* registry = &PoolRegistry::Get())
      : MalleablePool(name, TraitsOf(name), requested, allow_spinning,
                      std::move(env), registry) {}

  ~MalleablePool() override {
    registry_->Unregister(this);
    // Here rather than in Eigen's destructor, as tasks may use the pool and its
    // views until they end.
    Hooks::Drain(this);
  }

  const std::string& name() const override { return name_; }
  const PoolTraits& traits() const override { return traits_; }
  int capacity() const override { return Hooks::Capacity(*this); }
  int requested() const override { return requested_; }
  int limit() const override { return Hooks::AdmissionOf(*this).limit(); }
  void SetLimit(int limit) override {
    Hooks::SetLimit(this, limit);
    for (int* const threads : told_) Store(threads, limit);
  }
  void TellLimit(int* threads) override {
    Store(threads, limit());
    if (std::find(told_.begin(), told_.end(), threads) == told_.end()) {
      told_.push_back(threads);
    }
  }
  WidthView* View(int width) const override {
    return views_[std::min<std::size_t>(width, views_.size()) - 1].get();
  }
  bool Settled() const override { return Hooks::AdmissionOf(*this).Settled(); }

  PoolStats Stats() const override {
    const Admission& admission = Hooks::AdmissionOf(*this);
    const WorkerRecords::Totals totals = admission.records().Read();
    PoolStats stats;
    stats.name = "tf_" + name_;  // The name of its threads.
    stats.kind = traits_.kind;
    stats.capacity = capacity();
    stats.limit = limit();
    stats.active = admission.records().Active();
    stats.queued = Hooks::NumQueued(*this);
    stats.tasks = totals.tasks;
    stats.stand_ins = admission.stand_ins();
    stats.busy_seconds = TicksToSeconds(totals.busy_ticks);
    return stats;
  }

 private:
  using EigenPool = Eigen::ThreadPoolTempl<Environment>;
  using Hooks = typename EigenPool::WorkerHooks;

  MalleablePool(const std::string& name, const PoolTraits& traits,
                int requested, bool allow_spinning, Environment env,
                PoolRegistry* registry)
      : EigenPool(registry->CapacityFor(traits, requested), allow_spinning,
                  std::move(env), registry->FirstLimitFor(traits, requested)),
        registry_(registry),
        name_(name),
        traits_(traits),
        requested_(requested) {
    for (int width = 1; width <= this->NumThreads(); ++width) {
      views_.push_back(std::make_unique<WidthView>(this, this, width));
    }
    registry_->Register(this);
  }

  // TensorFlow's kernels read the number meanwhile.
  static void Store(int* threads, int limit) {
    __atomic_store_n(threads, limit, __ATOMIC_RELAXED);
  }

  PoolRegistry* const registry_;
  const std::string name_;
  const PoolTraits traits_;
  const int requested_;
  std::vector<std::unique_ptr<WidthView>> views_;  // One for each width.
  std::vector<int*> told_;  // Guarded by the registry's lock.
};

}  // namespace tf_malleable

#endif  // TF_MALLEABLE_CC_LIMITS_MALLEABLE_POOL_H_
