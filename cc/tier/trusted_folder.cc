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
// Length of the map of the initial user namespace, which maps each user id to
// itself.
constexpr unsigned kAllUsers = 4294967295;

// Reads up to three numbers from the begin of a file; returns how many.
int ReadNumbers(const char* path, unsigned numbers[3]) {
  const int fd = sys::Open(path, O_RDONLY);
  if (fd < 0) return 0;
  char text[kMaxFileBytes] = {};
  sys::Read(fd, text, sizeof(text) - 1);
  sys::Close(fd);
  return Scan(text, "%u %u %u", &numbers[0], &numbers[1], &numbers[2]);
}

// Returns whether this stands for all users that our user namespace does not
// map, such as the host's root.
bool IsForeign(unsigned uid) {
  unsigned foreign[3], map[3];
  return ReadNumbers("/proc/sys/kernel/overflowuid", foreign) == 1 &&
         uid == foreign[0] && ReadNumbers("/proc/self/uid_map", map) == 3 &&
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
