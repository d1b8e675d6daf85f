// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.

#include "cc/limits/op_width.h"

#include <cstdint>

#include "cc/limits/pool_registry.h"

namespace tf_malleable {
namespace {

thread_local int latched = 0;  // 0: not decided yet.
thread_local uint64_t changes_before = 0;

}  // namespace

void OpWidth::Begin() {
  latched = 0;
  changes_before = PoolRegistry::changes();
}

int OpWidth::Latch(int now) {
  if (latched == 0) latched = now;
  return latched;
}

bool OpWidth::LimitsAreSame() {
  const uint64_t changes = PoolRegistry::changes();
  return changes == changes_before && changes % 2 == 0;
}

int PlanWidth(int limit) {
  constexpr int kExactUpTo = 16;
  int step = 1;
  while (limit / step > kExactUpTo) step *= 2;
  return limit / step * step;
}

int PlanKey() {
  return PlanWidth(OpWidth::Latch(PoolRegistry::Get().intra_in_force()));
}

}  // namespace tf_malleable
