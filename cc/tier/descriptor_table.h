// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// DescriptorTable: the program's descriptors of files that are being copied.
//
// Thread-safety: all methods may be called from any thread and from signal
// handlers, and none blocks. A program may use a descriptor in one thread while
// it closes it in another one: an entry lives until its last user has released
// it.

#ifndef TF_MALLEABLE_CC_TIER_DESCRIPTOR_TABLE_H_
#define TF_MALLEABLE_CC_TIER_DESCRIPTOR_TABLE_H_

#include <stddef.h>
#include <stdint.h>

#include <atomic>

namespace tf_malleable {
namespace tier {

// A table from descriptors below kFds to kEntries entries. Payload has a method
// `void Reset()`, which is called after the last user has released the entry.
// Zero-initialised, so that it needs no constructor to be run.
template <typename Payload, int kFds = 65536, int kEntries = 512>
class DescriptorTable {
 public:
  struct Entry {
    Payload payload;
    std::atomic<int> fd;
    // Number of users, of which the table is one; 0 if the entry is free.
    std::atomic<uint32_t> users;
  };

  // Returns whether `fd` may have an entry; takes a nanosecond.
  bool Has(int fd) const {
    return static_cast<unsigned>(fd) < kFds &&
           index_[fd].load(std::memory_order_relaxed) != 0;
  }

  // Returns the entry of `fd`, which the caller must Release; null if there is
  // none.
  Entry* Acquire(int fd) {
    if (!Has(fd)) return nullptr;
    const unsigned number = index_[fd].load(std::memory_order_acquire);
    if (number == 0) return nullptr;
    Entry* entry = &entries_[number - 1];
    uint32_t users = entry->users.load(std::memory_order_relaxed);
    do {
      if (users == 0 || users == kResetting) return nullptr;
    } while (!entry->users.compare_exchange_weak(users, users + 1,
                                                 std::memory_order_acquire));
    // Another thread may have released it and inserted it for another
    // descriptor.
    if (entry->fd.load(std::memory_order_relaxed) != fd ||
        index_[fd].load(std::memory_order_acquire) != number) {
      Release(entry);
      return nullptr;
    }
    return entry;
  }

  // Ends the use of an entry.
  void Release(Entry* entry) {
    uint32_t users = entry->users.load(std::memory_order_relaxed);
    uint32_t rest;
    do {
      rest = users == 1 ? kResetting : users - 1;
    } while (!entry->users.compare_exchange_weak(users, rest,
                                                 std::memory_order_acq_rel));
    if (rest != kResetting) return;
    // The last user resets the entry before any thread can allocate it again.
    entry->payload.Reset();
    entry->users.store(0, std::memory_order_release);
    used_.fetch_sub(1, std::memory_order_relaxed);
  }

  // Returns a free entry, whose payload the caller fills in before it calls
  // Insert or Release; null if no entry is free.
  Entry* Allocate() {
    if (used_.fetch_add(1, std::memory_order_relaxed) >= kEntries) {
      used_.fetch_sub(1, std::memory_order_relaxed);
      return nullptr;
    }
    const unsigned first = next_.fetch_add(1, std::memory_order_relaxed);
    for (unsigned i = 0; i < kEntries; ++i) {
      Entry* entry = &entries_[(first + i) % kEntries];
      uint32_t free = 0;
      if (entry->users.compare_exchange_strong(free, 1,
                                               std::memory_order_acquire)) {
        return entry;
      }
    }
    used_.fetch_sub(1, std::memory_order_relaxed);
    return nullptr;
  }

  // Makes an allocated entry that of `fd`, in place of any other one.
  void Insert(int fd, Entry* entry) {
    if (static_cast<unsigned>(fd) >= kFds) {
      Release(entry);
      return;
    }
    entry->fd.store(fd, std::memory_order_relaxed);
    const unsigned number = static_cast<unsigned>(entry - entries_) + 1;
    const unsigned old = index_[fd].exchange(static_cast<uint16_t>(number),
                                             std::memory_order_acq_rel);
    if (old != 0) Release(&entries_[old - 1]);
  }

  // Removes the entry of `fd`; its other users may go on to use it.
  void Remove(int fd) {
    if (!Has(fd)) return;
    const unsigned old = index_[fd].exchange(0, std::memory_order_acq_rel);
    if (old != 0) Release(&entries_[old - 1]);
  }

  // Calls visit(fd, payload) for each entry that is in use.
  template <typename Visit>
  void ForEach(Visit visit) {
    if (used_.load(std::memory_order_relaxed) <= 0) return;
    for (Entry& each : entries_) {
      if (each.users.load(std::memory_order_acquire) == 0) continue;
      const int fd = each.fd.load(std::memory_order_relaxed);
      Entry* entry = Acquire(fd);
      if (entry == nullptr) continue;
      if (entry == &each) visit(fd, &entry->payload);
      Release(entry);
    }
  }

  // Number of entries in use.
  int size() const { return used_.load(std::memory_order_relaxed); }

 private:
  static_assert(kEntries <= UINT16_MAX, "the index has 16 bits");
  static constexpr uint32_t kResetting = 1u << 31;

  std::atomic<uint16_t> index_[kFds];
  std::atomic<unsigned> next_;
  std::atomic<int> used_;
  Entry entries_[kEntries];
};

}  // namespace tier
}  // namespace tf_malleable

#endif  // TF_MALLEABLE_CC_TIER_DESCRIPTOR_TABLE_H_
