// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// Tests the C ABI with the registry of this process.

#include "cc/capi/tfm.h"

#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "cc/tests/test_util.h"

namespace tf_malleable {
namespace {

constexpr int kMax = 6;

class TfmTest : public TimedTest {
 protected:
  void TearDown() override {
    tfm_set_threads(TFM_UNSET, TFM_UNSET);
    TimedTest::TearDown();
  }

  static std::unique_ptr<TestPool> NewPool(const std::string& name,
                                           int requested) {
    return std::make_unique<TestPool>(name, requested, true,
                                      Eigen::StlThreadEnvironment());
  }
  static tfm_threads Threads() {
    tfm_threads threads = {};
    threads.size = sizeof(threads);
    EXPECT_EQ(tfm_get_threads(&threads), TFM_SUCCESS);
    return threads;
  }
  static std::vector<tfm_pool> Pools() {
    std::vector<tfm_pool> pools(16);
    pools[0].size = sizeof(tfm_pool);
    int count = -1;
    EXPECT_EQ(tfm_get_pools(pools.data(), 16, &count), TFM_SUCCESS);
    pools.resize(count);
    return pools;
  }
};

TEST_F(TfmTest, SaysWhatItIs) {
  EXPECT_EQ(tfm_abi_version(), TFM_ABI_VERSION);
  EXPECT_STREQ(tfm_backend(), "test");
  EXPECT_STREQ(tfm_tensorflow_version(), "1.2.3");
}

TEST_F(TfmTest, SetsAndReportsThreads) {
  const auto intra = NewPool(kIntraName, 2);
  const auto inter = NewPool(kInterName, 3);
  EXPECT_EQ(tfm_set_threads(4, TFM_KEEP), TFM_SUCCESS);
  EXPECT_EQ(tfm_set_threads(4, TFM_KEEP), TFM_NO_CHANGE);
  const tfm_threads threads = Threads();
  EXPECT_EQ(threads.intra, 4);
  EXPECT_EQ(threads.inter, 3);
  EXPECT_EQ(threads.intra_set, 4);
  EXPECT_EQ(threads.inter_set, 0);
  EXPECT_EQ(threads.intra_max, kMax);
  EXPECT_EQ(threads.inter_max, kMax);
  EXPECT_EQ(intra->limit(), 4);
  EXPECT_EQ(tfm_set_threads(TFM_UNSET, TFM_UNSET), TFM_SUCCESS);
  EXPECT_EQ(intra->limit(), 2);
}

TEST_F(TfmTest, RefusesThreadsOutOfRange) {
  const auto intra = NewPool(kIntraName, 2);
  constexpr int kInts[] = {-2, kMax + 1, std::numeric_limits<int>::min(),
                           std::numeric_limits<int>::max()};
  for (const int bad : kInts) {
    EXPECT_EQ(tfm_set_threads(bad, TFM_KEEP), TFM_ERR_RANGE);
    EXPECT_EQ(tfm_set_threads(1, bad), TFM_ERR_RANGE);
  }
  EXPECT_EQ(intra->limit(), 2);
  EXPECT_EQ(Threads().intra_set, 0);
}

TEST_F(TfmTest, GetThreadsRefusesAStructItDoesNotKnow) {
  EXPECT_EQ(tfm_get_threads(nullptr), TFM_ERR_ARGUMENT);
  for (const uint32_t size : {0u, 1u, uint32_t{sizeof(tfm_threads) - 1},
                              uint32_t{sizeof(tfm_threads) + 4}}) {
    tfm_threads threads = {};
    threads.size = size;
    threads.intra = 77;
    EXPECT_EQ(tfm_get_threads(&threads), TFM_ERR_ARGUMENT);
    EXPECT_EQ(threads.intra, 77);
  }
}

TEST_F(TfmTest, SetsOnePool) {
  const auto pool = NewPool(kIntraName, 2);
  const uint64_t id = Pools()[0].id;
  EXPECT_EQ(tfm_set_pool_threads(id, 5), TFM_SUCCESS);
  EXPECT_EQ(pool->limit(), 5);
  EXPECT_EQ(tfm_set_pool_threads(id, 5), TFM_NO_CHANGE);
  EXPECT_EQ(tfm_set_pool_threads(id, 0), TFM_ERR_RANGE);
  EXPECT_EQ(tfm_set_pool_threads(id, TFM_KEEP), TFM_ERR_RANGE);
  EXPECT_EQ(tfm_set_pool_threads(id, kMax + 1), TFM_ERR_RANGE);
  EXPECT_EQ(tfm_set_pool_threads(id + 1, 1), TFM_ERR_NO_POOL);
  EXPECT_EQ(tfm_set_pool_threads(0, 1), TFM_ERR_NO_POOL);
  EXPECT_EQ(pool->limit(), 5);
}

TEST_F(TfmTest, DescribesPools) {
  const auto intra = NewPool(kIntraName, 2);
  const auto inter = NewPool(kInterName, 3);
  const auto other = NewPool(std::string(100, 'x'), 1);
  other->Schedule([] {});
  ASSERT_TRUE(Eventually([&] { return Pools()[2].tasks == 1; }));
  const std::vector<tfm_pool> pools = Pools();
  ASSERT_EQ(pools.size(), 3u);
  EXPECT_EQ(pools[0].kind, TFM_INTRA_OP);
  EXPECT_EQ(pools[1].kind, TFM_INTER_OP);
  EXPECT_EQ(pools[2].kind, TFM_OTHER);
  EXPECT_EQ(std::string(pools[0].name), std::string("tf_") + kIntraName);
  EXPECT_EQ(std::string(pools[2].name), "tf_" + std::string(60, 'x'));
  EXPECT_EQ(pools[1].capacity, kMax);
  EXPECT_EQ(pools[1].limit, 3);
  EXPECT_EQ(pools[2].capacity, 1);
  EXPECT_EQ(pools[2].active, 0);
  EXPECT_EQ(pools[2].queued, 0u);
  EXPECT_EQ(pools[2].stand_ins, 0u);
  EXPECT_GE(pools[2].busy_seconds, 0);
  for (const tfm_pool& pool : pools) EXPECT_EQ(pool.size, sizeof(tfm_pool));
}

TEST_F(TfmTest, WritesNoMorePoolsThanThereIsRoomFor) {
  const auto first = NewPool(kIntraName, 2);
  const auto second = NewPool(kInterName, 2);
  int count = -1;
  EXPECT_EQ(tfm_get_pools(nullptr, 0, &count), TFM_SUCCESS);
  EXPECT_EQ(count, 2);
  tfm_pool pools[2] = {};
  pools[0].size = sizeof(tfm_pool);
  count = -1;
  EXPECT_EQ(tfm_get_pools(pools, 1, &count), TFM_SUCCESS);
  EXPECT_EQ(count, 2);
  EXPECT_EQ(pools[0].capacity, kMax);
  EXPECT_EQ(pools[1].capacity, 0);
}

TEST_F(TfmTest, GetPoolsRefusesBadArguments) {
  const auto pool = NewPool(kIntraName, 2);
  tfm_pool pools[2] = {};
  int count = 77;
  EXPECT_EQ(tfm_get_pools(pools, 2, nullptr), TFM_ERR_ARGUMENT);
  EXPECT_EQ(tfm_get_pools(pools, 2, &count), TFM_ERR_ARGUMENT);
  pools[0].size = sizeof(tfm_pool) - 1;
  EXPECT_EQ(tfm_get_pools(pools, 2, &count), TFM_ERR_ARGUMENT);
  pools[0].size = sizeof(tfm_pool);
  EXPECT_EQ(tfm_get_pools(pools, -1, &count), TFM_ERR_ARGUMENT);
  EXPECT_EQ(tfm_get_pools(nullptr, 1, &count), TFM_ERR_ARGUMENT);
  EXPECT_EQ(count, 77);
  EXPECT_EQ(pools[0].capacity, 0);
}

TEST_F(TfmTest, WaitsForPoolsToSettle) {
  const auto pool = NewPool(kIntraName, 2);
  Gate gate;
  std::atomic<int> started{0};
  for (int i = 0; i < 2; ++i) {
    pool->Schedule([&] {
      ++started;
      gate.Wait();
    });
  }
  ASSERT_TRUE(Eventually([&] { return started == 2; }));
  EXPECT_EQ(tfm_wait_settled(0), TFM_SUCCESS);
  EXPECT_EQ(tfm_set_threads(1, TFM_KEEP), TFM_SUCCESS);
  EXPECT_EQ(tfm_wait_settled(0), TFM_TIMED_OUT);
  EXPECT_EQ(tfm_wait_settled(0.01), TFM_TIMED_OUT);
  gate.Open();
  EXPECT_EQ(tfm_wait_settled(std::numeric_limits<double>::infinity()),
            TFM_SUCCESS);
  EXPECT_EQ(tfm_wait_settled(std::numeric_limits<double>::max()), TFM_SUCCESS);
}

TEST_F(TfmTest, RefusesATimeoutThatIsNone) {
  EXPECT_EQ(tfm_wait_settled(-1), TFM_ERR_ARGUMENT);
  EXPECT_EQ(tfm_wait_settled(-1e-9), TFM_ERR_ARGUMENT);
  EXPECT_EQ(tfm_wait_settled(std::nan("")), TFM_ERR_ARGUMENT);
  EXPECT_EQ(tfm_wait_settled(-std::numeric_limits<double>::infinity()),
            TFM_ERR_ARGUMENT);
}

}  // namespace
}  // namespace tf_malleable

int main(int argc, char** argv) {
  // Read once, on the first use of the registry.
  setenv("TF_MALLEABLE_MAX_THREADS", std::to_string(tf_malleable::kMax).c_str(),
         1);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
