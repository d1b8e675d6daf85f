// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.

#include "cc/limits/op_width.h"

#include "cc/limits/pool_registry.h"

namespace tf_malleable {
namespace {

thread_local int latched = 0;  // 0: not decided yet.

}  // namespace

void OpWidth::Begin() { latched = 0; }

int OpWidth::Latch(int now) {
  if (latched == 0) latched = now;
  return latched;
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
