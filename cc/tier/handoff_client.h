// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// Handoff, the reader's side: small files are passed to the daemon in shared
// memory, so that a read costs no more than a copy of its bytes. The daemon
// makes the files when the machine has time; see handoff_server.h.
//
// Thread-safety: all functions may be called from any thread and from signal
// handlers. A thread that finds the queue in use for long does without it.

#ifndef TF_MALLEABLE_CC_TIER_HANDOFF_CLIENT_H_
#define TF_MALLEABLE_CC_TIER_HANDOFF_CLIENT_H_

#include <stdint.h>

#include <atomic>

#include "cc/tier/protocol.h"
#include "cc/tier/settings.h"

namespace tf_malleable {
namespace tier {

struct PartialCopy;

// The queue of this process. Zero-initialised: without a queue.
struct HandoffQueue {
  std::atomic<bool> lock;  // Guards the members below and the queue's records.
  QueueHeader* queue;
  uint64_t connection;  // Inode of the socket on which the queue was sent.
};

// Hands over a small file that was read completely by the descriptor `fd`;
// returns whether it was put into the queue. `data` has all bytes of the file;
// if it is null, they are read from the part.
bool HandOver(const PartialCopy& partial, int fd, const char* data);

// Withdraws a file, or a folder with its contents, from the queue, as far as
// the daemon has not taken it yet. Afterwards, the daemon makes no copy of it.
// Waits for at most 100 ms for each record that the daemon is copying.
void Withdraw(const Key& key);

// Unmaps the queue in a forked child, which gets its own.
void ForgetQueue();

}  // namespace tier
}  // namespace tf_malleable

#endif  // TF_MALLEABLE_CC_TIER_HANDOFF_CLIENT_H_
