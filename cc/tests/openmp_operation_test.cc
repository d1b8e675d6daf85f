// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.

#include <gtest/gtest.h>

#include "cc/openmp/operation.h"

namespace tf_malleable {
namespace openmp {
namespace {

// Frames of a stack that grows down, an interpreter's apart.
constexpr std::uintptr_t kShallow = 90000;
constexpr std::uintptr_t kDeep = 50000;
constexpr std::uintptr_t kDeeper = 10000;

TEST(OpenmpOperationTest, EachReleaseOfTheGilIsAnotherOperation) {
  Operation operation;
  EXPECT_FALSE(operation.has_gil());
  unsigned last = operation.number();
  for (const std::uintptr_t frame : {kShallow, kDeeper, kDeep, kShallow}) {
    operation.Begin(frame);
    EXPECT_NE(operation.number(), last);
    last = operation.number();
    operation.End(frame);
    EXPECT_NE(operation.number(), last);
    last = operation.number();
  }
  EXPECT_TRUE(operation.has_gil());
}

TEST(OpenmpOperationTest, OneThatIsCalledInAnotherBelongsToIt) {
  Operation operation;
  operation.Begin(kShallow);
  const unsigned outer = operation.number();
  operation.Begin(kDeep);
  EXPECT_EQ(operation.number(), outer);
  operation.End(kDeep);
  EXPECT_EQ(operation.number(), outer);
  // pybind11 releases the GIL in the destructor of what has acquired it.
  operation.Begin(kDeeper);
  EXPECT_EQ(operation.number(), outer);
  operation.End(kShallow);
  EXPECT_NE(operation.number(), outer);
}

TEST(OpenmpOperationTest, ConstructorAndDestructorMayHaveFramesOfOtherSizes) {
  Operation operation;
  operation.Begin(kShallow);
  const unsigned open = operation.number();
  operation.End(kShallow - 100);
  EXPECT_NE(operation.number(), open);
  const unsigned closed = operation.number();
  operation.Begin(kDeep);
  EXPECT_NE(operation.number(), closed);
}

// An exception, or an API of Python that is not hooked, may have ended it.
TEST(OpenmpOperationTest, OneThatHasNotEndedIsReplacedByTheNextAtItsDepth) {
  Operation operation;
  operation.Begin(kDeep);
  const unsigned lost = operation.number();
  operation.Begin(kShallow);
  EXPECT_NE(operation.number(), lost);
}

TEST(OpenmpOperationTest, RegionsCountOnlyInThreadsWithoutTheGil) {
  Operation operation;
  const unsigned first = operation.number();
  operation.EndRegion();
  EXPECT_NE(operation.number(), first);
  operation.Begin(kDeep);
  const unsigned open = operation.number();
  operation.EndRegion();
  EXPECT_EQ(operation.number(), open);
}

}  // namespace
}  // namespace openmp
}  // namespace tf_malleable
