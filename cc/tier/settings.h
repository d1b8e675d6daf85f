// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// Settings of the shim, from its environment variable, and the keys of files.

#ifndef TF_MALLEABLE_CC_TIER_SETTINGS_H_
#define TF_MALLEABLE_CC_TIER_SETTINGS_H_

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

namespace tf_malleable {
namespace tier {

// Maximum number of folders of the source.
inline constexpr int kMaxRoots = 16;
// Maximum size of a path of a folder of the store, with a 0.
inline constexpr size_t kMaxFolderBytes = 1024;

// A folder of the source.
struct Root {
  const char* path;  // Path as programs name it.
  size_t size;
  const char* daemon_path;  // Path as the daemon names it.
  size_t daemon_path_size;
};

// A folder of the store.
struct Folder {
  char path[kMaxFolderBytes];
  size_t size;
};

// Thread-safety: written once, before any other thread reads them.
struct Settings {
  bool is_on;    // All that is needed is there.
  unsigned uid;  // The reader's user.
  int roots_size;
  Root roots[kMaxRoots];
  const char* socket;
  const char* counts;  // Path of the file with a job's sums, or null.
  const char* store;
  uint64_t store_device;  // As in State.
  uint64_t store_inode;
  Folder private_copies;    // private/UID.
  Folder public_copies;     // public.
  Folder private_partials;  // growing/private/UID.
  Folder public_partials;   // growing/public.
};

// Parses `text`, the value of kEnvironmentVariable. The settings point into it:
// it is changed, and must outlive them. They are off until ParseStateText.
void ParseVariable(char* text, unsigned uid, Settings* settings);
// Completes the settings by the text after the State, which must outlive them,
// too.
void ParseStateText(char* text, Settings* settings);

// Parses `text` and the text after the State beside the socket that it names.
// The settings are on if all of these can be trusted (see
// kEnvironmentVariable). Thread-safety: to be called once, as it uses static
// memory.
void LoadSettings(char* text, unsigned uid, Settings* settings);

// Opens the file with the State beside the socket by its path: nobody else can
// change its folder, as LoadSettings has found. Returns -1 if there is none, or
// it is neither root's nor the reader's user's. Thread-safety: may be called
// from any thread and from signal handlers.
int OpenStateFile(const Settings& settings);

// Key of a file: its path in the source, as the daemon names it. Its buffer has
// room for the path of a folder of the store before the key.
//
// Thread-safety: one thread at a time may use a key.
class Key {
 public:
  Key() : begin_(nullptr), size_(0) {}
  Key(const Key&) = delete;
  Key& operator=(const Key&) = delete;

  // Sets the key of `path`, which may be relative to the working directory;
  // returns false if it is not below a folder of the source.
  bool Find(const Settings& settings, const char* path);
  // To be called after the working directory has changed. For a working
  // directory outside the source, Find remembers which relative paths may lead
  // to the source, so that all others take no system call.
  static void WorkingDirectoryChanged();
  // Sets a known key.
  void Set(const char* key, size_t size);

  const char* key() const { return begin_; }
  size_t size() const { return size_; }
  // Returns the path of the key in a folder of the store, which is valid until
  // the next call; null if it is too long.
  const char* In(const Folder& folder);

 private:
  // Sets the key from a path, without its empty components and "."; returns
  // false as Find does. `before` bytes of the working directory are in the
  // buffer, if the path is relative.
  bool Normalize(const Settings& settings, const char* path, size_t before);

  char buffer_[kMaxFolderBytes + PATH_MAX];
  char* begin_;  // Begin of the key, which is a /.
  size_t size_;
};

// Size of a partial copy's NAME with a 0, and maximum size of a suffix.
inline constexpr size_t kNameBytes = 33;
inline constexpr size_t kMaxSuffixBytes = 14;
inline constexpr size_t kPartialPathBytes =
    kMaxFolderBytes + 1 + kNameBytes + kMaxSuffixBytes;
// Writes the path of a file of a partial copy to `path`: the folder, NAME, and
// the suffix, ".part" or ".map". Thread-safety: a pure function.
void PartialPath(const Folder& folder, const char* key, size_t size,
                 const char* suffix, char path[kPartialPathBytes]);

// Writes the 128-bit FNV-1a hash of `data` to `name`, in hexadecimal digits
// with a 0. Thread-safety: a pure function.
void NameOf(const char* data, size_t size, char name[kNameBytes]);

}  // namespace tier
}  // namespace tf_malleable

#endif  // TF_MALLEABLE_CC_TIER_SETTINGS_H_
