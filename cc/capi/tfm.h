/* Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
 *
 * The C ABI of tf_malleable: how many threads TensorFlow may use in this
 * process. Both the overlay and a TensorFlow built with the patches export it.
 *
 * Every function may be called from any thread at any time; none throws, and
 * none calls back. Functions return one of the TFM_ codes: 0 or above for
 * success, below 0 if the call was refused and nothing has changed.
 */

#ifndef TF_MALLEABLE_CC_CAPI_TFM_H_
#define TF_MALLEABLE_CC_CAPI_TFM_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Increased when programs built against an older header would break. */
#define TFM_ABI_VERSION 1

enum {
  TFM_SUCCESS = 0,      /* Done. */
  TFM_NO_CHANGE = 1,    /* Accepted, but the limits were the same already. */
  TFM_TIMED_OUT = 2,    /* Not settled within the timeout. */
  TFM_ERR_RANGE = -1,   /* A limit below 1 or above the capacity. */
  TFM_ERR_NO_POOL = -2, /* No live pool has this id. */
  TFM_ERR_ARGUMENT = -3 /* A null pointer, or a struct of the wrong size. */
};

/* For tfm_set_threads. */
enum {
  TFM_KEEP = -1, /* Leave this limit unchanged. */
  TFM_UNSET = 0  /* Back to the number TensorFlow was started with. */
};

/* Numbers of threads; 0 means "none". */
typedef struct tfm_threads {
  uint32_t size;     /* In: sizeof(tfm_threads). */
  int32_t intra;     /* Intra-op limit in force; 0 before there is a pool or a
                        limit. */
  int32_t inter;     /* The same for inter-op. */
  int32_t intra_set; /* Limit set by tfm_set_threads; 0 if none is set. */
  int32_t inter_set;
  int32_t intra_max; /* The highest limit tfm_set_threads accepts. */
  int32_t inter_max;
} tfm_threads;

enum { TFM_INTRA_OP = 0, TFM_INTER_OP = 1, TFM_OTHER = 2 };

/* One thread pool at one instant. */
typedef struct tfm_pool {
  uint32_t size;    /* In, first element: sizeof(tfm_pool). */
  int32_t kind;     /* TFM_INTRA_OP, TFM_INTER_OP or TFM_OTHER. */
  uint64_t id;      /* Never reused in a process. */
  char name[64];    /* Name of its threads; truncated if longer. */
  int32_t capacity; /* Worker threads it can have. */
  int32_t limit;    /* How many of them may run tasks; 1 … capacity. */
  int32_t active;   /* Workers running a task. */
  int32_t reserved;
  uint64_t queued;     /* Tasks waiting. */
  uint64_t tasks;      /* Tasks run. */
  uint64_t stand_ins;  /* Of these, run above the limit because all admitted
                          workers were asleep in a task. */
  double busy_seconds; /* Time spent in tasks, summed over workers. */
} tfm_pool;

/* TFM_ABI_VERSION of the library. */
int tfm_abi_version(void);

/* "overlay" or "patched". */
const char* tfm_backend(void);

/* The TensorFlow the library was built against, for example "2.21.0". */
const char* tfm_tensorflow_version(void);

/* Sets the intra-op and inter-op limits of all pools, present and future; pools
 * that are neither follow the intra-op limit. If a pool's capacity is lower
 * than the limit, its limit is its capacity. Each argument is a limit, TFM_KEEP
 * or TFM_UNSET. Does not wait for running tasks; see tfm_wait_settled.
 * Returns TFM_SUCCESS, TFM_NO_CHANGE or TFM_ERR_RANGE. */
int tfm_set_threads(int intra, int inter);

/* Returns TFM_SUCCESS or TFM_ERR_ARGUMENT. */
int tfm_get_threads(tfm_threads* threads);

/* Sets the limit of one pool until the next tfm_set_threads for its kind.
 * Returns TFM_SUCCESS, TFM_NO_CHANGE, TFM_ERR_RANGE or TFM_ERR_NO_POOL. */
int tfm_set_pool_threads(uint64_t id, int limit);

/* Writes the first `room` live pools to `pools`, in the order they were built,
 * and the number of live pools to `*count`, which may be higher.
 * Returns TFM_SUCCESS or TFM_ERR_ARGUMENT. */
int tfm_get_pools(tfm_pool* pools, int room, int* count);

/* Blocks until no pool runs more workers than its limit, for at most `timeout`
 * seconds. Returns TFM_SUCCESS, TFM_TIMED_OUT or TFM_ERR_ARGUMENT. */
int tfm_wait_settled(double timeout);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* TF_MALLEABLE_CC_CAPI_TFM_H_ */
