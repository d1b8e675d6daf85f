// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// Tests the table of descriptors while threads use, close and reuse them.

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "cc/tier/descriptor_table.h"

namespace tf_malleable {
namespace tier {
namespace {

std::atomic<int> resets;

struct Payload {
  void Reset() {
    value = -1;
    resets.fetch_add(1);
  }

  int value;  // Not atomic: no thread uses it while it is reset or set.
};

using Table = DescriptorTable<Payload, 64, 8>;

// A table of zeros, as the shim's global variable is.
std::unique_ptr<Table> NewTable() {
  return std::unique_ptr<Table>(new Table());
}

TEST(TierDescriptorTableTest, AnEntryLivesAsLongAsItIsUsed) {
  const auto table = NewTable();
  EXPECT_FALSE(table->Has(5));
  EXPECT_EQ(table->Acquire(5), nullptr);
  Table::Entry* entry = table->Allocate();
  entry->payload.value = 7;
  table->Insert(5, entry);
  resets = 0;

  Table::Entry* used = table->Acquire(5);
  ASSERT_EQ(used, entry);
  table->Remove(5);
  EXPECT_FALSE(table->Has(5));
  EXPECT_EQ(used->payload.value, 7);
  EXPECT_EQ(resets, 0);
  table->Release(used);
  EXPECT_EQ(resets, 1);
  EXPECT_EQ(table->size(), 0);
}

TEST(TierDescriptorTableTest, ADescriptorThatIsReusedHasTheNewEntry) {
  const auto table = NewTable();
  for (int i = 0; i < 100; ++i) {
    Table::Entry* entry = table->Allocate();
    ASSERT_NE(entry, nullptr) << i;
    entry->payload.value = i;
    table->Insert(5, entry);
    entry = table->Acquire(5);
    EXPECT_EQ(entry->payload.value, i);
    table->Release(entry);
  }
  EXPECT_EQ(table->size(), 1);
}

TEST(TierDescriptorTableTest, DescriptorsOutOfRangeHaveNoEntry) {
  const auto table = NewTable();
  for (int fd : {-1, 64, 1 << 30}) {
    EXPECT_FALSE(table->Has(fd));
    EXPECT_EQ(table->Acquire(fd), nullptr);
    table->Remove(fd);
    table->Insert(fd, table->Allocate());
  }
  EXPECT_EQ(table->size(), 0);
}

TEST(TierDescriptorTableTest, AFullTableHasNoFreeEntry) {
  const auto table = NewTable();
  std::vector<Table::Entry*> taken;
  for (int i = 0; i < 8; ++i) taken.push_back(table->Allocate());
  EXPECT_EQ(table->Allocate(), nullptr);
  table->Release(taken[3]);
  EXPECT_EQ(table->Allocate(), taken[3]);
}

TEST(TierDescriptorTableTest, ThreadsUseAndCloseTheSameDescriptors) {
  const auto table = NewTable();
  std::atomic<bool> stops{false};
  std::atomic<int> found{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {  // Read.
      while (!stops) {
        for (int fd = 0; fd < 4; ++fd) {
          Table::Entry* entry = table->Acquire(fd);
          if (entry == nullptr) continue;
          EXPECT_EQ(entry->payload.value, fd);
          found.fetch_add(1);
          table->Release(entry);
        }
      }
    });
  }
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {  // Open and close.
      for (int round = 0; round < 20000; ++round) {
        const int fd = (round + i) % 4;
        Table::Entry* entry = table->Allocate();
        if (entry == nullptr) continue;
        entry->payload.value = fd;
        table->Insert(fd, entry);
        if (round % 3 == 0) table->Remove(fd);
        if (round % 100 == 0) {
          table->ForEach([](int number, Payload* payload) {
            EXPECT_EQ(payload->value, number);
          });
        }
      }
    });
  }
  for (int i = 3; i < 6; ++i) threads[i].join();
  stops = true;
  for (int i = 0; i < 3; ++i) threads[i].join();
  EXPECT_GT(found, 0);
  for (int fd = 0; fd < 4; ++fd) table->Remove(fd);
  EXPECT_EQ(table->size(), 0);
}

}  // namespace
}  // namespace tier
}  // namespace tf_malleable
