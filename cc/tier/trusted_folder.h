// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// Folders that nobody but root and this user can change or replace. The rules,
// and why they suffice, are in tf_malleable/linux/trusted_folder.py.

#ifndef TF_MALLEABLE_CC_TIER_TRUSTED_FOLDER_H_
#define TF_MALLEABLE_CC_TIER_TRUSTED_FOLDER_H_

namespace tf_malleable {
namespace tier {

// Opens a folder with O_PATH; returns -1 if there is none, if a user other than
// root and `uid` could change or replace it, or if a symbolic link is on the
// way. `path` must be absolute and normal.
//
// Thread-safety: may be called from any thread.
int OpenTrustedFolder(const char* path, unsigned uid);

}  // namespace tier
}  // namespace tf_malleable

#endif  // TF_MALLEABLE_CC_TIER_TRUSTED_FOLDER_H_
