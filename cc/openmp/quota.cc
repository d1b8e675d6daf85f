// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.

#include "cc/openmp/quota.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

namespace tf_malleable {
namespace openmp {
namespace {

constexpr int kNoQuota = 0;
// Of v1; its period is in another file.
constexpr char kV1[] = "/cpu.cfs_quota_us";
constexpr char kV1Period[] = "/cpu.cfs_period_us";

// Empty if there are none, or before this library's constructor.
char files[8192];

std::atomic<long> fresh_until{0};
std::atomic<int> cpus{kNoQuota};

long Nanoseconds() {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000L + now.tv_nsec;
}

// The environment may change later, also while another thread reads it.
__attribute__((constructor)) void NoteFiles() {
  const char* text = getenv("TF_MALLEABLE_QUOTAS");
  if (text != nullptr && strlen(text) < sizeof files) strcpy(files, text);
}

// Reads the beginning of a file into `text`; returns whether there is any. It
// is opened each time, as programs close all descriptors and use their numbers.
bool ReadFile(const char* path, char (&text)[64]) {
  // What libc's functions for files stand for may be replaced, as by the tier.
  const long file = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  const long length = syscall(SYS_read, file, text, sizeof text - 1);
  syscall(SYS_close, file);
  text[length > 0 ? length : 0] = '\0';
  return length > 0;
}

// Returns the CPUs, rounded up; kNoQuota if a number is not positive, as that
// of v1 without a quota.
int Cpus(long quota, long period) {
  if (quota <= 0 || period <= 0) return kNoQuota;
  const long whole = quota / period + (quota % period != 0);
  return whole < INT_MAX ? static_cast<int>(whole) : INT_MAX;
}

int ReadQuota(const char* path, size_t length) {
  char name[PATH_MAX];
  char text[64];
  if (length >= sizeof name - sizeof kV1Period) return kNoQuota;
  memcpy(name, path, length);
  name[length] = '\0';
  if (!ReadFile(name, text)) return kNoQuota;
  char* end = text;
  const long quota = strtol(text, &end, 10);  // 0 for the word "max".
  const size_t suffix = sizeof kV1 - 1;
  if (length < suffix || strcmp(name + length - suffix, kV1) != 0) {
    return Cpus(quota, strtol(end, nullptr, 10));
  }
  strcpy(name + length - suffix, kV1Period);
  return ReadFile(name, text) ? Cpus(quota, strtol(text, nullptr, 10))
                              : kNoQuota;
}

int ReadSmallest() {
  int smallest = kNoQuota;
  for (const char* path = files; *path != '\0';) {
    const size_t length = strcspn(path, "\n");
    const int found = ReadQuota(path, length);
    if (found != kNoQuota && (smallest == kNoQuota || found < smallest)) {
      smallest = found;
    }
    path += length + (path[length] == '\n');
  }
  return smallest;
}

}  // namespace

int QuotaCpus(int none) {
  if (*files == '\0') return none;
  const long now = Nanoseconds();
  long until = fresh_until.load(std::memory_order_relaxed);
  if (now >= until && fresh_until.compare_exchange_strong(
                          until, now + kFreshQuotaNanoseconds)) {
    const int before = errno;
    cpus.store(ReadSmallest(), std::memory_order_relaxed);
    errno = before;
  }
  const int known = cpus.load(std::memory_order_relaxed);
  return known == kNoQuota ? none : known;
}

}  // namespace openmp
}  // namespace tf_malleable
