// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// A slow shared file system to measure against: passes a folder through FUSE, with a limit of
// its bandwidth, a latency of each request, and counters of what was asked.
//
//   slow_source FOLDER COUNTERS MOUNT [FUSE options]
//
// COUNTERS is a file of 64-bit numbers that is mapped, so reading it costs the source nothing:
// written by us: bytes read, reads, opens, other requests; read by us: bytes a second (0 for no
// limit), nanoseconds of latency. Several mounts with the same one share the bandwidth, as nodes
// do, but not the kernel's cache.

#define FUSE_USE_VERSION 312
#define _GNU_SOURCE

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse3/fuse.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

struct counters {
  uint64_t bytes, reads, opens, metadata;
  uint64_t rate, latency_ns;
  uint64_t free_at;  // When the bandwidth is free again, by CLOCK_MONOTONIC in nanoseconds.
};

static struct counters* counters;
static char folder[PATH_MAX];

static uint64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void sleep_until(uint64_t at) {
  struct timespec t = {(time_t)(at / 1000000000u), (long)(at % 1000000000u)};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR) {
  }
}

// Waits for the latency, and for its turn with these bytes.
static void serve(uint64_t* counter, uint64_t bytes) {
  __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
  uint64_t until = now() + __atomic_load_n(&counters->latency_ns, __ATOMIC_RELAXED);
  const uint64_t rate = __atomic_load_n(&counters->rate, __ATOMIC_RELAXED);
  if (bytes != 0) {
    __atomic_fetch_add(&counters->bytes, bytes, __ATOMIC_RELAXED);
    if (rate != 0) {
      uint64_t before = __atomic_load_n(&counters->free_at, __ATOMIC_RELAXED);
      uint64_t after;
      do {
        const uint64_t here = now();
        after = (before > here ? before : here) + bytes * 1000000000u / rate;
      } while (!__atomic_compare_exchange_n(&counters->free_at, &before, after, 0,
                                            __ATOMIC_RELAXED, __ATOMIC_RELAXED));
      if (after > until) until = after;
    }
  }
  sleep_until(until);
}

static const char* real(const char* path, char* room) {
  if (snprintf(room, PATH_MAX, "%s%s", folder, path) >= PATH_MAX) room[0] = '\0';
  return room;
}

static int source_getattr(const char* path, struct stat* about, struct fuse_file_info* info) {
  char room[PATH_MAX];
  (void)info;
  serve(&counters->metadata, 0);
  return lstat(real(path, room), about) == 0 ? 0 : -errno;
}

static int source_readlink(const char* path, char* to, size_t size) {
  char room[PATH_MAX];
  serve(&counters->metadata, 0);
  const ssize_t length = readlink(real(path, room), to, size - 1);
  if (length < 0) return -errno;
  to[length] = '\0';
  return 0;
}

static int source_readdir(const char* path, void* to, fuse_fill_dir_t fill, off_t offset,
                          struct fuse_file_info* info, enum fuse_readdir_flags flags) {
  char room[PATH_MAX];
  (void)offset, (void)info, (void)flags;
  serve(&counters->metadata, 0);
  DIR* open_folder = opendir(real(path, room));
  if (open_folder == NULL) return -errno;
  const struct dirent* entry;
  while ((entry = readdir(open_folder)) != NULL) {
    const struct stat about = {.st_ino = entry->d_ino, .st_mode = DTTOIF(entry->d_type)};
    if (fill(to, entry->d_name, &about, 0, 0) != 0) break;
  }
  closedir(open_folder);
  return 0;
}

static int source_open(const char* path, struct fuse_file_info* info) {
  char room[PATH_MAX];
  serve(&counters->opens, 0);
  if ((info->flags & O_ACCMODE) != O_RDONLY) return -EROFS;
  const int descriptor = open(real(path, room), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return -errno;
  // The disk below is to be as fast in each arm.
  info->fh = (uint64_t)descriptor;
  return 0;
}

static int source_read(const char* path, char* to, size_t size, off_t offset,
                       struct fuse_file_info* info) {
  (void)path;
  const ssize_t got = pread((int)info->fh, to, size, offset);
  const int error = errno;
  serve(&counters->reads, got > 0 ? (uint64_t)got : 0);
  return got < 0 ? -error : (int)got;
}

static int source_release(const char* path, struct fuse_file_info* info) {
  (void)path;
  close((int)info->fh);
  return 0;
}

static int source_statfs(const char* path, struct statvfs* about) {
  char room[PATH_MAX];
  return statvfs(real(path, room), about) == 0 ? 0 : -errno;
}

static void* source_init(struct fuse_conn_info* connection, struct fuse_config* config) {
  (void)connection;
  config->use_ino = 1;  // As a shared file system: a file has one number on all nodes.
  config->kernel_cache = 0;
  return NULL;
}

static const struct fuse_operations operations = {
    .init = source_init,
    .getattr = source_getattr,
    .readlink = source_readlink,
    .readdir = source_readdir,
    .open = source_open,
    .read = source_read,
    .release = source_release,
    .statfs = source_statfs,
};

int main(int argc, char** argv) {
  if (argc < 4 || realpath(argv[1], folder) == NULL) {
    fprintf(stderr, "usage: slow_source FOLDER COUNTERS MOUNT [FUSE options]\n");
    return 2;
  }
  const int file = open(argv[2], O_RDWR | O_CLOEXEC);
  if (file < 0 || ftruncate(file, sizeof *counters) != 0) {
    perror(argv[2]);
    return 1;
  }
  counters = mmap(NULL, sizeof *counters, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (counters == MAP_FAILED) {
    perror("mmap");
    return 1;
  }
  // Of 10 threads, all would soon wait for bandwidth, and metadata behind them.
  char* options[64] = {argv[0], argv[3], "-f", "-o", "max_threads=64,allow_other,default_permissions"};
  int count = 5;
  for (int i = 4; i < argc && count < 64; i++) options[count++] = argv[i];
  return fuse_main(count, options, &operations, NULL);
}
