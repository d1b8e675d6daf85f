// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.

#include "cc/limits/pool_kind.h"

#include "gtest/gtest.h"

namespace tf_malleable {
namespace {

TEST(PoolKindTest, InterOpPoolsAreTheProcesssAndThoseOfSessions) {
  for (const char* name : {"Compute", "Compute0", "Compute1", "Compute17"}) {
    EXPECT_EQ(TraitsOf(name).kind, PoolKind::kInterOp) << name;
    EXPECT_TRUE(TraitsOf(name).may_grow) << name;
  }
}

TEST(PoolKindTest, IntraOpPoolsAreOfAllNodesOrOfOne) {
  EXPECT_EQ(TraitsOf("numa_-1_Eigen").kind, PoolKind::kIntraOp);
  EXPECT_EQ(TraitsOf("numa_-1_Eigen").numa_node, -1);
  EXPECT_EQ(TraitsOf("numa_0_Eigen").kind, PoolKind::kIntraOp);
  EXPECT_EQ(TraitsOf("numa_0_Eigen").numa_node, 0);
  EXPECT_EQ(TraitsOf("numa_12_Eigen").numa_node, 12);
  EXPECT_TRUE(TraitsOf("numa_12_Eigen").may_grow);
}

TEST(PoolKindTest, OfTheOthersOnlyXlasComputingPoolsMayGrow) {
  EXPECT_TRUE(TraitsOf("XLAEigen").may_grow);
  for (const char* name :
       {"xla-cpu-codegen", "data_private_threadpool", "", "compute", "ComputeX",
        "Compute-1", "numa_0", "numa__Eigen", "numa_x_Eigen", "Eigen"}) {
    EXPECT_FALSE(TraitsOf(name).may_grow) << name;
  }
  for (const char* name : {"XLAEigen", "xla-cpu-codegen", "ComputeX", "",
                           "Compute-1", "numa_x_Eigen", "numa__Eigen"}) {
    EXPECT_EQ(TraitsOf(name).kind, PoolKind::kOther) << name;
    EXPECT_EQ(TraitsOf(name).numa_node, -1) << name;
  }
}

}  // namespace
}  // namespace tf_malleable
