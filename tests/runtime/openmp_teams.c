// Prints the size of a team for each line of stdin: "0" for a region of the default size, "N" for
// one of N threads, "ask" for omp_get_max_threads(), "procs" for omp_get_num_procs(), "set N" for
// omp_set_num_threads(N), "nest" for the largest team inside a region of two, and "fork LINE" for
// what a forked child answers to the line.
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

static int answer(const char* line) {
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
