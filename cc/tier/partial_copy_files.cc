// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.

#include "cc/tier/partial_copy_files.h"

#include "cc/tier/identity.h"
#include "cc/tier/syscalls.h"

namespace tf_malleable {
namespace tier {

void PathOf(const PartialCopy& partial, const Folder& folder,
            const char* suffix, char path[kPartialPathBytes]) {
  PartialPath(folder, partial.key, partial.key_size, suffix, path);
}

bool Send(const PartialCopy& partial, MessageKind kind, const int* fds,
          int fds_size) {
  return shim.daemon.Send(kind, partial.key, partial.key_size,
                          &partial.identity, fds, fds_size);
}

bool IsSource(const PartialCopy& partial, int fd) {
  struct statx status;
  return sys::CachedStatus(fd, &status) == 0 &&
         DeviceOf(status) == partial.identity.device &&
         IsSameVersion(partial.identity, status);
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

void SetState(const PartialCopy& partial, MapState state) {
  const uint32_t value = state;
  WriteAll(partial.map, reinterpret_cast<const char*>(&value), sizeof(value),
           offsetof(MapHeader, state));
}

bool ReadHeader(const PartialCopy& partial, int map, MapHeader* header) {
  return sys::ReadAt(map, header, sizeof(*header), 0) == sizeof(*header) &&
         header->magic == kMapMagic && header->version == kVersion &&
         header->state != kIsDropped && header->unit == partial.unit &&
         header->units == partial.units &&
         header->identity.inode == partial.identity.inode &&
         header->identity.size == partial.identity.size &&
         header->identity.mtime_s == partial.identity.mtime_s &&
         header->identity.mtime_ns == partial.identity.mtime_ns;
}

bool WriteHeader(const PartialCopy& partial) {
  MapHeader header;
  memset(&header, 0, sizeof(header));
  header.version = kVersion;
  header.unit = partial.unit;
  header.units = partial.units;
  header.fills = partial.is_public ? 0 : 1;
  header.identity = partial.identity;
  const uint32_t magic = kMapMagic;
  return WriteAll(partial.map, reinterpret_cast<const char*>(&header),
                  sizeof(header), 0) &&
         WriteAll(partial.map, reinterpret_cast<const char*>(&magic),
                  sizeof(magic), 0);
}

void OwnFile::Take(int opened) {
  fd = MoveFdUp(opened);
  inode = InodeOf(fd);
  if (fd >= 0) shim.own_files.fetch_add(1, std::memory_order_relaxed);
}

void OwnFile::Close() {
  if (fd < 0) return;
  CloseIfSame(fd, inode);
  fd = -1;
  shim.own_files.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace tier
}  // namespace tf_malleable
