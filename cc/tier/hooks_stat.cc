// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// Hooks of the functions that return the status of a file: for a complete copy,
// that of its source.

#include <sys/stat.h>
#include <sys/xattr.h>

#include "cc/tier/copy_descriptor.h"
#include "cc/tier/hook.h"
#include "cc/tier/identity.h"
#include "cc/tier/partial_copy.h"
#include "cc/tier/syscalls.h"

namespace tf_malleable {
namespace tier {
namespace {

bool IsOn() { return shim.is_on.load(std::memory_order_relaxed); }

// Replaces the status of an open file by that of its source if it is a copy.
void Correct(int fd, struct stat* status) {
  Identity identity;
  if (!IsOn() ||
      !IsCopy(fd, status->st_dev, status->st_mode, status->st_ino, &identity)) {
    return;
  }
  if (IsOutdatedAtStatus(fd)) {
    syscall(SYS_fstat, fd, status);
  } else {
    FillStatus(identity, status);
  }
}

bool IsOfDescriptor(const char* path, int flags) {
  return (flags & AT_EMPTY_PATH) && (path == nullptr || path[0] == '\0');
}

}  // namespace

static_assert(sizeof(struct stat) == sizeof(struct stat64),
              "both have the same layout on 64-bit machines");

// Defines the hook of a function that sets `status`, that of the open file `fd`
// if `is_of_fd` is true.
#define TFM_STAT(name, parameters, arguments, fd, is_of_fd) \
  TFM_HOOK(int, name, parameters) {                         \
    static RealFunction<int parameters> real(#name);        \
    const int result = real arguments;                      \
    if (result == 0 && (is_of_fd)) Correct(fd, status);     \
    return result;                                          \
  }
#define TFM_FSTAT(name) \
  TFM_STAT(name, (int fd, struct stat* status), (fd, status), fd, true)
#define TFM_FXSTAT(name)                                     \
  TFM_STAT(name, (int version, int fd, struct stat* status), \
           (version, fd, status), fd, true)
#define TFM_FSTATAT(name)                                                  \
  TFM_STAT(name,                                                           \
           (int folder, const char* path, struct stat* status, int flags), \
           (folder, path, status, flags), folder, IsOfDescriptor(path, flags))
#define TFM_FXSTATAT(name)                                                  \
  TFM_STAT(name,                                                            \
           (int version, int folder, const char* path, struct stat* status, \
            int flags),                                                     \
           (version, folder, path, status, flags), folder,                  \
           IsOfDescriptor(path, flags))
TFM_FSTAT(fstat)
TFM_FSTAT(fstat64)
TFM_FXSTAT(__fxstat)
TFM_FXSTAT(__fxstat64)
TFM_FSTATAT(fstatat)
TFM_FSTATAT(fstatat64)
TFM_FXSTATAT(__fxstatat)
TFM_FXSTATAT(__fxstatat64)

TFM_HOOK(int, statx,
         (int folder, const char* path, int flags, unsigned mask,
          struct statx* status)) {
  static RealFunction<int(int, const char*, int, unsigned, struct statx*)> real(
      "statx");
  Identity identity;
  const int result = real(folder, path, flags, mask, status);
  if (result == 0 && IsOn() && IsOfDescriptor(path, flags) &&
      IsCopy(folder, DeviceOf(*status), status->stx_mode, status->stx_ino,
             &identity)) {
    if (IsOutdatedAtStatus(folder)) {
      return real(folder, path, flags, mask, status);
    }
    FillStatus(identity, status);
  }
  return result;
}

}  // namespace tier
}  // namespace tf_malleable
