// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// System calls that the shim makes for itself. They are no cancellation points,
// pass no hooks, and use no memory of malloc.
//
// Thread-safety: all may be called from any thread and from signal
// handlers.

#ifndef TF_MALLEABLE_CC_TIER_SYSCALLS_H_
#define TF_MALLEABLE_CC_TIER_SYSCALLS_H_

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace tf_malleable {
namespace tier {

// Restores errno at the end of its scope.
class ErrnoGuard {
 public:
  ErrnoGuard() : saved_(errno) {}
  ~ErrnoGuard() { errno = saved_; }
  ErrnoGuard(const ErrnoGuard&) = delete;
  ErrnoGuard& operator=(const ErrnoGuard&) = delete;

 private:
  const int saved_;
};

inline constexpr int64_t kMicrosecondNs = 1000;
inline constexpr int64_t kMillisecondNs = 1000 * kMicrosecondNs;
inline constexpr int64_t kSecondNs = 1000 * kMillisecondNs;

// sscanf() by its oldest name. With the headers of glibc 2.38 or later, the
// plain one would make the shim need such a glibc.
extern "C" __attribute__((format(scanf, 2, 3))) int Scan(const char* text,
                                                         const char* format,
                                                         ...) __asm__("sscanf");

namespace sys {

inline int Open(const char* path, int flags, mode_t mode = 0) {
  return static_cast<int>(
      syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC, mode));
}
inline int Close(int fd) { return static_cast<int>(syscall(SYS_close, fd)); }
inline ssize_t Read(int fd, void* data, size_t size) {
  return syscall(SYS_read, fd, data, size);
}
inline ssize_t ReadAt(int fd, void* data, size_t size, int64_t offset) {
  return syscall(SYS_pread64, fd, data, size, offset);
}
inline ssize_t WriteAt(int fd, const void* data, size_t size, int64_t offset) {
  return syscall(SYS_pwrite64, fd, data, size, offset);
}
inline int64_t Seek(int fd, int64_t offset, int whence) {
  return syscall(SYS_lseek, fd, offset, whence);
}
inline int Fcntl(int fd, int command, long argument = 0) {
  return static_cast<int>(syscall(SYS_fcntl, fd, command, argument));
}
// Returns the status that the kernel has cached, without asking a file server.
inline int CachedStatus(int fd, struct statx* status) {
  return static_cast<int>(syscall(SYS_statx, fd, "",
                                  AT_EMPTY_PATH | AT_STATX_DONT_SYNC,
                                  STATX_BASIC_STATS | STATX_BTIME, status));
}
inline int Status(const char* path, int flags, struct statx* status) {
  return static_cast<int>(syscall(SYS_statx, AT_FDCWD, path, flags,
                                  STATX_BASIC_STATS | STATX_BTIME, status));
}
// Maps the beginning of a file; MAP_FAILED if that fails.
inline void* MapShared(int fd, size_t size, int protection) {
  // An int as the last argument would leave half of its word undefined.
  constexpr long kOffset = 0;
  return reinterpret_cast<void*>(
      syscall(SYS_mmap, nullptr, size, protection, MAP_SHARED, fd, kOffset));
}
// Returns the soft limit of a resource; 0 if it cannot be read.
inline uint64_t Soft(int resource) {
  struct rlimit limit = {0, 0};
  if (syscall(SYS_prlimit64, 0, resource, nullptr, &limit) != 0) return 0;
  return limit.rlim_cur;
}
inline int Pid() { return static_cast<int>(syscall(SYS_getpid)); }
inline int Tid() { return static_cast<int>(syscall(SYS_gettid)); }
// Returns the time of a clock in nanoseconds.
inline int64_t Now(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return now.tv_sec * kSecondNs + now.tv_nsec;
}
inline void Sleep(int64_t ns) {
  const struct timespec time = {ns / kSecondNs, ns % kSecondNs};
  syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &time, nullptr);
}

}  // namespace sys
}  // namespace tier
}  // namespace tf_malleable

#endif  // TF_MALLEABLE_CC_TIER_SYSCALLS_H_
