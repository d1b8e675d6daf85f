// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.

#include "cc/tier/changes.h"

#include <stddef.h>

#include "cc/tier/partial_copy.h"
#include "cc/tier/real.h"
#include "cc/tier/system.h"

namespace tf_malleable {
namespace tier {
namespace {

constexpr int64_t kMaxWaitNs = 500 * kMillisecond;

bool IsThere(const char* path) {
  struct statx status;
  return path != nullptr &&
         syscall(SYS_statx, AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_TYPE,
                 &status) == 0;
}

// Removes what grows, if it is this user's.
void DropPartialCopy(const Key& key) {
  char path[kPartialPathBytes];
  const Folder& folder = shim.settings.private_partials;
  PartialPath(folder, key.key(), key.size(), ".map", path);
  const int map = sys::Open(path, O_RDWR | O_NOFOLLOW);
  if (map < 0) return;
  const uint32_t state = kIsDropped;
  sys::WriteAt(map, &state, sizeof(state), offsetof(MapHeader, state));
  sys::Close(map);
  sys::Unlink(path);
  PartialPath(folder, key.key(), key.size(), ".part", path);
  sys::Unlink(path);
}

// Makes the user's own copy none. The folder may be the daemon's.
void DropOwn(const char* path) {
  if (path == nullptr || sys::Unlink(path) == 0 || errno == ENOENT) return;
  syscall(SYS_fchmodat, AT_FDCWD, path, 0);
  syscall(SYS_removexattr, path, kSourceAttribute);
}

bool IsCopy(const char* path) {
  if (!IsThere(path)) return false;
  struct statx status;
  if (sys::Status(path, &status) == 0 && S_ISDIR(status.stx_mode)) return true;
  return syscall(SYS_getxattr, path, kSourceAttribute, nullptr, 0) > 0;
}

}  // namespace

void Changed(Key* key) {
  const ErrnoGuard guard;
  if (!shim.daemon.HasStore()) return;
  DropPartialCopy(*key);
  Withdraw(*key);
  DropOwn(key->In(shim.settings.private_copies));
  const bool is_sent =
      shim.daemon.Send(kChanged, key->key(), key->size(), nullptr, nullptr, 0);
  const int64_t begin = sys::Now(CLOCK_MONOTONIC);
  while (is_sent && shim.daemon.IsValid() &&
         sys::Now(CLOCK_MONOTONIC) - begin < kMaxWaitNs &&
         (IsCopy(key->In(shim.settings.private_copies)) ||
          IsCopy(key->In(shim.settings.public_copies)))) {
    sys::Sleep(kMillisecond);
  }
}

void ChangedPath(int folder, const char* path) {
  if (!shim.is_on.load(std::memory_order_relaxed) || path == nullptr ||
      (folder != AT_FDCWD && path[0] != '/')) {
    return;
  }
  Key key;
  if (key.Find(shim.settings, path)) Changed(&key);
}

TFM_HOOK(int, unlink, (const char* path)) {
  static Real<int(const char*)> real("unlink");
  const int result = real(path);
  if (result == 0) ChangedPath(AT_FDCWD, path);
  return result;
}

TFM_HOOK(int, remove, (const char* path)) {
  static Real<int(const char*)> real("remove");
  const int result = real(path);
  if (result == 0) ChangedPath(AT_FDCWD, path);
  return result;
}

TFM_HOOK(int, unlinkat, (int folder, const char* path, int flags)) {
  static Real<int(int, const char*, int)> real("unlinkat");
  const int result = real(folder, path, flags);
  if (result == 0) ChangedPath(folder, path);
  return result;
}

TFM_HOOK(int, rename, (const char* from, const char* to)) {
  static Real<int(const char*, const char*)> real("rename");
  const int result = real(from, to);
  if (result == 0) {
    ChangedPath(AT_FDCWD, from);
    ChangedPath(AT_FDCWD, to);
  }
  return result;
}

TFM_HOOK(int, renameat,
         (int from_folder, const char* from, int to_folder, const char* to)) {
  static Real<int(int, const char*, int, const char*)> real("renameat");
  const int result = real(from_folder, from, to_folder, to);
  if (result == 0) {
    ChangedPath(from_folder, from);
    ChangedPath(to_folder, to);
  }
  return result;
}

TFM_HOOK(int, renameat2,
         (int from_folder, const char* from, int to_folder, const char* to,
          unsigned flags)) {
  static Real<int(int, const char*, int, const char*, unsigned)> real(
      "renameat2");
  const int result = real(from_folder, from, to_folder, to, flags);
  if (result == 0) {
    ChangedPath(from_folder, from);
    ChangedPath(to_folder, to);
  }
  return result;
}

#define TFM_TRUNCATE(name)                                \
  TFM_HOOK(int, name, (const char* path, int64_t size)) { \
    static Real<int(const char*, int64_t)> real(#name);   \
    const int result = real(path, size);                  \
    if (result == 0) ChangedPath(AT_FDCWD, path);         \
    return result;                                        \
  }
TFM_TRUNCATE(truncate)
TFM_TRUNCATE(truncate64)

}  // namespace tier
}  // namespace tf_malleable
