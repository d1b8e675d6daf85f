// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// The part and the map of a partial copy, and what is written to them.
//
// Thread-safety: all may be called from any thread and from signal handlers.

#ifndef TF_MALLEABLE_CC_TIER_PARTIAL_COPY_FILES_H_
#define TF_MALLEABLE_CC_TIER_PARTIAL_COPY_FILES_H_

#include "cc/tier/partial_copy.h"

namespace tf_malleable {
namespace tier {

// So much of a map is read or written at a time.
inline constexpr size_t kMapChunkBytes = 2048;

// The path of one of its files in a folder of the store.
void PathOf(const PartialCopy& partial, const Folder& folder,
            const char* suffix, char path[kPartialPathBytes]);

// Tells the daemon of it, with descriptors; returns whether it could.
bool Send(const PartialCopy& partial, MessageKind kind, const int* fds,
          int fds_size);

// Whether the descriptor still is the file that was opened, unchanged.
bool IsSource(const PartialCopy& partial, int fd);

// Whether the program's limit lets a file grow so long.
bool MayWrite(int64_t end);

// Returns whether all of it was written.
bool WriteAll(const OwnFile& file, const char* data, int64_t size,
              int64_t offset);

void SetState(const PartialCopy& partial, MapState state);

// Reads the header of a map; returns whether it is of this file.
bool ReadHeader(const PartialCopy& partial, int map, MapHeader* header);

bool WriteHeader(const PartialCopy& partial);

}  // namespace tier
}  // namespace tf_malleable

#endif  // TF_MALLEABLE_CC_TIER_PARTIAL_COPY_FILES_H_
