// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.

#include <gtest/gtest.h>

#include "cc/openmp/latch.h"

namespace tf_malleable {
namespace openmp {
namespace {

constexpr int kCapacity = 8;

// A runtime's number for one thread, and the thread's operation.
class OpenmpLatchTest : public ::testing::Test {
 protected:
  int Adopt(int limit) {
    current_ = latch_.Adopt(current_, operation_, limit, kCapacity, has_gil_);
    return current_;
  }

  Latch latch_;
  int current_ = 2;
  unsigned operation_ = 7;
  bool has_gil_ = true;
};

TEST_F(OpenmpLatchTest, ANewLimitIsAdoptedByTheNextOperationOnly) {
  EXPECT_EQ(Adopt(4), 4);
  EXPECT_EQ(Adopt(1), 4);
  EXPECT_EQ(Adopt(8), 4);
  ++operation_;
  EXPECT_EQ(Adopt(1), 1);
  EXPECT_EQ(Adopt(8), 1);
  ++operation_;
  EXPECT_EQ(Adopt(8), 8);
}

TEST_F(OpenmpLatchTest, WhatTheProgramSetsIsAnUpperBound) {
  Adopt(8);
  current_ = 3;
  latch_.SetByProgram(3);
  EXPECT_EQ(Adopt(8), 3);
  EXPECT_EQ(Adopt(1), 3) << "in the operation that it was set for";
  ++operation_;
  EXPECT_EQ(Adopt(8), 3);
  ++operation_;
  EXPECT_EQ(Adopt(1), 1);
  ++operation_;
  EXPECT_EQ(Adopt(8), 3);
}

TEST_F(OpenmpLatchTest, WhatALibrarySetsForItselfIsNone) {
  current_ = 1;
  latch_.SetByLibrary(1);
  EXPECT_EQ(Adopt(4), 4);
}

TEST_F(OpenmpLatchTest, WhatIsSaidToBeSetDirectlyIsABoundUntilItIsRestored) {
  current_ = 1;
  latch_.SetDirectly(1, 1);
  EXPECT_EQ(Adopt(4), 1) << "also before the thread has asked";
  ++operation_;
  EXPECT_EQ(Adopt(8), 1);
  current_ = 2;
  latch_.SetDirectly(2, 0);
  EXPECT_EQ(Adopt(8), 2) << "in the operation that it was restored in";
  ++operation_;
  EXPECT_EQ(Adopt(8), 8);
  // The number of the moment.
  latch_.SetDirectly(8, 8);
  ++operation_;
  EXPECT_EQ(Adopt(1), 1);
  ++operation_;
  EXPECT_EQ(Adopt(16), 8);
}

// A program calls the runtime itself, and nobody says so: it asks, sets, and
// restores.
TEST_F(OpenmpLatchTest, WhatOthersSetIsABoundUntilTheyRestoreWhatTheyWereTold) {
  const int told = Adopt(6);
  current_ = 2;
  EXPECT_EQ(Adopt(6), 2);
  ++operation_;
  EXPECT_EQ(Adopt(6), 2);
  ++operation_;
  EXPECT_EQ(Adopt(1), 1);
  current_ = told;
  ++operation_;
  EXPECT_EQ(Adopt(7), 7);
}

TEST_F(OpenmpLatchTest, OverlappingNumbersOfOthersEndWithTheOutermost) {
  const int told = Adopt(6);
  current_ = 3;
  ++operation_;
  EXPECT_EQ(Adopt(6), 3);
  current_ = 2;
  ++operation_;
  EXPECT_EQ(Adopt(6), 2);
  current_ = 3;
  ++operation_;
  EXPECT_EQ(Adopt(6), 3);
  current_ = told;
  ++operation_;
  EXPECT_EQ(Adopt(6), 6);
}

TEST_F(OpenmpLatchTest, WithoutTheGilItDoesNotGrowBeyondItsStart) {
  has_gil_ = false;
  EXPECT_EQ(Adopt(8), 2);
  ++operation_;
  EXPECT_EQ(Adopt(1), 1);
  ++operation_;
  EXPECT_EQ(Adopt(8), 2);
}

TEST_F(OpenmpLatchTest, WithoutTheGilItStaysOnceTheProgramHasAsked) {
  has_gil_ = false;
  EXPECT_EQ(Adopt(2), 2);
  latch_.Ask();
  ++operation_;
  EXPECT_EQ(Adopt(1), 2);
  has_gil_ = true;
  ++operation_;
  EXPECT_EQ(Adopt(1), 1);
}

}  // namespace
}  // namespace openmp
}  // namespace tf_malleable
