// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// Tests the registry in a forked child, which has no workers, so the registry
// starts empty. It must be usable, whatever the parent's threads were doing
// with the registry.

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <thread>
#include <vector>

#include "cc/tests/test_util.h"

namespace tf_malleable {
namespace {

// The sanitizers do not protect their own locks and thread lists in fork(), so
// a child that starts threads hangs or crashes there. With them it starts none.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool kChildMayStartThreads = false;
#else
constexpr bool kChildMayStartThreads = true;
#endif

class ForkTest : public TimedTest {};

// Returns the child's exit status: 0, or the number of the step that failed.
// No EXPECT here: another thread may have held GoogleTest's locks.
int InChild() {
  PoolRegistry& registry = PoolRegistry::Get();
  if (!registry.Stats().empty()) return 1;
  if (registry.SetLimits(3, 2) == Outcome::kOutOfRange) return 2;
  if (registry.GetLimits().intra != 3) return 3;
  if (!kChildMayStartThreads) return 0;
  {
    TestPool pool(kIntraName, 2, true, {});
    if (pool.limit() != 3 || registry.Stats().size() != 1) return 4;
    std::atomic<int> ran{0};
    for (int i = 0; i < 100; ++i) pool.Schedule([&ran] { ++ran; });
    if (!Eventually([&ran] { return ran == 100; })) return 5;
    if (registry.SetLimits(1, PoolRegistry::kKeep) != Outcome::kDone) return 6;
    if (registry.WaitSettled(kPatience) != Outcome::kDone) return 7;
    for (int i = 0; i < 100; ++i) pool.Schedule([&ran] { ++ran; });
    if (!Eventually([&ran] { return ran == 200; })) return 8;
  }
  return registry.Stats().empty() ? 0 : 9;
}

TEST_F(ForkTest, AChildHasAnEmptyRegistryThatWorks) {
  constexpr int kForks = 30;
  PoolRegistry& registry = PoolRegistry::Get();
  ASSERT_EQ(registry.max_threads(), 4);
  TestPool pool(kIntraName, 2, true, {});
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      Random random(t);
      while (!stop) {
        registry.SetLimits(random.Between(0, 4), random.Between(0, 4));
        registry.WaitSettled(std::chrono::seconds(0));
      }
    });
  }
  threads.emplace_back([&] {
    while (!stop) {
      TestPool passing(kInterName, 2, true, {});
      pool.Schedule([] {});
    }
  });
  for (int i = 0; i < kForks; ++i) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      alarm(kPatience.count());  // A fork does not inherit its parent's.
      _exit(InChild());
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
    EXPECT_EQ(WEXITSTATUS(status), 0);
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();

  // The parent's registry is unchanged.
  EXPECT_EQ(registry.Stats().size(), 1u);
  EXPECT_NE(registry.SetLimits(4, 4), Outcome::kOutOfRange);
  EXPECT_EQ(pool.limit(), 4);
}

}  // namespace
}  // namespace tf_malleable

int main(int argc, char** argv) {
  setenv("TF_MALLEABLE_MAX_THREADS", "4", 1);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
