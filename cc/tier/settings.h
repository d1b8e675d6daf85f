// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// What the shim is told by the environment, and what follows from it.

#ifndef TF_MALLEABLE_CC_TIER_SETTINGS_H_
#define TF_MALLEABLE_CC_TIER_SETTINGS_H_

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

namespace tf_malleable {
namespace tier {

inline constexpr int kMaxRoots = 16;
inline constexpr size_t kMaxFolderBytes =
    1024;  // Bytes of a folder of the store.

// A folder of the source.
struct Root {
  const char* path;  // As programs name it.
  size_t size;
  const char* daemon_path;  // As the daemon calls it.
  size_t daemon_path_size;
};

// A folder's path, with a 0 after it.
struct Folder {
  char path[kMaxFolderBytes];
  size_t size;
};

// Thread-safety: written once, before anything reads it.
struct Settings {
  bool is_on;  // All that is needed was given.
  int roots_size;
  Root roots[kMaxRoots];
  bool has_renamed_roots;  // The daemon calls some root otherwise.
  const char* socket;
  const char* counts;       // A file, or null.
  Folder private_copies;    // private/UID.
  Folder public_copies;     // public.
  Folder private_partials;  // growing/private/UID.
  Folder public_partials;   // growing/public.
};

// Reads `text`, the value of kEnvironmentVariable, of which the settings keep
// parts: it is changed, and must stay.
void ParseSettings(char* text, unsigned uid, Settings* settings);

// A path in the store, built in place: a folder's path, then the key.
class Key {
 public:
  Key() : begin_(nullptr), size_(0) {}
  Key(const Key&) = delete;
  Key& operator=(const Key&) = delete;

  // Whether `path`, relative to the working directory if it does not begin
  // with a /, is below a folder of the source. If so, this becomes its key.
  bool Find(const Settings& settings, const char* path);
  // To be called after the working directory has changed. Of one in no source
  // it is remembered which paths may lead to one: all others take no system
  // call.
  static void WorkingDirectoryChanged();
  // Makes this a key that is known.
  void Set(const char* key, size_t size);

  const char* key() const { return begin_; }
  size_t size() const { return size_; }
  // The path of the key in a folder of the store; valid until the next call.
  // Null if it is too long.
  const char* In(const Folder& folder);

 private:
  bool Normalize(const Settings& settings, const char* path, size_t size);

  char buffer_[kMaxFolderBytes + PATH_MAX];
  char* begin_;  // Of the key, which begins with a /.
  size_t size_;
};

// Bytes of a file's NAME, with a 0.
inline constexpr size_t kNameBytes = 33;
inline constexpr size_t kMaxSuffixBytes = 14;
inline constexpr size_t kPartialPathBytes =
    kMaxFolderBytes + 1 + kNameBytes + kMaxSuffixBytes;
// The path of what grows in a folder: NAME and ".part" or ".map".
void PartialPath(const Folder& folder, const char* key, size_t size,
                 const char* suffix, char path[kPartialPathBytes]);

// The 128-bit FNV-1a hash of `data` in hexadecimal digits, with a 0.
void NameOf(const char* data, size_t size, char name[kNameBytes]);

}  // namespace tier
}  // namespace tf_malleable

#endif  // TF_MALLEABLE_CC_TIER_SETTINGS_H_
