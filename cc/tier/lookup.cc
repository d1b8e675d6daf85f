// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.

#include "cc/tier/lookup.h"

#include <sys/stat.h>
#include <sys/xattr.h>

#include "cc/tier/identity.h"
#include "cc/tier/part.h"
#include "cc/tier/syscalls.h"

namespace tf_malleable {
namespace tier {
namespace {

// Maximum wait for a complete copy, and its pauses.
constexpr int64_t kMaxSwapWaitNs = kSecondNs;
constexpr int64_t kSwapPauseNs = 2 * kMillisecondNs;

// Folders of copies, by which a copy is opened faster than by its path. The
// program may close the descriptor and reuse its number for another folder, so
// it is used only if the copy is then compared with the source.
OwnFile private_copies;
OwnFile public_copies;

// Returns whether only root and the user can have made a file, as is true of
// copies. It may not be of one in the folder of which the program has reused
// the number.
bool IsTrusted(const struct stat& copy) {
  return (copy.st_uid == 0 || copy.st_uid == shim.settings.uid) &&
         !(copy.st_mode & (S_IWGRP | S_IWOTH));
}

bool HasPartialCopy(const Key& key) {
  char path[kPartialPathBytes];
  struct statx status;
  PartialPath(shim.settings.private_partials, key.key(), key.size(), ".map",
              path);
  return sys::Status(path, 0, &status) == 0;
}

bool Compares(const StateView& view, const char* source) {
  return source != nullptr && !(view.flags & kUnchecked);
}

// Returns whether an open file of the store, with this status, is a copy that
// may be used. `source` is the program's path of the file in the source.
bool IsUsableCopy(int fd, const struct stat& copy, const StateView& view,
                  const char* source) {
  struct statx now;
  const bool compares = Compares(view, source);
  if (compares) {
    if (sys::Status(source, view.flags & kSyncs ? AT_STATX_FORCE_SYNC : 0,
                    &now) != 0) {
      return false;
    }
    if (S_ISREG(copy.st_mode) &&
        static_cast<uint64_t>(copy.st_size) == now.stx_size &&
        copy.st_mtim.tv_sec * kSecondNs + copy.st_mtim.tv_nsec ==
            VersionStampOf(now)) {
      return true;
    }
  }
  Identity identity;
  return IsIdentity(identity, syscall(SYS_fgetxattr, fd, kSourceAttribute,
                                      &identity, sizeof(identity))) &&
         (!compares || IsSameVersion(identity, now));
}

// Returns the descriptor, after it was counted, if it is of a copy that may be
// used; else closes it, and returns -1. May set errno.
int CopyOrNone(int fd, const StateView& view, const char* source,
               bool is_by_folder) {
  if (fd < 0) return -1;
  struct stat copy;
  if (syscall(SYS_fstat, fd, &copy) != 0 ||
      (is_by_folder && !IsTrusted(copy)) ||
      !IsUsableCopy(fd, copy, view, source)) {
    sys::Close(fd);
    return -1;
  }
  if (shim.copies_device.load(std::memory_order_relaxed) == 0) {
    shim.copies_device.store(copy.st_dev, std::memory_order_relaxed);
  }
  shim.daemon.Count(&AtomicCounts::copy_opens);
  shim.daemon.Count(&AtomicCounts::copy_bytes,
                    static_cast<uint64_t>(copy.st_size));
  return fd;
}

// Opens a complete copy for reading; returns -1 if no copy may be used.
// Compares the copy with `source` unless that is null. May set errno.
int OpenCopy(Key* key, const char* source, int flags) {
  const StateView view = shim.daemon.ReadState();
  if (!view.has_store) return -1;
  const Folder* const paths[] = {&shim.settings.private_copies,
                                 &shim.settings.public_copies};
  OwnFile* const folders[] = {&private_copies, &public_copies};
  const int open_flags =
      O_RDONLY | O_NOFOLLOW | O_NONBLOCK | (flags & O_CLOEXEC);
  const bool compares = Compares(view, source);
  // Without a valid state, look everywhere.
  const int count = !view.is_valid || (view.flags & kShared) ? 2 : 1;
  int fd = -1;
  bool was_found[2] = {};
  // Any copy of this version will do, so the folders that are open come first:
  // a search by a path takes longer, as does a look whether one is still open.
  for (int i = 0; compares && fd < 0 && i < count; ++i) {
    const int folder = folders[i]->fd();
    if (folder < 0) continue;
    fd = static_cast<int>(
        syscall(SYS_openat, folder, key->key() + 1, open_flags));
    if (fd < 0 && (errno == EMFILE || errno == ENFILE)) return -1;
    was_found[i] = fd >= 0;
    fd = CopyOrNone(fd, view, source, /*is_by_folder=*/true);
  }
  for (int i = 0; fd < 0 && i < count; ++i) {
    if (was_found[i] || (compares && !folders[i]->ForgetIfClosed())) continue;
    const char* path = key->In(*paths[i]);
    if (path == nullptr) return -1;
    fd = static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, open_flags));
    if (fd < 0 && (errno == EMFILE || errno == ENFILE)) return -1;
    if (fd >= 0 && compares) {
      folders[i]->Take(sys::Open(paths[i]->path, O_PATH | O_DIRECTORY));
    }
    fd = CopyOrNone(fd, view, source, /*is_by_folder=*/false);
  }
  if (fd >= 0) shim.daemon.ReportCounts(key->key(), key->size());
  return fd;
}

// Replaces a descriptor of the program by one of the complete copy; returns
// whether that was possible.
bool SwapInCopy(PartialCopy* partial, int fd) {
  const int copy = OpenCopyOf(*partial, fd);
  if (copy < 0) return false;
  const int flags = sys::Fcntl(fd, F_GETFD);
  const int64_t position = sys::Seek(fd, 0, SEEK_CUR);
  const bool is_done =
      flags >= 0 && position >= 0 &&
      sys::Seek(copy, position, SEEK_SET) == position &&
      syscall(SYS_dup3, copy, fd, flags & FD_CLOEXEC ? O_CLOEXEC : 0) == fd;
  sys::Close(copy);
  return is_done;
}

}  // namespace

bool CloseCopiesFolders() {
  const bool had_private = private_copies.Close();
  return public_copies.Close() || had_private;
}

int LookUpCopy(Key* key, const char* source, int flags, LookupResult* result) {
  *result = LookupResult::kNotAsked;
  errno = 0;
  int copy = OpenCopy(key, source, flags);
  if (copy < 0 && ReleaseDescriptors()) {
    copy = OpenCopy(key, source, flags);
  }
  if (copy >= 0 || !(shim.daemon.Flags() & kAsks) ||
      shim.daemon.IsUnasked(key->key(), key->size())) {
    return copy;
  }
  if (HasPartialCopy(*key)) {
    *result = LookupResult::kPartialCopy;
    return -1;
  }
  const Reply reply = shim.daemon.Ask(key->key(), key->size());
  if (reply == kUseSource) {
    *result = LookupResult::kClaimed;
    return -1;
  }
  if (reply == kFollow) *result = LookupResult::kPartialCopy;
  // A copy that was partial when the daemon replied may be complete by now.
  return OpenCopy(key, source, flags);
}

int OpenCopyOf(const PartialCopy& partial, int fd) {
  Key key;
  key.Set(partial.key, partial.key_size);
  const int copy = OpenCopy(&key, nullptr, O_CLOEXEC);
  if (copy < 0) return -1;
  Identity identity;
  struct statx status;
  if (IsIdentity(identity, syscall(SYS_fgetxattr, copy, kSourceAttribute,
                                   &identity, sizeof(identity))) &&
      sys::CachedStatus(fd, &status) == 0 && IsSameVersion(identity, status)) {
    return copy;
  }
  sys::Close(copy);
  return -1;
}

bool AwaitSwap(PartialCopy* partial, int fd) {
  const int64_t begin = sys::Now(CLOCK_MONOTONIC);
  bool is_swapped = SwapInCopy(partial, fd);
  bool has_waited = false;
  while (!is_swapped && shim.daemon.IsValid() && IsFetched(partial) &&
         sys::Now(CLOCK_MONOTONIC) - begin < kMaxSwapWaitNs) {
    has_waited = true;
    sys::Sleep(kSwapPauseNs);
    is_swapped = SwapInCopy(partial, fd);
  }
  if (has_waited) shim.daemon.CountWait(begin);
  return is_swapped;
}

}  // namespace tier
}  // namespace tf_malleable
