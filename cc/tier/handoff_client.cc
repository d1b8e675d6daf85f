// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.

#include "cc/tier/handoff_client.h"

#include <string.h>
#include <sys/mman.h>

#include "cc/tier/identity.h"
#include "cc/tier/partial_copy.h"
#include "cc/tier/partial_copy_files.h"
#include "cc/tier/syscalls.h"

namespace tf_malleable {
namespace tier {
namespace {

constexpr int kLockTries = 2000;
// Maximum time for which Withdraw waits until the daemon has finished a record.
constexpr int64_t kMaxWaitNs = 100 * kMillisecondNs;
constexpr int64_t kPauseNs = 100 * kMicrosecondNs;
// The access time is left out: it changes with each read, and the kernel would
// ask the file server for it.
constexpr unsigned kCompared = STATX_TYPE | STATX_MODE | STATX_UID | STATX_GID |
                               STATX_INO | STATX_SIZE | STATX_MTIME;

// Holds the queue's lock, if held().
class QueueLock {
 public:
  QueueLock() : held_(false) {
    // Not for ever: a signal handler may have interrupted the holder.
    for (int i = 0; i < kLockTries && !held_; ++i) {
      held_ = !shim.handoff.lock.exchange(true, std::memory_order_acquire);
    }
  }
  ~QueueLock() {
    if (held_) shim.handoff.lock.store(false, std::memory_order_release);
  }
  QueueLock(const QueueLock&) = delete;
  QueueLock& operator=(const QueueLock&) = delete;
  bool held() const { return held_; }

 private:
  bool held_;
};

// Returns whether the file still has its name, according to the kernel's cached
// status.
bool HasName(const PartialCopy& partial) {
  struct statx status;
  return syscall(SYS_statx, AT_FDCWD, partial.key,
                 AT_SYMLINK_NOFOLLOW | AT_STATX_DONT_SYNC, kCompared,
                 &status) == 0 &&
         S_ISREG(status.stx_mode) &&
         DeviceOf(status) == partial.identity.device &&
         IsSameVersionAndMode(partial.identity, status);
}

void Unmap() {
  if (shim.handoff.queue != nullptr) {
    syscall(SYS_munmap, shim.handoff.queue, kQueueBytes);
    shim.handoff.queue = nullptr;
  }
}

// Returns a new queue, whose descriptor the daemon has; null if that fails.
QueueHeader* MakeQueue() {
  // Beyond the limit, the kernel would send SIGXFSZ.
  if (!MayWrite(kQueueBytes)) return nullptr;
  const int fd = static_cast<int>(
      syscall(SYS_memfd_create, "tier-queue", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (fd < 0) return nullptr;
  void* page = MAP_FAILED;
  if (syscall(SYS_ftruncate, fd, kQueueBytes) == 0 &&
      sys::Fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) ==
          0) {
    page = reinterpret_cast<void*>(syscall(SYS_mmap, nullptr, kQueueBytes,
                                           PROT_READ | PROT_WRITE, MAP_SHARED,
                                           fd, 0));
  }
  auto* queue = page == MAP_FAILED ? nullptr : static_cast<QueueHeader*>(page);
  if (queue != nullptr) {
    queue->magic = kQueueMagic;
    queue->version = kVersion;
    if (!shim.daemon.Send(kQueue, "", 0, nullptr, &fd, 1)) {
      syscall(SYS_munmap, queue, kQueueBytes);
      queue = nullptr;
    }
  }
  sys::Close(fd);
  return queue;
}

// Returns the queue of the present connection; null if there is none.
QueueHeader* Queue() {
  const uint64_t connection = shim.daemon.ConnectionInode();
  if (connection == 0) return nullptr;
  if (shim.handoff.queue == nullptr || shim.handoff.connection != connection) {
    // The daemon takes the files in the queue of another connection when that
    // connection ends.
    Unmap();
    shim.handoff.queue = MakeQueue();
    shim.handoff.connection = connection;
  }
  return shim.handoff.queue;
}

char* PlaceOf(QueueHeader* queue, uint64_t position) {
  return reinterpret_cast<char*>(queue) + kQueueRingOffset +
         position % kQueueRingBytes;
}

// Copies the whole part to `to`; returns whether that worked.
bool ReadPart(const PartialCopy& partial, char* to) {
  int64_t done = 0;
  while (partial.part.IsOpen() && done < partial.identity.size) {
    const ssize_t got =
        sys::ReadAt(partial.part.fd, to + done,
                    static_cast<size_t>(partial.identity.size - done), done);
    if (got <= 0) return false;
    done += got;
  }
  return done == partial.identity.size;
}

// Returns whether a key is `folder` or below it.
bool IsAt(const char* key, size_t size, const Key& folder) {
  return size >= folder.size() &&
         memcmp(key, folder.key(), folder.size()) == 0 &&
         (size == folder.size() || key[folder.size()] == '/');
}

}  // namespace

bool HandOver(const PartialCopy& partial, int fd, const char* data) {
  if (!shim.daemon.TakesHandoffs() || shim.settings.has_renamed_roots ||
      !IsSource(partial, fd) || !HasName(partial)) {
    return false;
  }
  const QueueLock lock;
  if (!lock.held()) return false;
  QueueHeader* const queue = Queue();
  if (queue == nullptr) return false;
  const uint64_t size = QueueRecordSize(
      partial.key_size, static_cast<uint64_t>(partial.identity.size));
  uint64_t written = __atomic_load_n(&queue->written, __ATOMIC_RELAXED);
  const uint64_t taken = __atomic_load_n(&queue->taken, __ATOMIC_ACQUIRE);
  const uint64_t rest = kQueueRingBytes - written % kQueueRingBytes;
  const uint64_t skipped = rest < size ? rest : 0;
  if (written + skipped + size - taken > kQueueRingBytes) return false;
  if (skipped > 0) {
    memcpy(PlaceOf(queue, written), &kSkipMagic, sizeof(kSkipMagic));
    written += skipped;
  }
  QueueRecord record;
  memset(&record, 0, sizeof(record));
  record.magic = kRecordMagic;
  record.key_size = partial.key_size;
  record.size = size;
  record.identity = partial.identity;
  char* to = PlaceOf(queue, written);
  memcpy(to, &record, sizeof(record));
  to += sizeof(record);
  memcpy(to, partial.key, partial.key_size);
  to += partial.key_size;
  if (data != nullptr) {
    memcpy(to, data, static_cast<size_t>(partial.identity.size));
  } else if (!ReadPart(partial, to)) {
    return false;
  }
  __atomic_store_n(&queue->written, written + size, __ATOMIC_SEQ_CST);
  if (__atomic_exchange_n(&queue->is_watched, 1, __ATOMIC_SEQ_CST) == 0) {
    if (!shim.daemon.Send(kHanded, "", 0, nullptr, nullptr, 0)) {
      __atomic_store_n(&queue->is_watched, 0, __ATOMIC_SEQ_CST);
    }
  } else {
    shim.daemon.ReportCounts("", 0);
  }
  return true;
}

void Withdraw(const Key& key) {
  // Without the lock, the daemon drops the copy when it receives kChanged.
  const QueueLock lock;
  QueueHeader* const queue = shim.handoff.queue;
  if (!lock.held() || queue == nullptr) return;
  const uint64_t written = __atomic_load_n(&queue->written, __ATOMIC_RELAXED);
  uint64_t at = __atomic_load_n(&queue->taken, __ATOMIC_ACQUIRE);
  while (at < written) {
    auto* record = reinterpret_cast<QueueRecord*>(PlaceOf(queue, at));
    if (record->magic != kRecordMagic) {
      at += kQueueRingBytes - at % kQueueRingBytes;
      continue;
    }
    const char* its = reinterpret_cast<const char*>(record + 1);
    if (IsAt(its, record->key_size, key)) {
      __atomic_store_n(&record->is_withdrawn, 1, __ATOMIC_SEQ_CST);
      // The daemon may be copying the record: it looks at the flag again after
      // it has made the copy.
      const int64_t begin = sys::Now(CLOCK_MONOTONIC);
      while (__atomic_load_n(&queue->is_busy, __ATOMIC_SEQ_CST) != 0 &&
             __atomic_load_n(&queue->taken, __ATOMIC_SEQ_CST) == at &&
             sys::Now(CLOCK_MONOTONIC) - begin < kMaxWaitNs) {
        sys::Sleep(kPauseNs);
      }
    }
    at += record->size;
  }
}

void ForgetQueue() {
  Unmap();
  shim.handoff.lock.store(false, std::memory_order_release);
}

}  // namespace tier
}  // namespace tf_malleable
