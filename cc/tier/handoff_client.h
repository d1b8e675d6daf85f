// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// How a reader hands small files over to the daemon: through memory that both
// have mapped, so that a read costs no more than copying its bytes. The daemon
// makes files of them when the machine has time; see handoff_server.h.
//
// Thread-safety: all may be called from any thread and from signal handlers.
// Who finds the queue in use for long does without it.

#ifndef TF_MALLEABLE_CC_TIER_HANDOFF_CLIENT_H_
#define TF_MALLEABLE_CC_TIER_HANDOFF_CLIENT_H_

#include <stdint.h>

#include <atomic>

#include "cc/tier/protocol.h"
#include "cc/tier/settings.h"

namespace tf_malleable {
namespace tier {

struct PartialCopy;

// The queue of this process. Zero at first: there is none.
struct HandoffQueue {
  std::atomic<bool> lock;  // Guards the rest, and who writes into the queue.
  QueueHeader* queue;
  uint64_t connection;  // The inode of the socket by which it was sent.
};

// Hands over a small file that was read whole by the descriptor `fd`; returns
// whether it did. `data` has all its bytes; if it is null, they are read from
// the part.
bool HandOver(const PartialCopy& partial, int fd, const char* data);

// Takes back what was handed over of a file, or of a folder with all in it,
// and was not taken yet. ValueOf that, no copy of it comes.
void Withdraw(const Key& key);

// A process that was forked begins anew.
void ForgetQueue();

}  // namespace tier
}  // namespace tf_malleable

#endif  // TF_MALLEABLE_CC_TIER_HANDOFF_CLIENT_H_
