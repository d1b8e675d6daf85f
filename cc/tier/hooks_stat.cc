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

#define TFM_FSTAT(name)                                      \
  TFM_HOOK(int, name, (int fd, struct stat* status)) {       \
    static RealFunction<int(int, struct stat*)> real(#name); \
    const int result = real(fd, status);                     \
    if (result == 0) Correct(fd, status);                    \
    return result;                                           \
  }
TFM_FSTAT(fstat)
TFM_FSTAT(fstat64)

#define TFM_FXSTAT(name)                                            \
  TFM_HOOK(int, name, (int version, int fd, struct stat* status)) { \
    static RealFunction<int(int, int, struct stat*)> real(#name);   \
    const int result = real(version, fd, status);                   \
    if (result == 0) Correct(fd, status);                           \
    return result;                                                  \
  }
TFM_FXSTAT(__fxstat)
TFM_FXSTAT(__fxstat64)

#define TFM_FSTATAT(name)                                                      \
  TFM_HOOK(int, name,                                                          \
           (int folder, const char* path, struct stat* status, int flags)) {   \
    static RealFunction<int(int, const char*, struct stat*, int)> real(#name); \
    const int result = real(folder, path, status, flags);                      \
    if (result == 0 && IsOfDescriptor(path, flags)) Correct(folder, status);   \
    return result;                                                             \
  }
TFM_FSTATAT(fstatat)
TFM_FSTATAT(fstatat64)

#define TFM_FXSTATAT(name)                                                   \
  TFM_HOOK(int, name,                                                        \
           (int version, int folder, const char* path, struct stat* status,  \
            int flags)) {                                                    \
    static RealFunction<int(int, int, const char*, struct stat*, int)> real( \
        #name);                                                              \
    const int result = real(version, folder, path, status, flags);           \
    if (result == 0 && IsOfDescriptor(path, flags)) Correct(folder, status); \
    return result;                                                           \
  }
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
