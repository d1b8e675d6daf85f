// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.

#include "cc/tier/identity.h"

#include <string.h>
#include <sys/sysmacros.h>

namespace tf_malleable {
namespace tier {
namespace {

void SetTime(int64_t seconds, uint32_t ns, struct statx_timestamp* time) {
  time->tv_sec = seconds;
  time->tv_nsec = ns;
}

void SetTime(int64_t seconds, uint32_t ns, struct timespec* time) {
  time->tv_sec = seconds;
  time->tv_nsec = ns;
}

}  // namespace

uint64_t DeviceOf(const struct statx& status) {
  return makedev(status.stx_dev_major, status.stx_dev_minor);
}

Identity IdentityOf(const struct statx& status) {
  Identity identity;
  memset(&identity, 0, sizeof(identity));
  identity.magic = kIdentityMagic;
  identity.version = kVersion;
  identity.device = DeviceOf(status);
  identity.inode = status.stx_ino;
  identity.size = static_cast<int64_t>(status.stx_size);
  identity.mtime_s = status.stx_mtime.tv_sec;
  identity.ctime_s = status.stx_ctime.tv_sec;
  identity.atime_s = status.stx_atime.tv_sec;
  identity.mtime_ns = status.stx_mtime.tv_nsec;
  identity.ctime_ns = status.stx_ctime.tv_nsec;
  identity.atime_ns = status.stx_atime.tv_nsec;
  if (status.stx_mask & STATX_BTIME) {
    identity.btime_s = status.stx_btime.tv_sec;
    identity.btime_ns = status.stx_btime.tv_nsec;
  }
  identity.mode = status.stx_mode;
  identity.uid = status.stx_uid;
  identity.gid = status.stx_gid;
  identity.links = status.stx_nlink;
  identity.blocks = static_cast<int64_t>(status.stx_blocks);
  identity.block_size = status.stx_blksize;
  identity.special_device =
      makedev(status.stx_rdev_major, status.stx_rdev_minor);
  return identity;
}

bool IsIdentity(const Identity& identity, ssize_t size) {
  return size == sizeof(identity) && identity.magic == kIdentityMagic &&
         identity.version == kVersion;
}

bool IsSameVersion(const Identity& identity, const struct statx& status) {
  return status.stx_ino == identity.inode &&
         status.stx_size == static_cast<uint64_t>(identity.size) &&
         status.stx_mtime.tv_sec == identity.mtime_s &&
         status.stx_mtime.tv_nsec == identity.mtime_ns &&
         status.stx_ctime.tv_sec == identity.ctime_s &&
         status.stx_ctime.tv_nsec == identity.ctime_ns;
}

int64_t VersionStampOf(const struct statx& status) {
  return VersionStamp(status.stx_ino, static_cast<int64_t>(status.stx_size),
                      status.stx_mtime.tv_sec, status.stx_mtime.tv_nsec,
                      status.stx_ctime.tv_sec, status.stx_ctime.tv_nsec);
}

void FillStatus(const Identity& identity, struct stat* status) {
  memset(status, 0, sizeof(*status));
  status->st_dev = identity.device;
  status->st_ino = identity.inode;
  status->st_mode = identity.mode;
  status->st_nlink = identity.links;
  status->st_uid = identity.uid;
  status->st_gid = identity.gid;
  status->st_rdev = identity.special_device;
  status->st_size = identity.size;
  status->st_blksize = static_cast<blksize_t>(identity.block_size);
  status->st_blocks = identity.blocks;
  SetTime(identity.atime_s, identity.atime_ns, &status->st_atim);
  SetTime(identity.mtime_s, identity.mtime_ns, &status->st_mtim);
  SetTime(identity.ctime_s, identity.ctime_ns, &status->st_ctim);
}

void FillStatus(const Identity& identity, struct statx* status) {
  memset(status, 0, sizeof(*status));
  status->stx_mask = STATX_BASIC_STATS;
  status->stx_dev_major = major(identity.device);
  status->stx_dev_minor = minor(identity.device);
  status->stx_ino = identity.inode;
  status->stx_mode = static_cast<uint16_t>(identity.mode);
  status->stx_nlink = identity.links;
  status->stx_uid = identity.uid;
  status->stx_gid = identity.gid;
  status->stx_rdev_major = major(identity.special_device);
  status->stx_rdev_minor = minor(identity.special_device);
  status->stx_size = static_cast<uint64_t>(identity.size);
  status->stx_blksize = static_cast<uint32_t>(identity.block_size);
  status->stx_blocks = static_cast<uint64_t>(identity.blocks);
  SetTime(identity.atime_s, identity.atime_ns, &status->stx_atime);
  SetTime(identity.mtime_s, identity.mtime_ns, &status->stx_mtime);
  SetTime(identity.ctime_s, identity.ctime_ns, &status->stx_ctime);
  if (identity.btime_s != 0) {
    status->stx_mask |= STATX_BTIME;
    SetTime(identity.btime_s, identity.btime_ns, &status->stx_btime);
  }
}

}  // namespace tier
}  // namespace tf_malleable
