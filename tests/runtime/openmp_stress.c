// Computes in four threads and in forked children while the limit changes at random; prints, as
// JSON, what was wrong. Usage: openmp_stress CHANGES SEED
#define _GNU_SOURCE
#include <dlfcn.h>
#include <omp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4, MOST = 8, LENGTH = 4096, CHANGES_A_FORK = 200, SECONDS_OF_A_CHILD = 90 };

static int numbers[LENGTH];
static long total;
static atomic_bool is_over;
static atomic_long wrong, hung, regions, teams_of[MOST + 1];

// The sum of a team's shares, as planned for so many threads: too low if there are fewer.
static long sum_of_shares(int planned, int asked) {
  long sums[MOST] = {0}, sum = 0;
  if (asked > 0) {
#pragma omp parallel num_threads(asked)
    for (int i = omp_get_thread_num(); i < LENGTH; i += planned)
      sums[omp_get_thread_num()] += numbers[i];
  } else {
#pragma omp parallel
    for (int i = omp_get_thread_num(); i < LENGTH; i += planned)
      sums[omp_get_thread_num()] += numbers[i];
  }
  for (int i = 0; i < MOST; ++i) sum += sums[i];
  return sum;
}

static long sum_of_team(void) {
  long sum = 0;
#pragma omp parallel reduction(+ : sum)
  {
    const int team = omp_get_num_threads();
#pragma omp master
    ++teams_of[team];
    for (int i = omp_get_thread_num(); i < LENGTH; i += team) sum += numbers[i];
  }
  return sum;
}

static long sum_of_loop(void) {
  long sum = 0;
#pragma omp parallel for schedule(dynamic, 64) reduction(+ : sum)
  for (int i = 0; i < LENGTH; ++i) sum += numbers[i];
  return sum;
}

static void check(long sum) {
  ++regions;
  if (sum != total) ++wrong;
}

static void compute(unsigned* seed) {
  check(sum_of_team());
  check(sum_of_loop());
  const int asked = 1 + rand_r(seed) % MOST;
  check(sum_of_shares(asked, asked));
}

static void* compute_until_over(void* number) {
  const long self = (long)number;
  unsigned seed = self;
  while (!is_over) {
    compute(&seed);
    // Two of the four plan for the number that they are told, and so keep it.
    if (self % 2 == 0) {
      const int told = omp_get_max_threads();
      for (int region = 0; region < 3; ++region) check(sum_of_shares(told, 0));
      check(sum_of_shares(told, told));
    }
  }
  return NULL;
}

static void compute_in_child(void) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(SECONDS_OF_A_CHILD);
    wrong = 0;
    check(sum_of_team());
    check(sum_of_loop());
    _exit(wrong);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status))
    wrong += WEXITSTATUS(status);
  else
    ++hung;
}

int main(int count, char** arguments) {
  if (count != 3) return 2;
  const int changes = atoi(arguments[1]);
  unsigned seed = atoi(arguments[2]);
  void (*limit)(int) = (void (*)(int))dlsym(RTLD_DEFAULT, "tfm_openmp_set_limit");
  for (int i = 0; i < LENGTH; ++i) total += numbers[i] = rand_r(&seed) % 1000;
  pthread_t threads[THREADS];
  for (long i = 0; i < THREADS; ++i)
    pthread_create(&threads[i], NULL, compute_until_over, (void*)i);
  int forks = 0;
  for (int i = 0; i < changes; ++i) {
    limit(1 + rand_r(&seed) % MOST);
    usleep(rand_r(&seed) % 300);
    if (i % CHANGES_A_FORK == 0) {
      check(sum_of_team());
      compute_in_child();
      ++forks;
    }
  }
  is_over = 1;
  for (int i = 0; i < THREADS; ++i) pthread_join(threads[i], NULL);
  int sizes = 0;
  for (int i = 1; i <= MOST; ++i) sizes += teams_of[i] > 0;
  printf(
      "{\"changes\": %d, \"regions\": %ld, \"forks\": %d, \"sizes\": %d, \"wrong\": %ld, "
      "\"hung\": %ld}\n",
      changes, (long)regions, forks, sizes, (long)wrong, (long)hung);
  return 0;
}
