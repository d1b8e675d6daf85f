// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.

#include "cc/tier/publishing.h"

#include <stdio.h>
#include <string.h>
#include <sys/xattr.h>

#include "cc/tier/growing_files.h"
#include "cc/tier/identity.h"
#include "cc/tier/system.h"

namespace tf_malleable {
namespace tier {
namespace {

// Not when it was read: that changes with each read, and a server is asked.
constexpr unsigned kTold = STATX_TYPE | STATX_MODE | STATX_UID | STATX_GID |
                           STATX_INO | STATX_SIZE | STATX_MTIME;

// Whether the file still has its name, as far as the kernel knows.
bool HasName(const Growing& growing, const char* name) {
  struct statx status;
  return syscall(SYS_statx, AT_FDCWD, name,
                 AT_SYMLINK_NOFOLLOW | AT_STATX_DONT_SYNC, kTold,
                 &status) == 0 &&
         S_ISREG(status.stx_mode) &&
         DeviceOf(status) == growing.identity.device &&
         IsSame(growing.identity, status);
}

bool Mark(const Growing& growing) {
  Identity own = growing.identity;
  own.copy_inode = growing.part.inode;
  return syscall(SYS_fsetxattr, growing.part.fd, kBlocksAttribute,
                 &growing.code, sizeof(growing.code), 0) == 0 &&
         syscall(SYS_fsetxattr, growing.part.fd, kSourceAttribute, &own,
                 sizeof(own), 0) == 0;
}

// Makes the folders of a path that are not there; its first bytes are those of
// one that is. The path is as before when it returns.
void MakeFolders(char* path, size_t least) {
  size_t size = strlen(path);
  const size_t whole = size;
  while (size > least) {
    while (size > least && path[size] != '/') --size;
    if (size == least) break;
    path[size] = '\0';
    if (syscall(SYS_mkdirat, AT_FDCWD, path, 0755) == 0 || errno == EEXIST) {
      break;
    }
  }
  while (size < whole) {
    path[size] = '/';
    do {
      ++size;
    } while (size < whole && path[size] != '\0');
    if (size < whole) syscall(SYS_mkdirat, AT_FDCWD, path, 0755);
  }
}

}  // namespace

bool Publish(const Growing& growing, int fd) {
  if (!shim.daemon.LetsPublish() || shim.settings.has_other_names ||
      !growing.part.IsOpen() || !IsSource(growing, fd)) {
    return false;
  }
  Key key;
  key.Set(growing.key, growing.key_size);
  if (!HasName(growing, key.key()) || !Mark(growing)) return false;
  char* path = const_cast<char*>(key.In(shim.settings.own));
  if (path == nullptr || !Send(growing, kPublished, nullptr, 0)) return false;
  char part[32] = "/proc/self/fd/";
  char digits[12];
  int count = 0;
  for (int rest = growing.part.fd; rest > 0 || count == 0; rest /= 10) {
    digits[count++] = static_cast<char>('0' + rest % 10);
  }
  char* to = part + strlen(part);
  while (count > 0) *to++ = digits[--count];
  *to = '\0';
  for (int i = 0; i < 2; ++i) {
    if (syscall(SYS_linkat, AT_FDCWD, part, AT_FDCWD, path,
                AT_SYMLINK_FOLLOW) == 0) {
      return true;
    }
    if (errno != ENOENT) break;
    MakeFolders(path, shim.settings.own.size);
  }
  return false;
}

}  // namespace tier
}  // namespace tf_malleable
