// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// Times what a program does to files, in ns each: the least of many batches, as
// everything else on the machine only makes them longer.
//
// Usage: overhead open|read|stream|stat FILE ROUNDS
//   open    open() and close()
//   read    pread() of one byte
//   stream  read() of the whole file in pieces of 256 KiB; ns for each MiB
//   stat    stat()

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1e9 + time.tv_nsec;
}

static void fail(const char* what) {
  perror(what);
  exit(1);
}

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const char* what = argv[1];
  const char* path = argv[2];
  const int rounds = atoi(argv[3]);
  static char data[256 << 10];
  double least = 1e18;
  struct stat status;
  const int file = open(path, O_RDONLY);
  if (file < 0 || fstat(file, &status) != 0) fail(path);
  for (int round = 0; round < rounds; ++round) {
    double each = 1000;
    const double begin = now();
    if (strcmp(what, "open") == 0) {
      for (int i = 0; i < 1000; ++i) {
        const int fd = open(path, O_RDONLY);
        if (fd < 0) fail(path);
        close(fd);
      }
    } else if (strcmp(what, "read") == 0) {
      for (int i = 0; i < 1000; ++i) {
        if (pread(file, data, 1, 0) != 1) fail(path);
      }
    } else if (strcmp(what, "stat") == 0) {
      for (int i = 0; i < 1000; ++i) {
        if (stat(path, &status) != 0) fail(path);
      }
    } else {
      each = (double)status.st_size / (1 << 20);
      if (lseek(file, 0, SEEK_SET) != 0) fail(path);
      ssize_t got;
      while ((got = read(file, data, sizeof(data))) > 0) {
      }
      if (got < 0) fail(path);
    }
    const double took = (now() - begin) / each;
    if (took < least) least = took;
  }
  printf("%.1f\n", least);
  return 0;
}
