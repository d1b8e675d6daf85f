// Prints the size of a team for each line of stdin: "0" for a region of the default size, "N" for
// one of N threads, "many" for one that shares more variables than there are registers, "ask" for
// omp_get_max_threads(), "procs" for omp_get_num_procs(), "set N" for omp_set_num_threads(N), these
// three with "fortran " before them as a Fortran program calls them, "limit N" for a limit that the
// process itself sets, "nest" for the largest team inside a region of two, and "fork LINE" for what
// a forked child answers to the line.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int team(int asked) {
  int size = 0;
  if (asked > 0) {
#pragma omp parallel num_threads(asked)
#pragma omp master
    size = omp_get_num_threads();
  } else {
#pragma omp parallel
#pragma omp master
    size = omp_get_num_threads();
  }
  return size;
}

static int nest(void) {
  int largest = 0;
#pragma omp parallel num_threads(2) reduction(max : largest)
  {
    int size = 0;
#pragma omp parallel
#pragma omp master
    size = omp_get_num_threads();
    largest = size;
  }
  return largest;
}

static int many(void) {
  int a = 1, b = 2, c = 3, d = 4, e = 5, f = 6, g = 7, h = 8, i = 9, j = 10, size = 0;
#pragma omp parallel
#pragma omp master
  {
    const int sum = a++ + b++ + c++ + d++ + e++ + f++ + g++ + h++ + i++ + j++;
    size = sum == 55 ? omp_get_num_threads() : -1;
  }
  return a + b + c + d + e + f + g + h + i + j == 65 ? size : -1;
}

int omp_get_max_threads_(void);
int omp_get_num_procs_(void);
void omp_set_num_threads_(const int* threads);

static int fortran(const char* line) {
  if (strncmp(line, "ask", 3) == 0) return omp_get_max_threads_();
  if (strncmp(line, "procs", 5) == 0) return omp_get_num_procs_();
  const int threads = atoi(line + 4);
  omp_set_num_threads_(&threads);
  return 0;
}

static int answer(const char* line) {
  if (strncmp(line, "fortran ", 8) == 0) return fortran(line + 8);
  if (strncmp(line, "many", 4) == 0) return many();
  if (strncmp(line, "limit ", 6) == 0) {
    void (*limit)(int) = (void (*)(int))dlsym(RTLD_DEFAULT, "tfm_openmp_set_limit");
    limit(atoi(line + 6));
    return 0;
  }
  if (strncmp(line, "ask", 3) == 0) return omp_get_max_threads();
  if (strncmp(line, "procs", 5) == 0) return omp_get_num_procs();
  if (strncmp(line, "nest", 4) == 0) return nest();
  if (strncmp(line, "set ", 4) == 0) {
    omp_set_num_threads(atoi(line + 4));
    return 0;
  }
  if (strncmp(line, "fork ", 5) == 0) {
    const pid_t child = fork();
    if (child == 0) _exit(answer(line + 5));
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  return team(atoi(line));
}

int main(void) {
  char line[64];
  while (fgets(line, sizeof line, stdin) != NULL) {
    printf("%d\n", answer(line));
    fflush(stdout);
  }
  return 0;
}
