// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.

#include "cc/limits/pool_registry.h"

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cc/tests/test_util.h"

namespace tf_malleable {
namespace {

constexpr int kMax = 8;
constexpr int kKeep = PoolRegistry::kKeep;
constexpr int kUnset = PoolRegistry::kUnset;

class PoolRegistryTest : public TimedTest {
 protected:
  std::unique_ptr<TestPool> NewPool(const std::string& name, int requested) {
    return std::make_unique<TestPool>(
        name, requested, true, Eigen::StlThreadEnvironment(), &registry_);
  }

  PoolRegistry registry_{kMax};
};

TEST_F(PoolRegistryTest, OnlyPoolsSizedByTheCpusMayGrow) {
  EXPECT_EQ(NewPool(kIntraName, 2)->capacity(), kMax);
  EXPECT_EQ(NewPool(kInterName, 2)->capacity(), kMax);
  EXPECT_EQ(NewPool("XLAEigen", 2)->capacity(), kMax);
  EXPECT_EQ(NewPool("xla-cpu-codegen", 2)->capacity(), 2);
  EXPECT_EQ(NewPool("data", 2)->capacity(), 2);
  EXPECT_EQ(NewPool("data", 1)->capacity(), 1);
  EXPECT_EQ(NewPool(kIntraName, 2 * kMax)->capacity(), 2 * kMax);
}

TEST_F(PoolRegistryTest, APoolStartsWithWhatWasRequested) {
  for (const char* name : {kIntraName, kInterName, "XLAEigen", "data"}) {
    const auto pool = NewPool(name, 3);
    EXPECT_EQ(pool->limit(), 3);
    EXPECT_EQ(pool->requested(), 3);
  }
}

TEST_F(PoolRegistryTest, LimitsReachThePoolsOfTheirKind) {
  const auto intra = NewPool(kIntraName, 2);
  const auto inter = NewPool(kInterName, 2);
  const auto other = NewPool("data", 4);
  EXPECT_EQ(registry_.SetLimits(6, kKeep), Outcome::kDone);
  EXPECT_EQ(intra->limit(), 6);
  EXPECT_EQ(inter->limit(), 2);
  EXPECT_EQ(other->limit(), 4);  // Its capacity.
  EXPECT_EQ(registry_.SetLimits(kKeep, 5), Outcome::kDone);
  EXPECT_EQ(intra->limit(), 6);
  EXPECT_EQ(inter->limit(), 5);
  EXPECT_EQ(registry_.SetLimits(3, 1), Outcome::kDone);
  EXPECT_EQ(intra->limit(), 3);
  EXPECT_EQ(inter->limit(), 1);
  EXPECT_EQ(other->limit(), 3);
}

TEST_F(PoolRegistryTest, UnsetRestoresWhatWasRequested) {
  const auto intra = NewPool(kIntraName, 2);
  const auto inter = NewPool(kInterName, 4);
  const auto other = NewPool("data", 5);
  registry_.SetLimits(1, 1);
  EXPECT_EQ(registry_.SetLimits(kUnset, kKeep), Outcome::kDone);
  EXPECT_EQ(intra->limit(), 2);
  EXPECT_EQ(inter->limit(), 1);
  EXPECT_EQ(other->limit(), 5);
  EXPECT_EQ(registry_.SetLimits(kKeep, kUnset), Outcome::kDone);
  EXPECT_EQ(inter->limit(), 4);
  EXPECT_EQ(registry_.GetLimits().intra_set, 0);
  EXPECT_EQ(registry_.GetLimits().inter_set, 0);
}

TEST_F(PoolRegistryTest, SaysWhenNothingChanges) {
  const auto intra = NewPool(kIntraName, 2);
  EXPECT_EQ(registry_.SetLimits(kKeep, kKeep), Outcome::kNoChange);
  EXPECT_EQ(registry_.SetLimits(kUnset, kUnset), Outcome::kNoChange);
  EXPECT_EQ(registry_.SetLimits(5, kKeep), Outcome::kDone);
  EXPECT_EQ(registry_.SetLimits(5, kKeep), Outcome::kNoChange);
  const uint64_t id = registry_.Stats()[0].id;
  EXPECT_EQ(registry_.SetPoolLimit(id, 5), Outcome::kNoChange);
  EXPECT_EQ(registry_.SetPoolLimit(id, 4), Outcome::kDone);
  EXPECT_EQ(registry_.SetLimits(5, kKeep), Outcome::kDone);
}

// Setting a limit is a change even while there is no pool.
TEST_F(PoolRegistryTest, ALimitForPoolsToComeIsAChange) {
  EXPECT_EQ(registry_.SetLimits(3, kKeep), Outcome::kDone);
  EXPECT_EQ(registry_.SetLimits(3, kKeep), Outcome::kNoChange);
  EXPECT_EQ(registry_.GetLimits().intra_set, 3);
}

TEST_F(PoolRegistryTest, RefusesLimitsOutOfRangeAndChangesNothing) {
  const auto intra = NewPool(kIntraName, 2);
  const auto inter = NewPool(kInterName, 3);
  registry_.SetLimits(4, 5);
  for (const auto& [new_intra, new_inter] :
       {std::pair(kMax + 1, 1), {1, kMax + 1}, {-2, 1}, {1, -2}}) {
    EXPECT_EQ(registry_.SetLimits(new_intra, new_inter), Outcome::kOutOfRange);
    EXPECT_EQ(intra->limit(), 4);
    EXPECT_EQ(inter->limit(), 5);
    EXPECT_EQ(registry_.GetLimits().intra_set, 4);
    EXPECT_EQ(registry_.GetLimits().inter_set, 5);
  }
}

TEST_F(PoolRegistryTest, AcceptsWhatTheLargestPoolOfAKindHas) {
  auto wide = NewPool(kIntraName, 2 * kMax);
  const auto narrow = NewPool(kIntraName, 2);
  EXPECT_EQ(registry_.GetLimits().intra_max, 2 * kMax);
  EXPECT_EQ(registry_.GetLimits().inter_max, kMax);
  EXPECT_EQ(registry_.SetLimits(2 * kMax, kKeep), Outcome::kDone);
  EXPECT_EQ(registry_.SetLimits(2 * kMax - 1, kKeep), Outcome::kDone);
  EXPECT_EQ(wide->limit(), 2 * kMax - 1);
  EXPECT_EQ(narrow->limit(), kMax);
  EXPECT_EQ(registry_.SetLimits(2 * kMax + 1, kKeep), Outcome::kOutOfRange);
  wide.reset();
  EXPECT_EQ(registry_.GetLimits().intra_max, kMax);
  EXPECT_EQ(registry_.SetLimits(kMax + 1, kKeep), Outcome::kOutOfRange);
}

TEST_F(PoolRegistryTest, LimitsSetBeforeAPoolIsBuiltHold) {
  registry_.SetLimits(5, 2);
  EXPECT_EQ(NewPool(kIntraName, 3)->limit(), 5);
  EXPECT_EQ(NewPool(kInterName, 3)->limit(), 2);
  EXPECT_EQ(NewPool("data", 3)->limit(), 3);
  EXPECT_EQ(NewPool("data", 6)->limit(), 5);
}

// Calls a function once, when a pool that is being built starts a thread.
struct CallingEnvironment : Eigen::StlThreadEnvironment {
  EnvThread* CreateThread(std::function<void()> loop) {
    // On a thread of its own, as in a program: this one holds locks of the
    // pool.
    if (during_construction) {
      std::thread(std::exchange(during_construction, nullptr)).join();
    }
    return StlThreadEnvironment::CreateThread(std::move(loop));
  }
  std::function<void()> during_construction;
};

TEST_F(PoolRegistryTest, LimitsSetWhileAPoolIsBuiltHold) {
  CallingEnvironment environment;
  environment.during_construction = [this] { registry_.SetLimits(5, kKeep); };
  MalleablePool<CallingEnvironment> pool(kIntraName, 3, true, environment,
                                         &registry_);
  EXPECT_EQ(pool.limit(), 5);
}

TEST_F(PoolRegistryTest, LimitsUnsetWhileAPoolIsBuiltHold) {
  registry_.SetLimits(5, kKeep);
  CallingEnvironment environment;
  environment.during_construction = [this] {
    registry_.SetLimits(kUnset, kKeep);
  };
  MalleablePool<CallingEnvironment> pool(kIntraName, 3, true, environment,
                                         &registry_);
  EXPECT_EQ(pool.limit(), 3);
}

TEST_F(PoolRegistryTest, OnePoolMayDifferUntilTheNextLimitForItsKind) {
  const auto first = NewPool(kIntraName, 2);
  const auto second = NewPool(kIntraName, 2);
  const uint64_t id = registry_.Stats()[1].id;
  EXPECT_EQ(registry_.SetPoolLimit(id, 6), Outcome::kDone);
  EXPECT_EQ(first->limit(), 2);
  EXPECT_EQ(second->limit(), 6);
  registry_.SetLimits(kKeep, 3);
  EXPECT_EQ(second->limit(), 6);
  registry_.SetLimits(3, kKeep);
  EXPECT_EQ(second->limit(), 3);
}

TEST_F(PoolRegistryTest, RefusesPoolLimitsOutOfRange) {
  const auto pool = NewPool("data", 3);
  const uint64_t id = registry_.Stats()[0].id;
  for (const int limit : {0, -1, 4}) {
    EXPECT_EQ(registry_.SetPoolLimit(id, limit), Outcome::kOutOfRange);
    EXPECT_EQ(pool->limit(), 3);
  }
}

TEST_F(PoolRegistryTest, IdsAreNeverReused) {
  auto pool = NewPool(kIntraName, 2);
  const uint64_t first = registry_.Stats()[0].id;
  pool.reset();
  EXPECT_EQ(registry_.SetPoolLimit(first, 1), Outcome::kNoSuchPool);
  pool = NewPool(kIntraName, 2);
  EXPECT_EQ(registry_.SetPoolLimit(first, 1), Outcome::kNoSuchPool);
  EXPECT_EQ(pool->limit(), 2);
  EXPECT_GT(registry_.Stats()[0].id, first);
  EXPECT_EQ(registry_.SetPoolLimit(0, 1), Outcome::kNoSuchPool);
}

TEST_F(PoolRegistryTest, ListsPoolsInTheOrderTheyWereBuilt) {
  std::vector<std::unique_ptr<TestPool>> pools;
  for (const char* name : {"c", kIntraName, "a", "b"}) {
    pools.push_back(NewPool(name, 1));
  }
  pools.erase(pools.begin() + 2);
  std::vector<std::string> names;
  for (const PoolStats& stats : registry_.Stats()) names.push_back(stats.name);
  EXPECT_EQ(names, (std::vector<std::string>{
                       "tf_c", std::string("tf_") + kIntraName, "tf_b"}));
}

TEST_F(PoolRegistryTest, ReportsLimitsInForceAndSet) {
  Limits limits = registry_.GetLimits();
  EXPECT_EQ(limits.intra, 0);
  EXPECT_EQ(limits.inter, 0);
  EXPECT_EQ(limits.intra_max, kMax);
  registry_.SetLimits(3, kKeep);
  limits = registry_.GetLimits();
  EXPECT_EQ(limits.intra, 3);
  EXPECT_EQ(limits.intra_set, 3);
  EXPECT_EQ(limits.inter, 0);
  const auto inter = NewPool(kInterName, 4);
  limits = registry_.GetLimits();
  EXPECT_EQ(limits.inter, 4);
  EXPECT_EQ(limits.inter_set, 0);
}

// Together, the pools of a machine's NUMA nodes have the limit.
TEST_F(PoolRegistryTest, PoolsOfNumaNodesShareTheLimit) {
  const auto first = NewPool("numa_0_Eigen", 4);
  registry_.SetLimits(5, kKeep);
  EXPECT_EQ(first->limit(), 5);
  auto second = NewPool("numa_1_Eigen", 4);
  EXPECT_EQ(first->limit(), 3);
  EXPECT_EQ(second->limit(), 2);
  EXPECT_EQ(registry_.GetLimits().intra, 5);
  registry_.SetLimits(1, kKeep);
  EXPECT_EQ(first->limit(), 1);
  EXPECT_EQ(second->limit(), 1);  // Each node needs one.
  registry_.SetLimits(6, kKeep);
  // Another session has a pool of its own for a node.
  const auto again = NewPool("numa_1_Eigen", 4);
  EXPECT_EQ(first->limit(), 3);
  EXPECT_EQ(again->limit(), 3);
  registry_.SetLimits(kUnset, kKeep);
  EXPECT_EQ(first->limit(), 4);
}

TEST_F(PoolRegistryTest, ANumaNodesShareReturnsWithItsPool) {
  const auto first = NewPool("numa_0_Eigen", 4);
  auto second = NewPool("numa_1_Eigen", 4);
  registry_.SetLimits(6, kKeep);
  EXPECT_EQ(first->limit(), 3);
  second.reset();
  EXPECT_EQ(first->limit(), 6);
}

TEST_F(PoolRegistryTest, TellsTheLimitInForceWithoutALock) {
  EXPECT_EQ(registry_.intra_in_force(), 0);
  registry_.SetLimits(3, kKeep);
  EXPECT_EQ(registry_.intra_in_force(), 3);
  auto pool = NewPool(kIntraName, 2);
  EXPECT_EQ(registry_.intra_in_force(), 3);
  registry_.SetPoolLimit(registry_.Stats()[0].id, 4);
  EXPECT_EQ(registry_.intra_in_force(), 4);
  registry_.SetLimits(kUnset, kKeep);
  EXPECT_EQ(registry_.intra_in_force(), 2);
  pool.reset();
  EXPECT_EQ(registry_.intra_in_force(), 0);
}

TEST_F(PoolRegistryTest, WaitSettledCoversEveryPool) {
  const auto first = NewPool(kIntraName, 2);
  const auto second = NewPool(kInterName, 2);
  EXPECT_EQ(registry_.WaitSettled(std::chrono::seconds(0)), Outcome::kDone);
  Gate gate;
  std::atomic<int> started{0};
  for (int i = 0; i < 2; ++i) {
    second->Schedule([&] {
      ++started;
      gate.Wait();
    });
  }
  ASSERT_TRUE(Eventually([&] { return started == 2; }));
  registry_.SetLimits(1, 1);
  EXPECT_EQ(registry_.WaitSettled(std::chrono::seconds(0)), Outcome::kTimedOut);
  gate.Open();
  EXPECT_EQ(registry_.WaitSettled(kPatience), Outcome::kDone);
}

}  // namespace
}  // namespace tf_malleable
