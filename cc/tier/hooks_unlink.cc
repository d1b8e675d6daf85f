// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// Hooks of the functions that remove, rename or truncate files.

#include <fcntl.h>
#include <stdint.h>

#include "cc/tier/hook.h"
#include "cc/tier/invalidation.h"

namespace tf_malleable {
namespace tier {

TFM_HOOK(int, unlink, (const char* path)) {
  static RealFunction<int(const char*)> real("unlink");
  const int result = real(path);
  if (result == 0) InvalidatePath(AT_FDCWD, path);
  return result;
}

TFM_HOOK(int, remove, (const char* path)) {
  static RealFunction<int(const char*)> real("remove");
  const int result = real(path);
  if (result == 0) InvalidatePath(AT_FDCWD, path);
  return result;
}

TFM_HOOK(int, unlinkat, (int folder, const char* path, int flags)) {
  static RealFunction<int(int, const char*, int)> real("unlinkat");
  const int result = real(folder, path, flags);
  if (result == 0) InvalidatePath(folder, path);
  return result;
}

TFM_HOOK(int, rename, (const char* from, const char* to)) {
  static RealFunction<int(const char*, const char*)> real("rename");
  const int result = real(from, to);
  if (result == 0) {
    InvalidatePath(AT_FDCWD, from);
    InvalidatePath(AT_FDCWD, to);
  }
  return result;
}

TFM_HOOK(int, renameat,
         (int from_folder, const char* from, int to_folder, const char* to)) {
  static RealFunction<int(int, const char*, int, const char*)> real("renameat");
  const int result = real(from_folder, from, to_folder, to);
  if (result == 0) {
    InvalidatePath(from_folder, from);
    InvalidatePath(to_folder, to);
  }
  return result;
}

TFM_HOOK(int, renameat2,
         (int from_folder, const char* from, int to_folder, const char* to,
          unsigned flags)) {
  static RealFunction<int(int, const char*, int, const char*, unsigned)> real(
      "renameat2");
  const int result = real(from_folder, from, to_folder, to, flags);
  if (result == 0) {
    InvalidatePath(from_folder, from);
    InvalidatePath(to_folder, to);
  }
  return result;
}

#define TFM_TRUNCATE(name)                                      \
  TFM_HOOK(int, name, (const char* path, int64_t size)) {       \
    static RealFunction<int(const char*, int64_t)> real(#name); \
    const int result = real(path, size);                        \
    if (result == 0) InvalidatePath(AT_FDCWD, path);            \
    return result;                                              \
  }
TFM_TRUNCATE(truncate)
TFM_TRUNCATE(truncate64)

}  // namespace tier
}  // namespace tf_malleable
