// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.

#include <gnu/libc-version.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "cc/openmp/runtime.h"

namespace tf_malleable {
namespace openmp {
namespace {

TEST(OpenmpRuntimeTest, ClassesAreThoseOfTheTable) {
  EXPECT_EQ(ClassOf("/a/lightgbm/lib/lib_lightgbm.so"), Class::kFree);
  EXPECT_EQ(ClassOf("/a/numba/np/ufunc/omppool.cpython-311-x86_64.so"),
            Class::kFreeToShrink);
  EXPECT_EQ(ClassOf("/a/sklearn/cluster/_k_means_lloyd.abi3.so"),
            Class::kFreeToShrink);
  EXPECT_EQ(
      ClassOf("/a/sklearn/metrics/_pairwise_distances_reduction/_argkmin.so"),
      Class::kAtOperations);
  EXPECT_EQ(ClassOf("/a/torch/lib/libtorch_cpu.so"), Class::kAtOperations);
  EXPECT_EQ(ClassOf("/a/program"), Class::kAtOperations);
}

// Addresses in several libraries, more than one thread can look up at once.
std::vector<const void*> Addresses() {
  std::vector<const void*> found;
  for (int i = 0; i < 64; ++i) {
    found.push_back(reinterpret_cast<const char*>(&gnu_get_libc_version) + i);
    found.push_back(reinterpret_cast<const char*>(&ClassOf) + i);
  }
  return found;
}

TEST(OpenmpRuntimeTest, ThreadsFindTheSameCallersAtTheSameTime) {
  const std::vector<const void*> addresses = Addresses();
  constexpr int kThreads = 8;
  std::vector<std::vector<std::string>> found(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (const void* address : addresses) {
        found[t].push_back(CallerAt(address).path);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int t = 0; t < kThreads; ++t) EXPECT_EQ(found[t], found[0]);
  EXPECT_NE(found[0][0].find("libc.so"), std::string::npos);
  EXPECT_NE(found[0][0], found[0][1]);
  // Whatever the threads have made at the same time, an address keeps its own.
  for (const void* address : addresses) {
    EXPECT_EQ(&CallerAt(address), &CallerAt(address));
  }
}

TEST(OpenmpRuntimeTest, AnAddressOfNoLibraryIsLeftAlone) {
  char here = 0;
  const Caller& caller = CallerAt(&here);
  EXPECT_EQ(caller.runtime, nullptr);
  EXPECT_EQ(caller.how, Class::kConfined);
}

}  // namespace
}  // namespace openmp
}  // namespace tf_malleable
