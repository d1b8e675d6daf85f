// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// Hooks of the functions that do something with an open file itself, rather
// than with its data: locks, times, modes, attributes. For a complete copy,
// they do it with the source.

#include <fcntl.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <sys/xattr.h>

#include "cc/tier/copy_descriptor.h"
#include "cc/tier/hook.h"
#include "cc/tier/partial_copy.h"
#include "cc/tier/syscalls.h"

namespace tf_malleable {
namespace tier {
namespace {

// What a call does whose source is no longer at its path, so that only the copy
// is left of the version that was opened.
enum class IfStale {
  kUsesCopy,  // It finds or keeps out others that have opened this version.
  kFails,     // A change would be lost.
};

// Returns whether a call may be made; otherwise sets errno.
bool IsReady(int fd, IfStale if_stale) {
  const int error = UseSource(fd);
  if (error == 0 || (error == ESTALE && if_stale == IfStale::kUsesCopy)) {
    return true;
  }
  errno = error;
  return false;
}

bool IsOfDescriptor(const char* path, int flags) {
  return path == nullptr || (path[0] == '\0' && (flags & AT_EMPTY_PATH));
}

// Returns whether a command of fcntl() is about the open file. Its flags are
// too, as those of the source's are the ones that the program may change.
bool IsOfFile(int command) {
  switch (command) {
    case F_GETLK:
    case F_SETLK:
    case F_SETLKW:
    case F_OFD_GETLK:
    case F_OFD_SETLK:
    case F_OFD_SETLKW:
    case F_SETLEASE:
    case F_SETFL:
    case F_SETOWN:
    case F_SETOWN_EX:
    case F_SETSIG:
      return true;
    default:
      return false;
  }
}

// Flags with which the shim opens each copy, but no program opens one.
constexpr int kOwnFlags = O_NONBLOCK | O_NOFOLLOW;

// Returns the flags that the program has opened a file with.
int WithoutOwnFlags(int fd, int flags) {
  if (flags < 0 || (flags & kOwnFlags) != kOwnFlags) return flags;
  Identity identity;
  bool has_name;
  return shim.is_on.load(std::memory_order_relaxed) &&
                 IsCopy(fd, &identity, &has_name)
             ? flags & ~kOwnFlags
             : flags;
}

}  // namespace

#define TFM_FCNTL(name, other)                                             \
  TFM_HOOK(int, name, (int fd, int command, ...)) {                        \
    static RealFunction<int(int, int, ...)> real(#name, #other);           \
    va_list arguments;                                                     \
    va_start(arguments, command);                                          \
    void* argument = va_arg(arguments, void*);                             \
    va_end(arguments);                                                     \
    if (command == F_GETFL) return WithoutOwnFlags(fd, real(fd, command)); \
    if (IsOfFile(command) && !IsReady(fd, IfStale::kUsesCopy)) return -1;  \
    if (__builtin_expect(shim.table.Has(fd), 0)) {                         \
      if (command == F_DUPFD || command == F_DUPFD_CLOEXEC) {              \
        BeforeUnseenUse(fd, UnseenUse::kDuplicated);                       \
      } else if (command == F_SETFL &&                                     \
                 (reinterpret_cast<intptr_t>(argument) & O_DIRECT)) {      \
        BeforeUnseenUse(fd, UnseenUse::kGone);                             \
      }                                                                    \
    }                                                                      \
    return real(fd, command, argument);                                    \
  }
TFM_FCNTL(fcntl, fcntl64)
TFM_FCNTL(fcntl64, fcntl)

// Defines the hook of a function of `fd`, which is about the file if `is_of_fd`
// is true.
#define TFM_OF_FILE(name, parameters, arguments, is_of_fd, if_stale) \
  TFM_HOOK(int, name, parameters) {                                  \
    static RealFunction<int parameters> real(#name);                 \
    if ((is_of_fd) && !IsReady(fd, IfStale::if_stale)) return -1;    \
    return real arguments;                                           \
  }

TFM_OF_FILE(flock, (int fd, int operation), (fd, operation), true, kUsesCopy)
TFM_OF_FILE(lockf, (int fd, int command, off_t size), (fd, command, size), true,
            kUsesCopy)
TFM_OF_FILE(lockf64, (int fd, int command, off64_t size), (fd, command, size),
            true, kUsesCopy)
TFM_OF_FILE(fsync, (int fd), (fd), true, kUsesCopy)
TFM_OF_FILE(fdatasync, (int fd), (fd), true, kUsesCopy)
TFM_OF_FILE(syncfs, (int fd), (fd), true, kUsesCopy)
TFM_OF_FILE(fstatfs, (int fd, struct statfs* status), (fd, status), true,
            kUsesCopy)
TFM_OF_FILE(fstatfs64, (int fd, struct statfs* status), (fd, status), true,
            kUsesCopy)
TFM_OF_FILE(fstatvfs, (int fd, struct statvfs* status), (fd, status), true,
            kUsesCopy)
TFM_OF_FILE(fstatvfs64, (int fd, struct statvfs* status), (fd, status), true,
            kUsesCopy)
TFM_OF_FILE(fchmod, (int fd, mode_t mode), (fd, mode), true, kFails)
TFM_OF_FILE(fchmodat, (int fd, const char* path, mode_t mode, int flags),
            (fd, path, mode, flags), IsOfDescriptor(path, flags), kFails)
TFM_OF_FILE(fchown, (int fd, uid_t owner, gid_t group), (fd, owner, group),
            true, kFails)
TFM_OF_FILE(fchownat,
            (int fd, const char* path, uid_t owner, gid_t group, int flags),
            (fd, path, owner, group, flags), IsOfDescriptor(path, flags),
            kFails)
TFM_OF_FILE(futimens, (int fd, const struct timespec* times), (fd, times), true,
            kFails)
TFM_OF_FILE(futimes, (int fd, const struct timeval* times), (fd, times), true,
            kFails)
TFM_OF_FILE(futimesat, (int fd, const char* path, const struct timeval* times),
            (fd, path, times), path == nullptr, kFails)
TFM_OF_FILE(utimensat,
            (int fd, const char* path, const struct timespec* times, int flags),
            (fd, path, times, flags), IsOfDescriptor(path, flags), kFails)
TFM_OF_FILE(fsetxattr,
            (int fd, const char* name, const void* value, size_t size,
             int flags),
            (fd, name, value, size, flags), true, kFails)
TFM_OF_FILE(fremovexattr, (int fd, const char* name), (fd, name), true, kFails)

// A copy's attributes belong to the shim: the program sees none.
TFM_HOOK(ssize_t, flistxattr, (int fd, char* list, size_t size)) {
  static RealFunction<ssize_t(int, char*, size_t)> real("flistxattr");
  const int error = UseSource(fd);
  if (error == 0) return real(fd, list, size);
  if (error == ESTALE) return 0;
  errno = error;
  return -1;
}

TFM_HOOK(ssize_t, fgetxattr,
         (int fd, const char* name, void* value, size_t size)) {
  static RealFunction<ssize_t(int, const char*, void*, size_t)> real(
      "fgetxattr");
  const int error = UseSource(fd);
  if (error == 0) return real(fd, name, value, size);
  errno = error == ESTALE ? ENODATA : error;
  return -1;
}

// The requests of file systems.
TFM_HOOK(int, ioctl, (int fd, unsigned long request, ...)) {
  static RealFunction<int(int, unsigned long, ...)> real("ioctl");
  va_list arguments;
  va_start(arguments, request);
  void* argument = va_arg(arguments, void*);
  va_end(arguments);
  constexpr unsigned kTypeShift = 8;
  constexpr unsigned long kTypeMask = 0xff;
  const unsigned long type = request >> kTypeShift & kTypeMask;
  if ((type == 'f' || type == 'X') && !IsReady(fd, IfStale::kFails)) return -1;
  if (request == FIONBIO) UseSource(fd);
  return real(fd, request, argument);
}

}  // namespace tier
}  // namespace tf_malleable
