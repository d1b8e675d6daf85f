// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// Files of a partial copy, the part and the map, and access to them.
//
// Thread-safety: all functions may be called from any thread and from signal
// handlers.

#ifndef TF_MALLEABLE_CC_TIER_PARTIAL_COPY_FILES_H_
#define TF_MALLEABLE_CC_TIER_PARTIAL_COPY_FILES_H_

#include "cc/tier/partial_copy.h"

namespace tf_malleable {
namespace tier {

// Maximum number of bytes of a map that are read or written at a time.
inline constexpr size_t kMapChunkBytes = 2048;

// Writes the path of one of the files, in a folder of the store, to `path`.
void PathOf(const PartialCopy& partial, const Folder& folder,
            const char* suffix, char path[kPartialPathBytes]);

// Sends the daemon a message about the copy, with descriptors; returns whether
// it was sent.
bool Send(const PartialCopy& partial, MessageKind kind, const int* fds,
          int fds_size);

// Returns whether the descriptor still is the file that was opened, unchanged.
bool IsSource(const PartialCopy& partial, int fd);

// Returns whether the program's limit of file sizes lets a file grow to `end`.
bool MayWrite(int64_t end);

// Writes to a file of the copy; returns whether all bytes were written.
bool WriteAll(const OwnFile& file, const char* data, int64_t size,
              int64_t offset);

// Sets the state in the header of the map.
void SetState(const PartialCopy& partial, MapState state);

// Reads the header of a map; returns whether the map belongs to this version of
// the file.
bool ReadHeader(const PartialCopy& partial, int map, MapHeader* header);

// Writes the header of the map; returns whether that worked.
bool WriteHeader(const PartialCopy& partial);

}  // namespace tier
}  // namespace tf_malleable

#endif  // TF_MALLEABLE_CC_TIER_PARTIAL_COPY_FILES_H_
