// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// OpenBLAS, which NumPy's and SciPy's wheels bring, each its own, and BLIS:
// they have threads of their own, and one number of them for the whole process.
//
// Thread-safety: all functions may be called from any thread, and in a forked
// child. They take no lock of the loader that is held while a library's
// constructors run, so the caller may hold the GIL or its mutex.

#ifndef TF_MALLEABLE_CC_OPENMP_BLAS_H_
#define TF_MALLEABLE_CC_OPENMP_BLAS_H_

namespace tf_malleable {
namespace openmp {

// Lets the number of threads of each such library of the process follow the
// limit. What the program itself sets is an upper bound. Called where an
// operation begins; has an effect at most every kFreshNanoseconds.
void FollowInBlas();

// Has the next operation follow, however soon it begins.
void FollowInBlasSoon();

constexpr int kMostBlas = 8;

// Path of a library that follows; null beyond the last.
const char* BlasPath(int index);

}  // namespace openmp
}  // namespace tf_malleable

#endif  // TF_MALLEABLE_CC_OPENMP_BLAS_H_
