// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// How the daemon takes small files that readers hand over, and makes copies of
// them; see handoff_client.h. A C ABI, for Python's ctypes.
//
// A reader may write anything into its queue, at any time: nothing in it is
// trusted but what was copied out and looked at. At worst the reader's own
// user gets a wrong copy.
//
// Thread-safety: one thread at a time for each queue.

#ifndef TF_MALLEABLE_CC_TIER_HANDOFF_SERVER_H_
#define TF_MALLEABLE_CC_TIER_HANDOFF_SERVER_H_

#include <stdint.h>

#include "cc/tier/protocol.h"

namespace tf_malleable {
namespace tier {

// What became of a small file. Followed by its key; the next one begins at a
// multiple of 8.
struct HandedFile {
  int32_t error;  // errno, or 0: there is a copy now.
  uint32_t key_size;
  Identity identity;
};
static_assert(sizeof(HandedFile) == 136, "the layout is the daemon's too");

extern "C" {

// Maps a queue; null if the descriptor, which stays the caller's, is of none.
__attribute__((visibility("default"))) void* tfm_tier_queue_open(int fd);

// Makes copies of what has been handed over, as many as `out` has room for.
// Returns how many of its bytes it has filled; 0 if there is nothing more, and
// -1 if the queue is broken.
//
//   taken    how much was taken before, which is changed.
//   store    private/UID in the store.
//   growing  growing/private/UID in the store.
//   sources  the folders of the source, each with a 0 after it, and one more.
__attribute__((visibility("default"))) int64_t tfm_tier_queue_take(
    void* queue, uint64_t* taken, const char* store, const char* growing,
    const char* sources, char* out, int64_t size);

// Tells the reader to say when it hands over the next file; returns whether
// there is none already.
__attribute__((visibility("default"))) int tfm_tier_queue_rest(void* queue,
                                                               uint64_t taken);

__attribute__((visibility("default"))) void tfm_tier_queue_close(void* queue);

}  // extern "C"

}  // namespace tier
}  // namespace tf_malleable

#endif  // TF_MALLEABLE_CC_TIER_HANDOFF_SERVER_H_
