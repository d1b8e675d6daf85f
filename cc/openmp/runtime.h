// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// The OpenMP runtimes of a process, of which wheels bring one each under hashed
// names, and the objects that call them.
//
// Thread-safety: all functions may be called from any thread, and in a forked
// child: nothing here is locked.

#ifndef TF_MALLEABLE_CC_OPENMP_RUNTIME_H_
#define TF_MALLEABLE_CC_OPENMP_RUNTIME_H_

#include <atomic>

namespace tf_malleable {
namespace openmp {

// How a library's teams follow the limit.
enum class Class : int {
  // At once: its regions work with any number of threads, and it has sized what
  // it needs for the capacity.
  kFree,
  // At once downwards; above the number that it has asked for, later.
  kFreeToShrink,
  // From one operation to the next.
  kAtOperations,
  // Not at all: only its CPUs change.
  kConfined,
};

// A runtime's own functions.
struct Runtime {
  int index;       // 0 … kMostRuntimes - 1.
  void* parallel;  // GOMP_parallel, which tells runtimes apart.
  int (*get_max_threads)();
  void (*set_num_threads)(int);
  int (*get_level)();
  int (*get_num_procs)();
  bool is_libgomp;  // Else LLVM's or Intel's.
  // Upper bound that the program has set for all threads; 0 if none.
  std::atomic<int> bound;
};
constexpr int kMostRuntimes = 16;

// Returns the runtime with this handle of dlopen(); null if it is none, or
// there are too many.
Runtime* FindRuntime(void* handle);

// How many forks lie between this process and the first one with a runtime.
unsigned Forks();

// A library or program that calls a runtime.
struct Caller {
  Runtime* runtime;  // Null if there are too many.
  void* handle;      // For functions of the runtime: Find().
  Class how;
  bool is_self;  // This library.
  bool is_torch_python;
  bool is_torch;  // One of its libraries: they also call through each other.
  char path[256];
};
constexpr int kMostCallers = 512;

// Returns the object that has called, by the return address.
const Caller& CallerAt(const void* address);

// Returns the function of the runtime that this object calls; never null.
void* Find(const Caller& caller, const char* name);

// Returns the callers so far: pointers, of which the first null ends the list.
const Caller* const* Callers();

// Returns the class of a library, by its path.
Class ClassOf(const char* path);

}  // namespace openmp
}  // namespace tf_malleable

#endif  // TF_MALLEABLE_CC_OPENMP_RUNTIME_H_
