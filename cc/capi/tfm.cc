// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.

#include "cc/capi/tfm.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <vector>

#include "cc/limits/pool_registry.h"

#if !defined(TF_MALLEABLE_BACKEND) || !defined(TF_MALLEABLE_TF_VERSION)
#error "the build must define the backend and the TensorFlow version"
#endif

namespace {

using tf_malleable::Outcome;
using tf_malleable::PoolRegistry;

static_assert(TFM_KEEP == PoolRegistry::kKeep);
static_assert(TFM_UNSET == PoolRegistry::kUnset);
static_assert(TFM_INTRA_OP ==
              static_cast<int>(tf_malleable::PoolKind::kIntraOp));
static_assert(TFM_INTER_OP ==
              static_cast<int>(tf_malleable::PoolKind::kInterOp));
static_assert(TFM_OTHER == static_cast<int>(tf_malleable::PoolKind::kOther));

int CodeOf(Outcome outcome) {
  switch (outcome) {
    case Outcome::kDone:
      return TFM_SUCCESS;
    case Outcome::kNoChange:
      return TFM_NO_CHANGE;
    case Outcome::kOutOfRange:
      return TFM_ERR_RANGE;
    case Outcome::kNoSuchPool:
      return TFM_ERR_NO_POOL;
    case Outcome::kTimedOut:
      return TFM_TIMED_OUT;
  }
  return TFM_ERR_ARGUMENT;
}

tfm_pool ToC(const tf_malleable::PoolStats& stats) {
  tfm_pool pool = {};
  pool.size = sizeof(tfm_pool);
  pool.kind = static_cast<int32_t>(stats.kind);
  pool.id = stats.id;
  stats.name.copy(pool.name, sizeof(pool.name) - 1);
  pool.capacity = stats.capacity;
  pool.limit = stats.limit;
  pool.active = stats.active;
  pool.queued = stats.queued;
  pool.tasks = stats.tasks;
  pool.stand_ins = stats.stand_ins;
  pool.busy_seconds = stats.busy_seconds;
  return pool;
}

}  // namespace

int tfm_abi_version(void) { return TFM_ABI_VERSION; }

const char* tfm_backend(void) { return TF_MALLEABLE_BACKEND; }

const char* tfm_tensorflow_version(void) { return TF_MALLEABLE_TF_VERSION; }

int tfm_set_threads(int intra, int inter) {
  return CodeOf(PoolRegistry::Get().SetLimits(intra, inter));
}

int tfm_get_threads(tfm_threads* threads) {
  if (threads == nullptr || threads->size != sizeof(tfm_threads)) {
    return TFM_ERR_ARGUMENT;
  }
  const tf_malleable::Limits limits = PoolRegistry::Get().GetLimits();
  threads->intra = limits.intra;
  threads->inter = limits.inter;
  threads->intra_set = limits.intra_set;
  threads->inter_set = limits.inter_set;
  threads->intra_max = limits.intra_max;
  threads->inter_max = limits.inter_max;
  return TFM_SUCCESS;
}

int tfm_set_pool_threads(uint64_t id, int limit) {
  return CodeOf(PoolRegistry::Get().SetPoolLimit(id, limit));
}

int tfm_get_pools(tfm_pool* pools, int room, int* count) {
  if (count == nullptr || room < 0 || (room > 0 && pools == nullptr) ||
      (room > 0 && pools[0].size != sizeof(tfm_pool))) {
    return TFM_ERR_ARGUMENT;
  }
  const std::vector<tf_malleable::PoolStats> all = PoolRegistry::Get().Stats();
  *count = static_cast<int>(all.size());
  std::transform(all.begin(), all.begin() + std::min(room, *count), pools, ToC);
  return TFM_SUCCESS;
}

int tfm_wait_settled(double timeout) {
  // 30 years. Above this, the clock arithmetic could overflow.
  constexpr double kForever = 1e9;
  if (std::isnan(timeout) || timeout < 0) return TFM_ERR_ARGUMENT;
  return CodeOf(PoolRegistry::Get().WaitSettled(
      std::chrono::duration<double>(std::min(timeout, kForever))));
}
