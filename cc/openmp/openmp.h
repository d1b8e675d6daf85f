/* Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
 *
 * C ABI of the OpenMP hook, for the Python package in the same process.
 */

#ifndef TF_MALLEABLE_CC_OPENMP_OPENMP_H_
#define TF_MALLEABLE_CC_OPENMP_OPENMP_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Limits the teams of the process to this many threads, from 1; with 0, to the
 * CPUs that it may use. */
void tfm_openmp_set_limit(int threads);

/* Returns the limit of the calling thread, from 1. */
int tfm_openmp_limit(void);

/* Returns the highest limit. */
int tfm_openmp_capacity(void);

/* Returns the number of outermost parallel regions so far of libraries whose
 * class is free or shrink: they have as many for the same work with any number
 * of threads, so that regions a second tell how fast it goes. */
uint64_t tfm_openmp_regions(void);

/* Writes a line "CLASS PATH" for each library that has called OpenMP so far,
 * and for each OpenBLAS or BLIS, with CLASS one of free, shrink, operations,
 * confined; returns the number of bytes, without what does not fit. */
size_t tfm_openmp_callers(char* text, size_t size);

/* For what calls an OpenMP runtime directly, as threadpoolctl does. `handle` is
 * the runtime's, from dlopen().
 *
 * Returns the upper bound of the calling thread's teams; 0 if there is none, -1
 * if they do not follow. */
int tfm_openmp_bound(void* handle);

/* The program has set the runtime's number to `threads`, and `bound` is the
 * upper bound from now on: the same, or if it has restored the number, what it
 * was when that was told. */
void tfm_openmp_set_bound(void* handle, int threads, int bound);

/* The same for an OpenBLAS or BLIS, whose number is that of the process. */
int tfm_blas_bound(void* handle);
void tfm_blas_set_bound(void* handle, int threads, int bound);

#ifdef __cplusplus
}
#endif

#endif /* TF_MALLEABLE_CC_OPENMP_OPENMP_H_ */
