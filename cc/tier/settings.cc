// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.

#include "cc/tier/settings.h"

#include <stdio.h>

#include <atomic>

#include "cc/tier/identity.h"
#include "cc/tier/protocol.h"
#include "cc/tier/syscalls.h"
#include "cc/tier/trusted_folder.h"

namespace tf_malleable {
namespace tier {
namespace {

// Returns the rest of `line` if it begins with `word`; otherwise null.
char* ValueOf(char* line, const char* word) {
  const size_t size = strlen(word);
  return strncmp(line, word, size) == 0 ? line + size : nullptr;
}

bool IsFolderPath(const char* path) {
  return path[0] == '/' && path[1] != '\0' && path[strlen(path) - 1] != '/';
}

// Returns whether it also has no component that is empty, "." or "..".
bool IsNormalFolderPath(const char* path) {
  if (!IsFolderPath(path)) return false;
  for (const char* slash = path; slash != nullptr;
       slash = strchr(slash + 1, '/')) {
    const size_t size = strcspn(slash + 1, "/");
    if (size <= 2 && strncmp(slash + 1, "..", size) == 0) return false;
  }
  return true;
}

// State of the working directory. As another process may rename the directory,
// only one conclusion is drawn from it: that a path leads to no source. If that
// is wrong, the program reads the source itself.
//
//   bit 0       1 if the directory is known to be in no source; the bits 1-31
//               are then set.
//   bits 1-16   The roots that are below it, one bit each.
//   bits 17-31  Offset in their paths at which they go on from the directory.
//   bits 32-63  Number of changes of the directory.
std::atomic<uint64_t> directory;
constexpr uint64_t kKnown = 1;
constexpr int kRootsShift = 1;
constexpr int kRestShift = 17;
constexpr int kChangesShift = 32;
constexpr uint64_t kRestMask =
    (uint64_t{1} << (kChangesShift - kRestShift)) - 1;
static_assert(kMaxRoots <= kRestShift - kRootsShift, "a bit for each");

// Returns whether `path` is `other`, or below it.
bool IsBelow(const char* path, const char* other, size_t size) {
  return strncmp(path, other, size) == 0 &&
         (path[size] == '\0' || path[size] == '/');
}

// Returns the bits of a working directory; 0 if it is in a source.
uint64_t BitsOf(const Settings& settings, const char* folder, size_t size) {
  uint64_t roots = 0;
  for (int i = 0; i < settings.roots_size; ++i) {
    const Root& root = settings.roots[i];
    if (IsBelow(folder, root.path, root.size)) return 0;
    if (size == 1 || IsBelow(root.path, folder, size))
      roots |= uint64_t{1} << i;
  }
  const uint64_t rest = size == 1 ? 1 : size + 1;
  return kKnown | roots << kRootsShift | rest << kRestShift;
}

// Returns whether a relative path may lead to a source, according to the bits
// of the working directory.
bool MayLeadToSource(const Settings& settings, uint64_t bits,
                     const char* path) {
  const unsigned roots = (bits >> kRootsShift) & ((1u << kMaxRoots) - 1);
  if (roots == 0) return false;
  if (path[0] == '.') return true;
  const size_t rest = (bits >> kRestShift) & kRestMask;
  for (int i = 0; i < settings.roots_size; ++i) {
    if (!(roots >> i & 1)) continue;
    const char* name = settings.roots[i].path + rest;
    size_t same = 0;
    while (name[same] != '\0' && name[same] != '/' &&
           name[same] == path[same]) {
      ++same;
    }
    if ((name[same] == '\0' || name[same] == '/') && path[same] == '/') {
      return true;
    }
  }
  return false;
}

// Returns whether a path may have components that are empty, "." or "..". Most
// have none, and are normal already.
bool NeedsNormalizing(const char* path, size_t size) {
  return strstr(path, "//") != nullptr || strstr(path, "/.") != nullptr ||
         path[size - 1] == '/';
}

// Sets a folder of the store, that of the user if `uid` is not null; returns
// whether its path fits.
bool SetFolder(const char* store, const char* name, const unsigned* uid,
               Folder* folder) {
  const int size =
      uid != nullptr
          ? snprintf(folder->path, kMaxFolderBytes, "%s%s%u", store, name, *uid)
          : snprintf(folder->path, kMaxFolderBytes, "%s%s", store, name);
  folder->size = static_cast<size_t>(size);
  return size > 0 && folder->size < kMaxFolderBytes;
}

// Reads the lines of a text, which the settings then point into.
void ReadLines(char* text, Settings* settings) {
  settings->is_on = false;
  settings->roots_size = 0;
  settings->socket = settings->counts = settings->store = nullptr;
  Root* root = nullptr;
  while (text != nullptr) {
    char* line = text;
    text = strchr(text, '\n');
    if (text != nullptr) *text++ = '\0';
    if (char* path = ValueOf(line, "socket=")) {
      if (IsFolderPath(path)) settings->socket = path;
    } else if (char* path = ValueOf(line, "counts=")) {
      settings->counts = path;
    } else if (char* path = ValueOf(line, "store=")) {
      if (IsFolderPath(path)) settings->store = path;
    } else if (char* path = ValueOf(line, "source=")) {
      root = nullptr;
      if (IsNormalFolderPath(path) && settings->roots_size < kMaxRoots) {
        root = &settings->roots[settings->roots_size++];
        root->path = root->daemon_path = path;
        root->size = root->daemon_path_size = strlen(path);
      }
    } else if (char* path = ValueOf(line, "as=")) {
      if (root != nullptr && IsNormalFolderPath(path)) {
        root->daemon_path = path;
        root->daemon_path_size = strlen(path);
      }
    }
  }
}

// Removes the roots that are in none of the daemon's.
void KeepOffered(const Settings& offered, Settings* settings) {
  int kept = 0;
  for (int i = 0; i < settings->roots_size; ++i) {
    const Root& root = settings->roots[i];
    for (int j = 0; j < offered.roots_size; ++j) {
      if (IsBelow(root.daemon_path, offered.roots[j].path,
                  offered.roots[j].size)) {
        settings->roots[kept++] = root;
        break;
      }
    }
  }
  settings->roots_size = kept;
}

// Reads the file with the State beside the socket, if it can be trusted: the
// device and inode of the store, and the text.
bool ReadState(Settings* settings, char text[kMaxStateTextBytes + 1]) {
  char folder[PATH_MAX];
  const size_t size =
      static_cast<size_t>(strrchr(settings->socket, '/') - settings->socket);
  if (size >= sizeof(folder)) return false;
  memcpy(folder, settings->socket, size);
  folder[size] = '\0';
  const int folder_fd =
      OpenTrustedFolder(size == 0 ? "/" : folder, settings->uid);
  if (folder_fd < 0) return false;
  sys::Close(folder_fd);
  const int fd = OpenStateFile(*settings);
  if (fd < 0) return false;
  State state;
  ssize_t got = -1;
  if (sys::ReadAt(fd, &state, sizeof(state), 0) == sizeof(state) &&
      state.magic == kStateMagic && state.version == kVersion) {
    got = sys::ReadAt(fd, text, kMaxStateTextBytes, kStateBytes);
  }
  sys::Close(fd);
  if (got < 0) return false;
  text[got] = '\0';
  settings->store_device = state.store_device;
  settings->store_inode = state.store_inode;
  return true;
}

// Returns whether the store is that which the State names, and can be trusted.
bool IsStoreTrusted(const Settings& settings) {
  const int fd = OpenTrustedFolder(settings.store, settings.uid);
  if (fd < 0) return false;
  struct statx status;
  const bool is_same = sys::CachedStatus(fd, &status) == 0 &&
                       DeviceOf(status) == settings.store_device &&
                       status.stx_ino == settings.store_inode;
  sys::Close(fd);
  return is_same;
}

}  // namespace

int OpenStateFile(const Settings& settings) {
  char path[PATH_MAX];
  const size_t size = strlen(settings.socket);
  if (size + sizeof(kStateSuffix) > sizeof(path)) return -1;
  memcpy(path, settings.socket, size);
  memcpy(path + size, kStateSuffix, sizeof(kStateSuffix));
  const int fd = sys::Open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  struct statx status;
  if (fd < 0 || (sys::CachedStatus(fd, &status) == 0 &&
                 S_ISREG(status.stx_mode) && status.stx_size >= kStateBytes &&
                 (status.stx_uid == 0 || status.stx_uid == settings.uid))) {
    return fd;
  }
  sys::Close(fd);
  return -1;
}

void ParseVariable(char* text, unsigned uid, Settings* settings) {
  ReadLines(text, settings);
  settings->uid = uid;
}

void ParseStateText(char* text, Settings* settings) {
  Settings offered;
  ReadLines(text, &offered);
  if (settings->store == nullptr) settings->store = offered.store;
  if (settings->roots_size == 0) {
    memcpy(settings->roots, offered.roots, sizeof(offered.roots));
    settings->roots_size = offered.roots_size;
  } else {
    KeepOffered(offered, settings);
  }
  if (settings->store == nullptr || settings->socket == nullptr ||
      settings->roots_size == 0) {
    return;
  }
  const char* const store = settings->store;
  settings->is_on =
      SetFolder(store, "/private/", &settings->uid,
                &settings->private_copies) &&
      SetFolder(store, "/public", nullptr, &settings->public_copies) &&
      SetFolder(store, "/growing/private/", &settings->uid,
                &settings->private_partials) &&
      SetFolder(store, "/growing/public", nullptr, &settings->public_partials);
}

void LoadSettings(char* text, unsigned uid, Settings* settings) {
  static char state_text[kMaxStateTextBytes + 1];
  ParseVariable(text, uid, settings);
  if (settings->socket == nullptr || !ReadState(settings, state_text)) return;
  ParseStateText(state_text, settings);
  settings->is_on = settings->is_on && IsStoreTrusted(*settings);
}

bool Key::Find(const Settings& settings, const char* path) {
  if (path[0] == '/') {
    // Most paths are not below any folder, which a few bytes show.
    return Normalize(settings, path, 0);
  }
  if (path[0] == '\0') return false;
  uint64_t bits = directory.load(std::memory_order_relaxed);
  if ((bits & kKnown) && !MayLeadToSource(settings, bits, path)) return false;
  char* folder = buffer_ + kMaxFolderBytes;
  const ErrnoGuard guard;
  const long size = syscall(SYS_getcwd, folder, PATH_MAX);
  // The path of an unreachable directory does not begin with a /. The size
  // includes the 0.
  if (size <= 1 || folder[0] != '/') return false;
  if (!(bits & kKnown)) {
    const uint64_t found =
        BitsOf(settings, folder, static_cast<size_t>(size) - 1);
    if ((found & kKnown) != 0) {
      directory.compare_exchange_strong(bits, bits | found);
      if (!MayLeadToSource(settings, found, path)) return false;
    }
  }
  return Normalize(settings, path, static_cast<size_t>(size) - 1);
}

bool Key::Normalize(const Settings& settings, const char* path, size_t before) {
  // The working directory, if the path is relative to it, is in the buffer
  // already.
  char* const begin = buffer_ + kMaxFolderBytes;
  char* const end = buffer_ + sizeof(buffer_);
  if (before == 0) {
    bool is_near = false;
    for (int i = 0; i < settings.roots_size; ++i) {
      // Compared up to "//" or "/./" in the path, which no root has.
      const Root& root = settings.roots[i];
      if (strncmp(root.path, path, root.size) == 0) {
        is_near = true;
        break;
      }
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
  const size_t length = strlen(path);
  if (before == 0 && path[0] == '/' &&
      length < static_cast<size_t>(end - begin) &&
      !NeedsNormalizing(path, length)) {
    memcpy(to, path, length);
    to += length;
    path += length;
  }
  // Copies the components, without empty ones and ".".
  for (const char* from = path; *from != '\0';) {
    if (*from == '/') {
      ++from;
      if (*from == '\0') return false;  // The path names a folder.
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
  if (found->daemon_path != found->path) {
    const size_t rest = size - found->size;
    if (found->daemon_path_size + rest >= PATH_MAX) return false;
    memmove(begin + found->daemon_path_size, begin + found->size, rest + 1);
    memcpy(begin, found->daemon_path, found->daemon_path_size);
    size_ = found->daemon_path_size + rest;
  }
  return true;
}

void Key::WorkingDirectoryChanged() {
  uint64_t bits = directory.load(std::memory_order_relaxed);
  while (!directory.compare_exchange_weak(bits, ((bits >> kChangesShift) + 1)
                                                    << kChangesShift)) {
  }
}

void Key::Set(const char* key, size_t size) {
  begin_ = buffer_ + kMaxFolderBytes;
  memcpy(begin_, key, size);
  begin_[size] = '\0';
  size_ = size;
}

const char* Key::In(const Folder& folder) {
  if (folder.size + size_ >= PATH_MAX) return nullptr;
  return static_cast<const char*>(
      memcpy(begin_ - folder.size, folder.path, folder.size));
}

void PartialPath(const Folder& folder, const char* key, size_t size,
                 const char* suffix, char path[kPartialPathBytes]) {
  memcpy(path, folder.path, folder.size);
  path[folder.size] = '/';
  NameOf(key, size, path + folder.size + 1);
  memcpy(path + folder.size + kNameBytes, suffix, strlen(suffix) + 1);
}

void NameOf(const char* data, size_t size, char name[kNameBytes]) {
  using Wide = unsigned __int128;
  constexpr Wide kFnv128Prime = (Wide{1} << 88) + 0x13b;
  constexpr Wide kFnv128Basis =
      (Wide{0x6c62272e07bb0142} << 64) + 0x62b821756295c58d;
  static constexpr char kDigits[] = "0123456789abcdef";
  constexpr int kDigitBits = 4;
  Wide hash = kFnv128Basis;
  for (size_t i = 0; i < size; ++i) {
    hash = (hash ^ static_cast<unsigned char>(data[i])) * kFnv128Prime;
  }
  for (size_t i = kNameBytes - 1; i-- > 0;) {
    name[i] = kDigits[static_cast<unsigned>(hash) % (1u << kDigitBits)];
    hash >>= kDigitBits;
  }
  name[kNameBytes - 1] = '\0';
}

}  // namespace tier
}  // namespace tf_malleable
