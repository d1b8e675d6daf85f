// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// Hooks of the functions that open files or change the working directory, and
// the start and end of the shim.

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <initializer_list>

#include "cc/tier/copy_descriptor.h"
#include "cc/tier/hook.h"
#include "cc/tier/identity.h"
#include "cc/tier/lookup.h"
#include "cc/tier/partial_copy.h"
#include "cc/tier/syscalls.h"

namespace tf_malleable {
namespace tier {
namespace {

// A longer value turns the shim off.
constexpr size_t kMaxEnvironmentBytes = 16384;
char environment[kMaxEnvironmentBytes];

void BeforeFork() {
  shim.table.ForEach([](int, PartialCopy* partial) {
    partial->is_shared.store(true, std::memory_order_relaxed);
  });
}

void InChild() {
  const ErrnoGuard guard;
  // Files that the parent has open are copied by the parent.
  shim.table.ForEach([](int fd, PartialCopy*) { shim.table.Remove(fd); });
  shim.daemon.AfterFork();
}

__attribute__((constructor)) void Load() {
  const ErrnoGuard guard;
  const char* text = getenv(kEnvironmentVariable);
  if (text == nullptr || strlen(text) >= sizeof(environment)) return;
  memcpy(environment, text, strlen(text) + 1);
  LoadSettings(environment, static_cast<unsigned>(syscall(SYS_geteuid)),
               &shim.settings);
  if (!shim.settings.is_on) return;
  shim.daemon.Start(shim.settings);
  // Any of them may be missing.
  for (const Folder* folder :
       {&shim.settings.private_copies, &shim.settings.public_copies}) {
    struct statx status;
    if (sys::Status(folder->path, 0, &status) == 0) {
      shim.copies_device.store(DeviceOf(status), std::memory_order_relaxed);
    }
  }
  pthread_atfork(BeforeFork, nullptr, InChild);
  shim.is_on.store(true, std::memory_order_release);
}

__attribute__((destructor)) void Unload() {
  if (!shim.is_on.load(std::memory_order_acquire)) return;
  shim.table.ForEach([](int fd, PartialCopy*) { BeforeClose(fd); });
  shim.daemon.ReportFinalCounts();
}

using Open = int(const char*, int, ...);
using OpenAt = int(int, const char*, int, ...);
using OpenStdio = FILE*(const char*, const char*);

// A call that opens a file. One of the two functions is null.
struct Opening {
  int Call() const {
    return real != nullptr ? (*real)(path, flags, mode)
                           : (*real_at)(folder, path, flags, mode);
  }

  RealFunction<Open>* real;
  RealFunction<OpenAt>* real_at;
  int folder;
  const char* path;
  int flags;
  mode_t mode;
};

__attribute__((noinline)) int OpenBelow(const Opening& opening) {
  const int flags = opening.flags;
  Key key;
  if (!key.Find(shim.settings, opening.path)) return opening.Call();
  constexpr int kUntouched = O_PATH | O_DIRECT | O_DIRECTORY | O_ASYNC;
  if ((flags & O_ACCMODE) != O_RDONLY ||
      (flags & (O_TRUNC | O_CREAT | kUntouched))) {
    return opening.Call();
  }
  const int before = errno;
  LookupResult result = LookupResult::kNotAsked;
  if (!(flags & O_NOFOLLOW)) {
    const int copy = LookUpCopy(&key, opening.path, flags, &result);
    if (copy >= 0) {
      ForgetLooks(copy);
      errno = before;
      return copy;
    }
  }
  errno = before;
  int fd = opening.Call();
  if (fd < 0 && ReleaseDescriptors()) {
    errno = before;
    fd = opening.Call();
  }
  if (fd >= 0) {
    shim.daemon.Count(&AtomicCounts::source_opens);
    TrackOpenFile(fd, key, result);
  }
  return fd;
}

inline int OpenHook(const Opening& opening) {
  if (!shim.is_on.load(std::memory_order_relaxed) || opening.path == nullptr ||
      (opening.folder != AT_FDCWD && opening.path[0] != '/')) {
    return opening.Call();
  }
  return OpenBelow(opening);
}

mode_t ModeOf(int flags, va_list arguments) {
  return (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE
             ? static_cast<mode_t>(va_arg(arguments, int))
             : 0;
}

// Returns whether fopen() with this mode only reads.
bool OnlyReads(const char* mode) {
  return mode[0] == 'r' && strpbrk(mode, "+wa,") == nullptr;
}

__attribute__((noinline)) FILE* OpenStdioBelow(RealFunction<OpenStdio>* real,
                                               const char* path,
                                               const char* mode) {
  static RealFunction<FILE*(int, const char*)> real_fdopen("fdopen");
  Key key;
  if (!OnlyReads(mode) || !key.Find(shim.settings, path)) {
    return (*real)(path, mode);
  }
  const int before = errno;
  const int flags = strchr(mode, 'e') != nullptr ? O_CLOEXEC : 0;
  LookupResult result;
  const int copy = LookUpCopy(&key, path, flags, &result);
  if (copy >= 0) {
    ForgetLooks(copy);
    FILE* file = real_fdopen(copy, mode);
    if (file != nullptr) {
      errno = before;
      return file;
    }
    sys::Close(copy);
  }
  errno = before;
  FILE* file = (*real)(path, mode);
  if (file == nullptr && ReleaseDescriptors()) {
    errno = before;
    file = (*real)(path, mode);
  }
  if (file != nullptr) {
    // The shim does not see the reads of stdio.
    shim.daemon.Count(&AtomicCounts::source_opens);
    TrackOpenFile(fileno(file), key, result);
    BeforeUnseenUse(fileno(file), UnseenUse::kGone);
  }
  return file;
}

inline FILE* OpenStdioHook(RealFunction<OpenStdio>* real, const char* path,
                           const char* mode) {
  if (!shim.is_on.load(std::memory_order_relaxed) || path == nullptr ||
      mode == nullptr) {
    return (*real)(path, mode);
  }
  return OpenStdioBelow(real, path, mode);
}

}  // namespace

#define TFM_OPEN(name)                                              \
  TFM_HOOK(int, name, (const char* path, int flags, ...)) {         \
    static RealFunction<Open> real(#name);                          \
    va_list arguments;                                              \
    va_start(arguments, flags);                                     \
    const mode_t mode = ModeOf(flags, arguments);                   \
    va_end(arguments);                                              \
    return OpenHook({&real, nullptr, AT_FDCWD, path, flags, mode}); \
  }
TFM_OPEN(open)
TFM_OPEN(open64)

#define TFM_OPENAT(name)                                                \
  TFM_HOOK(int, name, (int folder, const char* path, int flags, ...)) { \
    static RealFunction<OpenAt> real(#name);                            \
    va_list arguments;                                                  \
    va_start(arguments, flags);                                         \
    const mode_t mode = ModeOf(flags, arguments);                       \
    va_end(arguments);                                                  \
    return OpenHook({nullptr, &real, folder, path, flags, mode});       \
  }
TFM_OPENAT(openat)
TFM_OPENAT(openat64)

// With _FORTIFY_SOURCE, the headers of libc turn open() without a mode into
// these.
#define TFM_OPEN_2(name, plain)                                  \
  TFM_HOOK(int, name, (const char* path, int flags)) {           \
    static RealFunction<Open> real(#plain);                      \
    return OpenHook({&real, nullptr, AT_FDCWD, path, flags, 0}); \
  }
TFM_OPEN_2(__open_2, open)
TFM_OPEN_2(__open64_2, open64)

#define TFM_OPENAT_2(name, plain)                                  \
  TFM_HOOK(int, name, (int folder, const char* path, int flags)) { \
    static RealFunction<OpenAt> real(#plain);                      \
    return OpenHook({nullptr, &real, folder, path, flags, 0});     \
  }
TFM_OPENAT_2(__openat_2, openat)
TFM_OPENAT_2(__openat64_2, openat64)

#define TFM_FOPEN(name)                                         \
  TFM_HOOK(FILE*, name, (const char* path, const char* mode)) { \
    static RealFunction<OpenStdio> real(#name);                 \
    return OpenStdioHook(&real, path, mode);                    \
  }
TFM_FOPEN(fopen)
TFM_FOPEN(fopen64)

TFM_HOOK(int, chdir, (const char* path)) {
  static RealFunction<int(const char*)> real("chdir");
  const int result = real(path);
  if (result == 0) Key::WorkingDirectoryChanged();
  return result;
}

TFM_HOOK(int, fchdir, (int folder)) {
  static RealFunction<int(int)> real("fchdir");
  const int result = real(folder);
  if (result == 0) Key::WorkingDirectoryChanged();
  return result;
}

}  // namespace tier
}  // namespace tf_malleable
