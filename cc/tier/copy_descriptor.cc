// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.

#include "cc/tier/copy_descriptor.h"

#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/xattr.h>

#include "cc/tier/identity.h"
#include "cc/tier/partial_copy.h"
#include "cc/tier/syscalls.h"

namespace tf_malleable {
namespace tier {
namespace {

constexpr char kPublic[] = "/public";
constexpr char kPrivate[] = "/private/";
constexpr char kDeleted[] = " (deleted)";
constexpr size_t kProcPathBytes = 64;
constexpr int kDirectoryBytes = 4096;
constexpr int kLockInfoBytes = 4096;

// Writes "/proc/self/WHAT/FD".
void ProcPath(const char* what, int fd, char path[kProcPathBytes]) {
  char* to = stpcpy(stpcpy(path, "/proc/self/"), what);
  *to++ = '/';
  char digits[12];
  char* digit = digits + sizeof(digits);
  *--digit = '\0';
  do {
    *--digit = static_cast<char>('0' + fd % 10);
    fd /= 10;
  } while (fd != 0);
  strcpy(to, digit);
}

// Returns whether a file with this status is the one that was copied, in
// whatever version. The number of an inode may have been given to a new file.
bool IsSameFile(const Identity& identity, const struct statx& status) {
  const bool has_births =
      identity.btime_s != 0 && (status.stx_mask & STATX_BTIME);
  return S_ISREG(status.stx_mode) && status.stx_ino == identity.inode &&
         (!has_births || (status.stx_btime.tv_sec == identity.btime_s &&
                          status.stx_btime.tv_nsec == identity.btime_ns)) &&
         (DeviceOf(status) == identity.device ||
          IsSameVersion(identity, status));
}

// A source that was found.
struct Source {
  char link[PATH_MAX];  // Path of the copy.
  const char* key;      // The key in it.
  char path[PATH_MAX];  // Path of the source in the program.
  struct statx status;
};

// Returns the next place in a copy's path where its key may begin. The store
// may be mounted elsewhere in the program, or reached by a link.
const char* NextKey(const char* from) {
  for (; (from = strchr(from, '/')) != nullptr; ++from) {
    const char* key = nullptr;
    if (strncmp(from, kPublic, sizeof(kPublic) - 1) == 0) {
      key = from + sizeof(kPublic) - 1;
    } else if (strncmp(from, kPrivate, sizeof(kPrivate) - 1) == 0) {
      key = from + sizeof(kPrivate) - 1;
      while (*key >= '0' && *key <= '9') ++key;
    }
    if (key != nullptr && *key == '/') return key;
  }
  return nullptr;
}

// Sets the program's path of a key below a root; returns whether it is.
bool SetPath(const Root& root, const char* key, char path[PATH_MAX]) {
  if (strncmp(key, root.daemon_path, root.daemon_path_size) != 0) return false;
  const char* rest = key + root.daemon_path_size;
  const size_t size = strlen(rest);
  if (*rest != '/' || root.size + size >= PATH_MAX) return false;
  memcpy(path, root.path, root.size);
  memcpy(path + root.size, rest, size + 1);
  return true;
}

// Finds the source of an open copy by the copy's path; returns 0 or an error.
int FindSource(int fd, bool has_name, const Identity& identity,
               Source* source) {
  char name[kProcPathBytes];
  ProcPath("fd", fd, name);
  const long size = syscall(SYS_readlinkat, AT_FDCWD, name, source->link,
                            sizeof(source->link));
  if (size <= 0 || size == sizeof(source->link)) return ESTALE;
  source->link[size] = '\0';
  char* end = source->link + size - (sizeof(kDeleted) - 1);
  if (!has_name && end > source->link && strcmp(end, kDeleted) == 0) {
    *end = '\0';
  }
  int error = ESTALE;
  const char* key = source->link;
  while ((key = NextKey(key)) != nullptr) {
    for (int i = 0; i < shim.settings.roots_size; ++i) {
      if (!SetPath(shim.settings.roots[i], key, source->path)) continue;
      if (sys::Status(source->path, 0, &source->status) == 0) {
        source->key = key;
        if (IsSameFile(identity, source->status)) return 0;
      } else if (errno != ENOENT && errno != ENOTDIR) {
        error = errno;
      }
    }
  }
  return error;
}

int OpenSource(const Identity& identity, Source* source) {
  int fd = sys::Open(source->path, O_RDONLY | O_NOCTTY);
  if (fd < 0 && ReleaseDescriptors()) {
    fd = sys::Open(source->path, O_RDONLY | O_NOCTTY);
  }
  if (fd < 0) return -1;
  if (sys::CachedStatus(fd, &source->status) == 0 &&
      IsSameFile(identity, source->status)) {
    return fd;
  }
  sys::Close(fd);
  errno = ESTALE;
  return -1;
}

bool Replace(int fd, int by) {
  const int flags = sys::Fcntl(fd, F_GETFD);
  return flags >= 0 &&
         syscall(SYS_dup3, by, fd, flags & FD_CLOEXEC ? O_CLOEXEC : 0) == fd;
}

// Calls visit(fd) for each descriptor of this process.
template <typename Visit>
void ForEachDescriptor(Visit visit) {
  const int folder = sys::Open("/proc/self/fd", O_RDONLY | O_DIRECTORY);
  if (folder < 0) return;
  alignas(struct dirent64) char entries[kDirectoryBytes];
  long size;
  while ((size = syscall(SYS_getdents64, folder, entries, sizeof(entries))) >
         0) {
    for (long at = 0; at < size;) {
      const auto* entry = reinterpret_cast<struct dirent64*>(entries + at);
      at += entry->d_reclen;
      if (entry->d_name[0] != '.') visit(atoi(entry->d_name));
    }
  }
  sys::Close(folder);
}

// Replaces the duplicates of an open file in this process, which are told from
// other descriptors of the same file by a signal number that all of them have;
// returns whether there were any.
bool ReplaceDuplicates(int old, int by) {
  bool had_any = false;
  const uint64_t inode = InodeOf(old);
  sys::Fcntl(old, F_SETSIG, SIGURG);
  ForEachDescriptor([&](int fd) {
    if (fd != old && InodeOf(fd) == inode &&
        sys::Fcntl(fd, F_GETSIG) == SIGURG) {
      had_any = Replace(fd, by) || had_any;
    }
  });
  sys::Fcntl(old, F_SETSIG, 0);
  return had_any;
}

// Returns whether a record lock of the process was set by a descriptor.
bool HasSetRecordLock(int fd) {
  char path[kProcPathBytes];
  ProcPath("fdinfo", fd, path);
  const int info = sys::Open(path, O_RDONLY);
  if (info < 0) return false;
  char text[kLockInfoBytes];
  const ssize_t size = sys::Read(info, text, sizeof(text) - 1);
  sys::Close(info);
  if (size <= 0) return false;
  text[size] = '\0';
  return strstr(text, "POSIX") != nullptr;
}

// While it is held, no other thread replaces a descriptor: the second one would
// end the locks of the first one's. It is not waited for forever, as a forked
// child may find it held.
class SwapLock {
 public:
  SwapLock() : self_(sys::Tid()) {
    for (int64_t waited = 0; waited < kMaxWaitNs; waited += kPauseNs) {
      int none = 0;
      if (owner_.compare_exchange_strong(none, self_) || none == self_) return;
      sys::Sleep(kPauseNs);
    }
  }
  ~SwapLock() {
    int self = self_;
    owner_.compare_exchange_strong(self, 0);
  }
  SwapLock(const SwapLock&) = delete;
  SwapLock& operator=(const SwapLock&) = delete;

 private:
  static constexpr int64_t kMaxWaitNs = kSecondNs;
  static constexpr int64_t kPauseNs = 50 * kMicrosecondNs;
  static inline std::atomic<int> owner_;  // Id of the thread; or 0.
  const int self_;
};

// Descriptors of sources that must stay open, at their numbers, as long as the
// process has record locks on them. Guarded by SwapLock.
constexpr int kMaxParked = 64;
OwnFile parked[kMaxParked];

// Closes those that may be; returns a free place, or null.
OwnFile* CloseParked() {
  OwnFile* place = nullptr;
  for (OwnFile& each : parked) {
    if (each.IsOpen() && HasRecordLock(each.fd())) continue;
    each.Close();
    place = &each;
  }
  return place;
}

void CloseOrPark(int fd, OwnFile* place) {
  if (place != nullptr && HasRecordLock(fd)) {
    place->Keep(fd);
  } else {
    sys::Close(fd);
  }
}

// Replaces a descriptor of a copy; returns 0 or an error.
int SwapInSource(int fd, const Identity& identity, Source* source) {
  // After vfork(), the child has descriptors of its own, but the parent's
  // memory. It has none of the parent's record locks.
  const bool is_child = shim.daemon.pid() != sys::Pid();
  const SwapLock lock;
  Identity now;
  bool has_name;
  OwnFile* place = is_child ? nullptr : CloseParked();
  if (place == nullptr && !is_child) return ENOLCK;
  // Another thread may have replaced it.
  if (!IsCopy(fd, &now, &has_name)) return 0;
  const int opened = OpenSource(identity, source);
  if (opened < 0) return errno;
  const int64_t position = sys::Seek(fd, 0, SEEK_CUR);
  const int old = sys::Fcntl(fd, F_DUPFD_CLOEXEC);
  if (old < 0 || sys::Seek(opened, position, SEEK_SET) != position ||
      !Replace(fd, opened)) {
    const int error = errno;
    if (old >= 0) sys::Close(old);
    CloseOrPark(opened, place);
    return error;
  }
  const bool is_shared = ReplaceDuplicates(old, opened);
  // Another thread may have read by the position meanwhile.
  const int64_t moved = sys::Seek(old, 0, SEEK_CUR);
  if (moved != position) sys::Seek(fd, moved, SEEK_SET);
  shim.daemon.Count(&AtomicCounts::source_opens);
  CloseOrPark(opened, place);
  if (is_shared || is_child || !IsSameVersion(identity, source->status) ||
      !TrackComplete(fd, source->status, source->key, old)) {
    sys::Close(old);
  }
  return 0;
}

// What a program has done with a descriptor.
constexpr int kMaxFds = 65536;
constexpr uint8_t kIsAtEnd = 255;
constexpr uint8_t kManyStatuses = 8;  // An open file is asked for its size once
                                      // or twice by most programs.
std::atomic<uint8_t> looks[kMaxFds];

}  // namespace

bool IsCopy(int fd, uint64_t device, mode_t mode, uint64_t inode,
            Identity* identity) {
  if (!S_ISREG(mode) ||
      device != shim.copies_device.load(std::memory_order_relaxed)) {
    return false;
  }
  const ErrnoGuard guard;
  // A file that a program wrote has no such attribute, unless the program
  // copied it from a copy; then its inode differs.
  return IsIdentity(*identity, syscall(SYS_fgetxattr, fd, kSourceAttribute,
                                       identity, sizeof(*identity))) &&
         identity->copy_inode == inode;
}

bool IsCopy(int fd, Identity* identity, bool* has_name) {
  struct statx status;
  if (sys::CachedStatus(fd, &status) != 0) return false;
  *has_name = status.stx_nlink > 0;
  return IsCopy(fd, DeviceOf(status), status.stx_mode, status.stx_ino,
                identity);
}

int UseSource(int fd) {
  if (!shim.is_on.load(std::memory_order_relaxed)) return 0;
  const ErrnoGuard guard;
  if (shim.table.Has(fd)) KeepSource(fd);
  Identity identity;
  bool has_name;
  if (!IsCopy(fd, &identity, &has_name)) return 0;
  Source source;
  const int error = FindSource(fd, has_name, identity, &source);
  return error != 0 ? error : SwapInSource(fd, identity, &source);
}

void ForgetLooks(int fd) {
  if (fd < kMaxFds) looks[fd].store(0, std::memory_order_relaxed);
}

bool IsOutdated(int fd) {
  if (!shim.is_on.load(std::memory_order_relaxed)) return false;
  const ErrnoGuard guard;
  Identity identity;
  bool has_name;
  Source source;
  return IsCopy(fd, &identity, &has_name) &&
         FindSource(fd, has_name, identity, &source) == 0 &&
         !IsSameVersion(identity, source.status) &&
         SwapInSource(fd, identity, &source) == 0;
}

bool IsOutdatedAtEnd(int fd) {
  if (!shim.is_on.load(std::memory_order_relaxed)) return false;
  if (static_cast<unsigned>(fd) < kMaxFds &&
      looks[fd].load(std::memory_order_relaxed) != kIsAtEnd) {
    looks[fd].store(kIsAtEnd, std::memory_order_relaxed);
    return false;
  }
  return IsOutdated(fd);
}

bool IsOutdatedAtStatus(int fd) {
  if (static_cast<unsigned>(fd) < kMaxFds) {
    const uint8_t seen = looks[fd].load(std::memory_order_relaxed);
    if (seen < kManyStatuses) {
      looks[fd].store(seen + 1, std::memory_order_relaxed);
      return false;
    }
  }
  return IsOutdated(fd);
}

bool IsOutdatedAtSeek(int fd) {
  return static_cast<unsigned>(fd) < kMaxFds &&
         looks[fd].load(std::memory_order_relaxed) == kIsAtEnd &&
         IsOutdated(fd);
}

bool HasRecordLock(int fd) {
  // Any lock of the process is in the way of one of an open file description.
  struct flock lock;
  memset(&lock, 0, sizeof(lock));
  lock.l_type = F_WRLCK;
  if (syscall(SYS_fcntl, fd, F_OFD_GETLK, &lock) == 0 &&
      lock.l_type == F_UNLCK) {
    return false;
  }
  bool has_lock = false;
  const uint64_t inode = InodeOf(fd);
  ForEachDescriptor([&](int other) {
    has_lock = has_lock || (InodeOf(other) == inode && HasSetRecordLock(other));
  });
  return has_lock;
}

}  // namespace tier
}  // namespace tf_malleable
