// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.

#include "cc/tier/invalidation.h"

#include <stddef.h>

#include "cc/tier/partial_copy.h"
#include "cc/tier/syscalls.h"

namespace tf_malleable {
namespace tier {
namespace {

constexpr int64_t kMaxWaitNs = 500 * kMillisecondNs;
constexpr int64_t kPauseNs = kMillisecondNs;

bool Exists(const char* path) {
  struct statx status;
  return path != nullptr &&
         syscall(SYS_statx, AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_TYPE,
                 &status) == 0;
}

// Removes the partial copy, if it is this user's.
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

// Removes the user's own copy; if it cannot be removed, as its folder is the
// daemon's, takes its permissions and its attribute away.
void DropPrivateCopy(const char* path) {
  if (path == nullptr || sys::Unlink(path) == 0 || errno == ENOENT) return;
  syscall(SYS_fchmodat, AT_FDCWD, path, 0);
  syscall(SYS_removexattr, path, kSourceAttribute);
}

// Returns whether a path is a copy, or a folder that may have copies.
bool HasCopy(const char* path) {
  if (!Exists(path)) return false;
  struct statx status;
  if (sys::Status(path, &status) == 0 && S_ISDIR(status.stx_mode)) return true;
  return syscall(SYS_getxattr, path, kSourceAttribute, nullptr, 0) > 0;
}

}  // namespace

void Invalidate(Key* key) {
  const ErrnoGuard guard;
  if (!shim.daemon.HasStore()) return;
  DropPartialCopy(*key);
  Withdraw(*key);
  DropPrivateCopy(key->In(shim.settings.private_copies));
  const bool is_sent =
      shim.daemon.Send(kChanged, key->key(), key->size(), nullptr, nullptr, 0);
  const int64_t begin = sys::Now(CLOCK_MONOTONIC);
  while (is_sent && shim.daemon.IsValid() &&
         sys::Now(CLOCK_MONOTONIC) - begin < kMaxWaitNs &&
         (HasCopy(key->In(shim.settings.private_copies)) ||
          HasCopy(key->In(shim.settings.public_copies)))) {
    sys::Sleep(kPauseNs);
  }
}

void InvalidatePath(int folder, const char* path) {
  if (!shim.is_on.load(std::memory_order_relaxed) || path == nullptr ||
      (folder != AT_FDCWD && path[0] != '/')) {
    return;
  }
  Key key;
  if (key.Find(shim.settings, path)) Invalidate(&key);
}

}  // namespace tier
}  // namespace tf_malleable
