// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// Tests that workers are started when the limit reaches them, as far as the
// system allows.

#include <dirent.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "cc/tests/test_util.h"

namespace tf_malleable {
namespace {

constexpr int kCapacity = 256;

// Returns the kernel ids of the threads of this process.
std::set<std::string> Threads() {
  std::set<std::string> threads;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir("/proc/self/task"),
                                                   &closedir);
  while (const dirent* entry = readdir(folder.get())) {
    if (entry->d_name[0] != '.') threads.insert(entry->d_name);
  }
  return threads;
}

int CountThreads() { return static_cast<int>(Threads().size()); }

// Returns the highest number of tasks that a pool runs at once.
int MostAtOnce(TestPool* pool) {
  Gate gate;
  std::atomic<int> running{0};
  std::atomic<int> ended{0};
  const int tasks = pool->limit() + 4;
  for (int i = 0; i < tasks; ++i) {
    pool->Schedule([&] {
      ++running;
      gate.Wait();
      ++ended;
    });
  }
  Eventually([&] { return running >= pool->limit(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const int most = running;
  gate.Open();
  Eventually([&] { return ended == tasks; });
  return most;
}

class WorkerStarterTest : public TimedTest {
 protected:
  void SetUp() override {
    TimedTest::SetUp();
    // With the first thread, ThreadSanitizer starts one of its own. A thread
    // that was joined still counts for a while.
    std::thread([] {}).join();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    before_ = CountThreads();
  }

  int before_ = 0;
};

TEST_F(WorkerStarterTest, APoolHasOneThreadMoreThanItsLimit) {
  PoolRegistry registry(kCapacity);
  TestPool pool(kIntraName, 2, true, {}, &registry);
  EXPECT_EQ(pool.capacity(), kCapacity);
  EXPECT_TRUE(Eventually([&] { return CountThreads() == before_ + 3; }));
  for (const int limit : {5, 3, 40}) {
    pool.SetLimit(limit);
    EXPECT_EQ(MostAtOnce(&pool), limit);
  }
  EXPECT_TRUE(Eventually([&] { return CountThreads() == before_ + 41; }));
  pool.SetLimit(kCapacity);
  EXPECT_EQ(MostAtOnce(&pool), kCapacity);
  EXPECT_EQ(CountThreads(), before_ + kCapacity);
}

TEST_F(WorkerStarterTest, APoolAtItsCapacityHasAsManyThreads) {
  PoolRegistry registry(kCapacity);
  TestPool pool("data", 4, true, {}, &registry);
  EXPECT_EQ(MostAtOnce(&pool), 4);
  EXPECT_EQ(CountThreads(), before_ + 4);
}

TEST_F(WorkerStarterTest, APoolMayEndWhileItsWorkersStart) {
  PoolRegistry registry(kCapacity);
  for (int round = 0; round < 30; ++round) {
    std::atomic<int> ran{0};
    {
      TestPool pool(kIntraName, 2, true, {}, &registry);
      for (int i = 0; i < 100; ++i) pool.Schedule([&ran] { ++ran; });
      pool.SetLimit(kCapacity / 4);
      if (round % 2 == 0) pool.SetLimit(1);
    }
    EXPECT_EQ(ran, 100);
  }
}

// Returns a field of the kernel's status of a thread of this process.
std::string StatusOf(const std::string& thread, const std::string& field) {
  std::ifstream file("/proc/self/task/" + thread + "/status");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(field + ":", 0) == 0) return line;
  }
  return "";
}

// Returns that field of all threads but these.
std::set<std::string> StatusOfOthers(const std::set<std::string>& these,
                                     const std::string& field) {
  std::set<std::string> found;
  for (const std::string& thread : Threads()) {
    if (these.count(thread) == 0) found.insert(StatusOf(thread, field));
  }
  return found;
}

// A controller's thread, for example, has other signals and CPUs than the
// thread that has built the pool.
TEST_F(WorkerStarterTest, AWorkerIsLikeTheFirstWhoeverStartsIt) {
  cpu_set_t all;
  ASSERT_EQ(sched_getaffinity(0, sizeof(all), &all), 0);
  int one = 0;
  while (!CPU_ISSET(one, &all)) ++one;
  cpu_set_t mine;
  CPU_ZERO(&mine);
  CPU_SET(one, &mine);
  sigset_t blocked;
  sigset_t before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGUSR2);
  const std::set<std::string> others = Threads();
  PoolRegistry registry(kCapacity);
  std::unique_ptr<TestPool> pool;
  {
    ASSERT_EQ(sched_setaffinity(0, sizeof(mine), &mine), 0);
    ASSERT_EQ(pthread_sigmask(SIG_BLOCK, &blocked, &before), 0);
    pool = std::make_unique<TestPool>(kIntraName, 1, true,
                                      Eigen::StlThreadEnvironment(), &registry);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    sched_setaffinity(0, sizeof(all), &all);
  }
  pool->SetLimit(8);
  EXPECT_EQ(MostAtOnce(pool.get()), 8);
  EXPECT_GE(CountThreads(), static_cast<int>(others.size()) + 8);
  EXPECT_EQ(StatusOfOthers(others, "SigBlk").size(), 1u);
  // The last to start may not be there yet.
  const std::set<std::string> expected = {"Cpus_allowed_list:\t" +
                                          std::to_string(one)};
  EXPECT_TRUE(Eventually(
      [&] { return StatusOfOthers(others, "Cpus_allowed_list") == expected; }));
  sigset_t now;
  pthread_sigmask(SIG_SETMASK, nullptr, &now);
  EXPECT_EQ(sigismember(&now, SIGUSR2), 0);
}

// As in a container with a low pids.max. Returns 0, or the step that failed.
int WithFewThreads() {
  // Root is exempt from the limit.
  constexpr uid_t kNobodysUser = 54321;
  if (setuid(kNobodysUser) != 0) return 1;
  const rlimit few = {20, 20};
  if (setrlimit(RLIMIT_NPROC, &few) != 0) return 2;
  PoolRegistry registry(kCapacity);
  TestPool pool(kIntraName, 4, true, {}, &registry);
  if (pool.capacity() != kCapacity) return 3;
  if (registry.SetLimits(64, PoolRegistry::kKeep) != Outcome::kDone) return 4;
  if (!Eventually([&] { return pool.capacity() < kCapacity; })) return 5;
  const int capacity = pool.capacity();
  if (capacity < 4 || capacity > 12) return 6;
  if (!Eventually([&] { return pool.limit() == capacity; })) return 7;
  if (MostAtOnce(&pool) != capacity) return 8;
  if (registry.GetLimits().intra != capacity) return 9;
  pool.SetLimit(1);
  if (MostAtOnce(&pool) != 1) return 10;
  pool.SetLimit(64);  // By a caller that read the capacity before.
  if (pool.limit() != capacity) return 11;
  // TensorFlow has other threads to start.
  std::mutex until_all_have_started;
  until_all_have_started.lock();
  std::vector<std::thread> others;
  for (int i = 0; i < 8; ++i) {
    others.emplace_back(
        [&] { std::lock_guard<std::mutex> lock(until_all_have_started); });
  }
  until_all_have_started.unlock();
  for (std::thread& other : others) other.join();
  return 0;
}

TEST_F(WorkerStarterTest, AThreadThatTheSystemRefusesLowersTheCapacity) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "a forked child cannot start threads under the sanitizers";
#endif
  if (geteuid() != 0) {
    GTEST_SKIP() << "only root can become a user who has no other processes, "
                    "which the limit would count, too";
  }
  int warnings[2];
  ASSERT_EQ(pipe(warnings), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(kPatience.count());
    dup2(warnings[1], STDERR_FILENO);
    _exit(WithFewThreads());
  }
  close(warnings[1]);
  std::string said;
  char buffer[256];
  for (ssize_t n; (n = read(warnings[0], buffer, sizeof(buffer))) > 0;) {
    said.append(buffer, n);
  }
  close(warnings[0]);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(said.find("tf_malleable: the system allows few more threads ("), 0u)
      << said;
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
}

}  // namespace
}  // namespace tf_malleable
