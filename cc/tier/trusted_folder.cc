// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.

#include "cc/tier/trusted_folder.h"

#include <limits.h>

#include "cc/tier/syscalls.h"

namespace tf_malleable {
namespace tier {
namespace {

constexpr mode_t kWritableByOthers = S_IWGRP | S_IWOTH;
constexpr int kFlags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
constexpr size_t kMaxFileBytes = 256;  // More than the first line of a uid_map.
constexpr int kMapNumbers = 3;         // Numbers in a line of a uid_map.
// Length of the map of the initial user namespace, which maps each user id to
// itself.
constexpr uint64_t kAllUsers = 4294967295;

// Reads numbers from the begin of a file; returns whether there were enough.
bool ReadNumbers(const char* path, int count, uint64_t* numbers) {
  const int fd = sys::Open(path, O_RDONLY);
  if (fd < 0) return false;
  char text[kMaxFileBytes];
  const ssize_t size = sys::Read(fd, text, sizeof(text));
  sys::Close(fd);
  int found = 0;
  bool is_inside = false;
  for (ssize_t i = 0; i < size; ++i) {
    if (text[i] < '0' || text[i] > '9') {
      if (is_inside && found == count) break;
      is_inside = false;
      continue;
    }
    if (!is_inside) {
      if (found == count) break;
      numbers[found++] = 0;
    }
    is_inside = true;
    numbers[found - 1] =
        numbers[found - 1] * 10 + static_cast<uint64_t>(text[i] - '0');
  }
  return found == count;
}

// Returns whether this stands for all users that our user namespace does not
// map, such as the host's root.
bool IsForeign(unsigned uid) {
  uint64_t foreign;
  uint64_t map[kMapNumbers];
  return ReadNumbers("/proc/sys/kernel/overflowuid", 1, &foreign) &&
         uid == foreign &&
         ReadNumbers("/proc/self/uid_map", kMapNumbers, map) &&
         !(map[0] == 0 && map[1] == 0 && map[2] == kAllUsers);
}

bool IsTrusted(const struct statx& status, unsigned uid, bool is_last) {
  if (status.stx_uid != 0 && status.stx_uid != uid &&
      (is_last || !IsForeign(status.stx_uid))) {
    return false;
  }
  return !(status.stx_mode & kWritableByOthers) ||
         (!is_last && (status.stx_mode & S_ISVTX));
}

bool IsOnSameDevice(const struct statx& one, const struct statx& other) {
  return one.stx_dev_major == other.stx_dev_major &&
         one.stx_dev_minor == other.stx_dev_minor;
}

}  // namespace

int OpenTrustedFolder(const char* path, unsigned uid) {
  int folder = sys::Open("/", kFlags);
  struct statx outer, status;
  if (folder < 0 || sys::CachedStatus(folder, &status) != 0 ||
      !IsTrusted(status, uid, path[1] == '\0')) {
    if (folder >= 0) sys::Close(folder);
    return -1;
  }
  while (path[0] == '/' && path[1] != '\0') {
    char name[NAME_MAX + 1];
    const char* const begin = ++path;
    while (*path != '\0' && *path != '/') ++path;
    const size_t size = static_cast<size_t>(path - begin);
    int inner = -1;
    if (size < sizeof(name)) {
      memcpy(name, begin, size);
      name[size] = '\0';
      inner = static_cast<int>(syscall(SYS_openat, folder, name, kFlags));
    }
    sys::Close(folder);
    if (inner < 0) return -1;
    folder = inner;
    outer = status;
    if (sys::CachedStatus(folder, &status) != 0 ||
        !IsTrusted(status, uid, *path == '\0') ||
        ((outer.stx_mode & kWritableByOthers) &&
         !IsOnSameDevice(outer, status))) {
      sys::Close(folder);
      return -1;
    }
  }
  return folder;
}

}  // namespace tier
}  // namespace tf_malleable
