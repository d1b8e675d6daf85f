// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// Handoff, the daemon's side: copies of the small files that readers hand over;
// see handoff_client.h. A C ABI, for Python's ctypes.
//
// A reader may write anything into its queue, at any time: only data that was
// copied out of the queue and then checked is trusted. At worst, the reader's
// own user gets a wrong copy.
//
// Thread-safety: one thread at a time may use a queue; several threads may use
// different queues.

#ifndef TF_MALLEABLE_CC_TIER_HANDOFF_SERVER_H_
#define TF_MALLEABLE_CC_TIER_HANDOFF_SERVER_H_

#include <stdint.h>

#include "cc/tier/protocol.h"

namespace tf_malleable {
namespace tier {

// Result for a small file, followed by its key. The next result begins at a
// multiple of 8 bytes.
struct HandedFile {
  int32_t error;  // Error as errno; 0 if the copy exists now.
  uint32_t key_size;
  Identity identity;
};
static_assert(sizeof(HandedFile) == 136, "the layout is the daemon's too");

extern "C" {

// Maps a queue; null if the descriptor, which stays the caller's, is not that
// of a queue.
__attribute__((visibility("default"))) void* tfm_tier_queue_open(int fd);

// Makes copies of the files in the queue. Returns the size of the results in
// bytes, 0 if the queue is empty, and -1 if it is malformed. Blocks on disk
// I/O.
//
//   taken    Position in the queue up to which files were taken; updated.
//   store    Folder private/UID in the store.
//   growing  Folder growing/private/UID in the store.
//   sources  Folders of the source, each with a 0 after it, and one more 0.
//   out      Results, one HandedFile with its key for each file.
//   size     Size of `out` in bytes.
__attribute__((visibility("default"))) int64_t tfm_tier_queue_take(
    void* queue, uint64_t* taken, const char* store, const char* growing,
    const char* sources, char* out, int64_t size);

// Makes the reader send kHanded for its next file; returns whether the queue is
// empty now.
__attribute__((visibility("default"))) int tfm_tier_queue_rest(void* queue,
                                                               uint64_t taken);

// Unmaps a queue.
__attribute__((visibility("default"))) void tfm_tier_queue_close(void* queue);

}  // extern "C"

}  // namespace tier
}  // namespace tf_malleable

#endif  // TF_MALLEABLE_CC_TIER_HANDOFF_SERVER_H_
