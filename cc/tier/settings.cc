// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.

#include "cc/tier/settings.h"

#include <atomic>

#include "cc/tier/system.h"

namespace tf_malleable {
namespace tier {
namespace {

// The rest of `line` if it begins with `word`.
char* After(char* line, const char* word) {
  const size_t size = strlen(word);
  return strncmp(line, word, size) == 0 ? line + size : nullptr;
}

bool IsFolder(const char* path) {
  return path[0] == '/' && path[1] != '\0' && path[strlen(path) - 1] != '/';
}

bool Append(Folder* folder, const char* text) {
  const size_t size = strlen(text);
  if (folder->size + size >= kMostStore) return false;
  memcpy(folder->path + folder->size, text, size + 1);
  folder->size += size;
  return true;
}

// The changes of the working directory, and whether the last one made it one
// from which no path leads to a source without "..".
std::atomic<uint64_t> far_directory;

// Whether one path is the other one, or below it.
bool IsBelow(const char* path, const char* other, size_t size) {
  return strncmp(path, other, size) == 0 &&
         (path[size] == '\0' || path[size] == '/');
}

bool IsFar(const Settings& settings, const char* folder, size_t size) {
  if (size == 1) return false;
  for (int i = 0; i < settings.roots_size; ++i) {
    const Root& root = settings.roots[i];
    if (IsBelow(folder, root.path, root.size) ||
        IsBelow(root.path, folder, size)) {
      return false;
    }
  }
  return true;
}

bool Below(const char* store, const char* area, const char* uid,
           Folder* folder) {
  folder->size = 0;
  return Append(folder, store) && Append(folder, area) && Append(folder, uid);
}

}  // namespace

void Parse(char* text, unsigned uid, Settings* settings) {
  settings->is_on = false;
  settings->roots_size = 0;
  settings->socket = nullptr;
  const char* store = nullptr;
  Root* root = nullptr;
  while (text != nullptr) {
    char* line = text;
    text = strchr(text, '\n');
    if (text != nullptr) *text++ = '\0';
    if (char* path = After(line, "socket=")) {
      if (IsFolder(path)) settings->socket = path;
    } else if (char* path = After(line, "store=")) {
      if (IsFolder(path)) store = path;
    } else if (char* path = After(line, "source=")) {
      root = nullptr;
      if (IsFolder(path) && settings->roots_size < kMostRoots) {
        root = &settings->roots[settings->roots_size++];
        root->path = root->name = path;
        root->size = root->name_size = strlen(path);
      }
    } else if (char* path = After(line, "as=")) {
      if (root != nullptr && IsFolder(path)) {
        root->name = path;
        root->name_size = strlen(path);
      }
    }
  }
  if (store == nullptr || settings->socket == nullptr ||
      settings->roots_size == 0) {
    return;
  }
  char digits[12];
  char* digit = digits + sizeof(digits);
  *--digit = '\0';
  do {
    *--digit = static_cast<char>('0' + uid % 10);
    uid /= 10;
  } while (uid != 0);
  settings->is_on =
      Below(store, "/private/", digit, &settings->own) &&
      Below(store, "/public", "", &settings->everybodys) &&
      Below(store, "/growing/private/", digit, &settings->growing) &&
      Below(store, "/growing/public", "", &settings->growing_publics);
}

bool Key::Find(const Settings& settings, const char* path) {
  if (path[0] == '/') {
    // Most paths are not below any folder, and are told by a few bytes.
    return Take(settings, path, 0);
  }
  if (path[0] == '\0') return false;
  uint64_t changes = far_directory.load(std::memory_order_relaxed);
  if (changes & 1) return false;
  char* folder = buffer_ + kMostStore;
  const ErrnoGuard guard;
  const long size = syscall(SYS_getcwd, folder, PATH_MAX);
  // An unreachable one does not begin with a /. The size has the 0.
  if (size <= 1 || folder[0] != '/') return false;
  if (IsFar(settings, folder, static_cast<size_t>(size) - 1)) {
    far_directory.compare_exchange_strong(changes, changes | 1);
    return false;
  }
  return Take(settings, path, static_cast<size_t>(size) - 1);
}

bool Key::Take(const Settings& settings, const char* path, size_t before) {
  // The working directory, if there is one before, is in the buffer already.
  char* const begin = buffer_ + kMostStore;
  char* const end = buffer_ + sizeof(buffer_);
  if (before == 0) {
    bool is_near = false;
    for (int i = 0; i < settings.roots_size; ++i) {
      // Up to "//" or "/./" in the path, as nobody writes them in a root.
      const Root& root = settings.roots[i];
      size_t same = 0;
      while (same < root.size && root.path[same] == path[same]) ++same;
      is_near = is_near || same == root.size ||
                (same > 0 && path[same - 1] == '/' &&
                 (path[same] == '/' || path[same] == '.'));
    }
    if (!is_near) return false;
  } else if (before == 1) {
    before = 0;  // The working directory is /.
  }
  char* to = begin + before;
  // Components, without empty ones and ".".
  for (const char* from = path; *from != '\0';) {
    if (*from == '/') {
      ++from;
      if (*from == '\0') return false;  // Names a folder.
      continue;
    }
    const char* next = from;
    while (*next != '\0' && *next != '/') ++next;
    const size_t size = static_cast<size_t>(next - from);
    if (size == 1 && from[0] == '.') {
      if (*next == '\0') return false;
    } else if (size == 2 && from[0] == '.' && from[1] == '.') {
      return false;  // Only the kernel knows where that leads.
    } else {
      if (to + size + 2 > end) return false;
      *to++ = '/';
      memcpy(to, from, size);
      to += size;
    }
    from = next;
  }
  *to = '\0';
  const size_t size = static_cast<size_t>(to - begin);
  const Root* found = nullptr;
  for (int i = 0; i < settings.roots_size; ++i) {
    const Root& root = settings.roots[i];
    if (size > root.size + 1 && begin[root.size] == '/' &&
        memcmp(begin, root.path, root.size) == 0 &&
        (found == nullptr || root.size > found->size)) {
      found = &root;
    }
  }
  if (found == nullptr) return false;
  begin_ = begin;
  size_ = size;
  if (found->name != found->path) {
    const size_t rest = size - found->size;
    if (found->name_size + rest >= PATH_MAX) return false;
    memmove(begin + found->name_size, begin + found->size, rest + 1);
    memcpy(begin, found->name, found->name_size);
    size_ = found->name_size + rest;
  }
  return true;
}

void Key::WorkingDirectoryChanged() {
  uint64_t changes = far_directory.load(std::memory_order_relaxed);
  while (!far_directory.compare_exchange_weak(changes, (changes | 1) + 1)) {
  }
}

void Key::Set(const char* key, size_t size) {
  begin_ = buffer_ + kMostStore;
  memcpy(begin_, key, size);
  begin_[size] = '\0';
  size_ = size;
}

const char* Key::In(const Folder& folder) {
  if (folder.size + size_ >= PATH_MAX) return nullptr;
  return static_cast<const char*>(
      memcpy(begin_ - folder.size, folder.path, folder.size));
}

void GrowingPath(const Folder& folder, const char* key, size_t size,
                 const char* suffix, char path[kGrowingPath]) {
  memcpy(path, folder.path, folder.size);
  path[folder.size] = '/';
  NameOf(key, size, path + folder.size + 1);
  memcpy(path + folder.size + 33, suffix, strlen(suffix) + 1);
}

void NameOf(const char* data, size_t size, char name[33]) {
  using Wide = unsigned __int128;
  constexpr Wide kPrime = (Wide{1} << 88) + 0x13b;
  Wide hash = (Wide{0x6c62272e07bb0142} << 64) + 0x62b821756295c58d;
  for (size_t i = 0; i < size; ++i) {
    hash = (hash ^ static_cast<unsigned char>(data[i])) * kPrime;
  }
  for (int i = 31; i >= 0; --i) {
    name[i] = "0123456789abcdef"[static_cast<unsigned>(hash & 15)];
    hash >>= 4;
  }
  name[32] = '\0';
}

}  // namespace tier
}  // namespace tf_malleable
