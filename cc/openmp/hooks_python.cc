// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// Hooks of what tells that a C extension gives up the GIL or takes it back.

#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>

#include <atomic>

#include "cc/openmp/blas.h"
#include "cc/openmp/hook.h"

// musl has none.
extern "C" __attribute__((weak)) decltype(dlvsym) dlvsym;

namespace tf_malleable {
namespace openmp {
namespace {

template <typename Function>
class Real {
 public:
  constexpr Real(const char* name, const char* version)
      : name_(name), version_(version), function_(nullptr) {}

  Function* Get() {
    Function* found = function_.load(std::memory_order_relaxed);
    if (__builtin_expect(found != nullptr, 1)) return found;
    void* next = nullptr;
    if (version_ != nullptr && dlvsym != nullptr) {
      next = dlvsym(RTLD_NEXT, name_, version_);
    }
    if (next == nullptr) next = dlsym(RTLD_NEXT, name_);
    // Nobody calls a function that there is not.
    if (next == nullptr) __builtin_trap();
    found = reinterpret_cast<Function*>(next);
    function_.store(found, std::memory_order_relaxed);
    return found;
  }

 private:
  const char* const name_;
  const char* const version_;
  std::atomic<Function*> function_;
};

using Save = void*();
using Restore = void(void*);
using Signal = int(pthread_cond_t*);

Real<Save> save{"PyEval_SaveThread", nullptr};
Real<Restore> restore{"PyEval_RestoreThread", nullptr};
Real<Signal> signal_cond{"pthread_cond_signal", "GLIBC_2.3.2"};

// CPython's GIL: `cond` is signalled when a thread gives it up, `switch_cond`
// when a thread has it. The first signal of a Python is of the latter, as the
// main thread takes the GIL.
constexpr intptr_t kSwitchOffset =
    sizeof(pthread_cond_t) + sizeof(pthread_mutex_t);
std::atomic<intptr_t> switch_cond{0};

// The program, if it is a Python that is linked statically: extensions then
// call its functions, and no library can come before.
constexpr intptr_t kUnknown = 0;
constexpr intptr_t kNone = 1;
std::atomic<intptr_t> python{kUnknown};

intptr_t BaseOf(const void* address) {
  Dl_info info;
  if (dladdr(address, &info) == 0) return kNone;
  return reinterpret_cast<intptr_t>(info.dli_fbase);
}

__attribute__((noinline)) intptr_t FindPython() {
  const void* first = dlsym(RTLD_DEFAULT, "PyEval_SaveThread");
  const void* own = dlsym(RTLD_NEXT, "PyEval_SaveThread");
  // Found after this library, too, it is in a libpython; else in the program.
  const intptr_t found =
      first == nullptr || own != nullptr ||
              BaseOf(first) == BaseOf(reinterpret_cast<void*>(&FindPython))
          ? kNone
          : BaseOf(first);
  python.store(found, std::memory_order_relaxed);
  return found;
}

__attribute__((noinline)) void NoteSignal(pthread_cond_t* cond, intptr_t base,
                                          void* caller, void* frame) {
  const intptr_t signalled = reinterpret_cast<intptr_t>(cond);
  intptr_t known = switch_cond.load(std::memory_order_relaxed);
  if (known == 0 && BaseOf(caller) == base) {
    switch_cond.compare_exchange_strong(known, signalled);
    known = switch_cond.load(std::memory_order_relaxed);
  }
  const uintptr_t at = reinterpret_cast<uintptr_t>(frame);
  if (signalled == known) {
    thread_state.operation.End(at);
  } else if (signalled == known - kSwitchOffset) {
    thread_state.operation.Begin(at);
    FollowInBlas();
  }
}

}  // namespace

TFM_OPENMP_HOOK(void*, PyEval_SaveThread, ()) {
  thread_state.operation.Begin(
      reinterpret_cast<uintptr_t>(__builtin_frame_address(0)));
  FollowInBlas();
  return save.Get()();
}

TFM_OPENMP_HOOK(void, PyEval_RestoreThread, (void* thread)) {
  restore.Get()(thread);
  thread_state.operation.End(
      reinterpret_cast<uintptr_t>(__builtin_frame_address(0)));
}

TFM_OPENMP_HOOK(int, pthread_cond_signal, (pthread_cond_t * cond)) {
  intptr_t base = python.load(std::memory_order_relaxed);
  if (__builtin_expect(base == kUnknown, 0)) base = FindPython();
  if (base != kNone) {
    NoteSignal(cond, base, __builtin_return_address(0),
               __builtin_frame_address(0));
  }
  return signal_cond.Get()(cond);
}

}  // namespace openmp
}  // namespace tf_malleable
