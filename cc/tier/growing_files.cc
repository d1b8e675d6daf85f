// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.

#include "cc/tier/growing_files.h"

#include "cc/tier/identity.h"
#include "cc/tier/system.h"

namespace tf_malleable {
namespace tier {

void PathOf(const Growing& growing, const Folder& folder, const char* suffix,
            char path[kGrowingPath]) {
  GrowingPath(folder, growing.key, growing.key_size, suffix, path);
}

bool Send(const Growing& growing, MessageKind kind, const int* fds,
          int fds_size) {
  return shim.daemon.Send(kind, growing.key, growing.key_size,
                          &growing.identity, fds, fds_size);
}

bool IsSource(const Growing& growing, int fd) {
  struct statx status;
  return sys::CachedStatus(fd, &status) == 0 &&
         DeviceOf(status) == growing.identity.device &&
         IsSameVersion(growing.identity, status);
}

bool MayWrite(int64_t end) {
  // Beyond the limit, the kernel would send SIGXFSZ.
  return sys::Soft(RLIMIT_FSIZE) >= static_cast<uint64_t>(end);
}

bool WriteAll(const OwnFile& file, const char* data, int64_t size,
              int64_t offset) {
  if (!file.IsOpen() || !MayWrite(offset + size)) return false;
  while (size > 0) {
    const ssize_t done =
        sys::WriteAt(file.fd, data, static_cast<size_t>(size), offset);
    if (done <= 0) {
      if (done < 0 && errno == EINTR) continue;
      return false;
    }
    data += done;
    size -= done;
    offset += done;
  }
  return true;
}

void SetState(const Growing& growing, MapState state) {
  const uint32_t value = state;
  WriteAll(growing.map, reinterpret_cast<const char*>(&value), sizeof(value),
           offsetof(MapHeader, state));
}

// The header of a map, if it is of this file.
bool ReadHeader(const Growing& growing, int map, MapHeader* header) {
  return sys::ReadAt(map, header, sizeof(*header), 0) == sizeof(*header) &&
         header->magic == kMapMagic && header->version == kVersion &&
         header->state != kIsDropped && header->unit == growing.unit &&
         header->units == growing.units &&
         header->identity.inode == growing.identity.inode &&
         header->identity.size == growing.identity.size &&
         header->identity.mtime_s == growing.identity.mtime_s &&
         header->identity.mtime_ns == growing.identity.mtime_ns;
}

bool WriteHeader(const Growing& growing) {
  MapHeader header;
  memset(&header, 0, sizeof(header));
  header.version = kVersion;
  header.unit = growing.unit;
  header.units = growing.units;
  header.fills = growing.is_public ? 0 : 1;
  header.identity = growing.identity;
  const uint32_t magic = kMapMagic;
  return WriteAll(growing.map, reinterpret_cast<const char*>(&header),
                  sizeof(header), 0) &&
         WriteAll(growing.map, reinterpret_cast<const char*>(&magic),
                  sizeof(magic), 0);
}

void OwnFile::Take(int opened) {
  fd = MoveUp(opened);
  inode = InodeOf(fd);
  if (fd >= 0) shim.own_files.fetch_add(1, std::memory_order_relaxed);
}

void OwnFile::Close() {
  if (fd < 0) return;
  CloseOwn(fd, inode);
  fd = -1;
  shim.own_files.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace tier
}  // namespace tf_malleable
