// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// Hooks of what programs compiled by GCC call of libgomp, and those compiled by
// Clang of LLVM's or Intel's runtime, which exports the same functions, too.

#include <stdint.h>

#include <atomic>
#include <cstdint>

#include "cc/openmp/hook.h"
#include "cc/openmp/limit.h"
#include "cc/openmp/openmp.h"

namespace tf_malleable {
namespace openmp {

thread_local ThreadState thread_state;

namespace {

// Whether the threads of a runtime are left to the kernel.
bool AreFree(const Runtime& runtime) {
  return !IsPlaced() && (runtime.is_libgomp || !IsPlacedByKmp());
}

}  // namespace

bool CanFollow(const Caller& caller) {
  return caller.runtime != nullptr && caller.how != Class::kConfined &&
         AreFree(*caller.runtime);
}

namespace {

int Min(int a, int b) { return a < b ? a : b; }

// Whether teams of this caller are to follow the limit here. Inside a region
// they have the number that its team has inherited.
bool IsFollowing(const Caller& caller) {
  return CanFollow(caller) && caller.runtime->get_level() == 0;
}

int BoundOf(const Runtime& runtime) {
  const int bound = runtime.bound.load(std::memory_order_relaxed);
  return bound > 0 ? bound : UserBound();
}

// Limit of the calling thread's teams. A team of libgomp waits for ever for the
// threads of the last one, which a forked child has lost.
int LimitOf(const Runtime& runtime) {
  const unsigned then = thread_state.forks_at_team[runtime.index];
  const bool has_lost_threads =
      runtime.is_libgomp && then != 0 && then != 1 + Forks();
  return has_lost_threads ? 1 : Limit();
}

// Lets the runtime's number for this thread follow the limit; returns it.
int Adopt(Runtime* runtime) {
  const int current = runtime->get_max_threads();
  const Operation& operation = thread_state.operation;
  const int number = thread_state.latches[runtime->index].Adopt(
      current, operation.number(), LimitOf(*runtime), BoundOf(*runtime),
      operation.has_gil());
  if (number != current) runtime->set_num_threads(number);
  return number;
}

// Returns the size of a team to ask the runtime for: `asked` or less; 0 for the
// runtime's number.
unsigned Team(const Caller& caller, unsigned asked) {
  if (!IsFollowing(caller)) return asked;
  Runtime* runtime = caller.runtime;
  const int limit = LimitOf(*runtime);
  unsigned team = asked;
  if (caller.how == Class::kFree) {
    const int most = asked > 0 && asked < INT32_MAX ? asked : BoundOf(*runtime);
    team = Min(most, limit);
  } else if (asked == 0) {
    if (Adopt(runtime) == 1) return asked;
  } else {
    Adopt(runtime);
    const bool is_cut = caller.how == Class::kFreeToShrink &&
                        asked > static_cast<unsigned>(limit);
    if (is_cut) team = limit;
  }
  if (team != 1) thread_state.forks_at_team[runtime->index] = 1 + Forks();
  return team;
}

std::atomic<std::uint64_t> regions{0};

void EndRegion(const Caller& caller) {
  if (caller.runtime != nullptr && caller.runtime->get_level() == 0) {
    thread_state.operation.EndRegion();
    // Others leave regions out, or have more of them, with fewer threads.
    if (caller.how == Class::kFree || caller.how == Class::kFreeToShrink) {
      regions.fetch_add(1, std::memory_order_relaxed);
    }
  }
}

const Caller& CallerOf(const void* address) {
  const Caller& found = CallerAt(address);
  const Caller* torch = thread_state.torch_caller;
  return found.is_self && torch != nullptr ? *torch : found;
}

using Body = void (*)(void*);

}  // namespace

TFM_OPENMP_HOOK(void, GOMP_parallel,
                (Body body, void* data, unsigned threads, unsigned flags)) {
  const Caller& caller = CallerOf(__builtin_return_address(0));
  auto* real = reinterpret_cast<void (*)(Body, void*, unsigned, unsigned)>(
      caller.runtime != nullptr ? caller.runtime->parallel
                                : Find(caller, "GOMP_parallel"));
  real(body, data, Team(caller, threads), flags);
  EndRegion(caller);
}

// Regions that are one loop. Wheels of today have none: compilers since GCC 9
// split the loop from its region, unless they optimise for size.
#define TFM_PARALLEL_LOOP(name)                                              \
  TFM_OPENMP_HOOK(void, name,                                                \
                  (Body body, void* data, unsigned threads, long start,      \
                   long end, long step, long chunk, unsigned flags)) {       \
    const Caller& caller = CallerOf(__builtin_return_address(0));            \
    auto* real =                                                             \
        reinterpret_cast<void (*)(Body, void*, unsigned, long, long, long,   \
                                  long, unsigned)>(Find(caller, #name));     \
    real(body, data, Team(caller, threads), start, end, step, chunk, flags); \
    EndRegion(caller);                                                       \
  }
TFM_PARALLEL_LOOP(GOMP_parallel_loop_static)
TFM_PARALLEL_LOOP(GOMP_parallel_loop_dynamic)
TFM_PARALLEL_LOOP(GOMP_parallel_loop_guided)
TFM_PARALLEL_LOOP(GOMP_parallel_loop_nonmonotonic_dynamic)
TFM_PARALLEL_LOOP(GOMP_parallel_loop_nonmonotonic_guided)
#undef TFM_PARALLEL_LOOP

#define TFM_PARALLEL_RUNTIME_LOOP(name)                                    \
  TFM_OPENMP_HOOK(void, name,                                              \
                  (Body body, void* data, unsigned threads, long start,    \
                   long end, long step, unsigned flags)) {                 \
    const Caller& caller = CallerOf(__builtin_return_address(0));          \
    auto* real =                                                           \
        reinterpret_cast<void (*)(Body, void*, unsigned, long, long, long, \
                                  unsigned)>(Find(caller, #name));         \
    real(body, data, Team(caller, threads), start, end, step, flags);      \
    EndRegion(caller);                                                     \
  }
TFM_PARALLEL_RUNTIME_LOOP(GOMP_parallel_loop_runtime)
TFM_PARALLEL_RUNTIME_LOOP(GOMP_parallel_loop_nonmonotonic_runtime)
TFM_PARALLEL_RUNTIME_LOOP(GOMP_parallel_loop_maybe_nonmonotonic_runtime)
#undef TFM_PARALLEL_RUNTIME_LOOP

TFM_OPENMP_HOOK(void, GOMP_parallel_sections,
                (Body body, void* data, unsigned threads, unsigned count,
                 unsigned flags)) {
  const Caller& caller = CallerOf(__builtin_return_address(0));
  auto* real =
      reinterpret_cast<void (*)(Body, void*, unsigned, unsigned, unsigned)>(
          Find(caller, "GOMP_parallel_sections"));
  real(body, data, Team(caller, threads), count, flags);
  EndRegion(caller);
}

TFM_OPENMP_HOOK(unsigned, GOMP_parallel_reductions,
                (Body body, void* data, unsigned threads, unsigned flags)) {
  const Caller& caller = CallerOf(__builtin_return_address(0));
  auto* real = reinterpret_cast<unsigned (*)(Body, void*, unsigned, unsigned)>(
      Find(caller, "GOMP_parallel_reductions"));
  const unsigned team = real(body, data, Team(caller, threads), flags);
  EndRegion(caller);
  return team;
}

// Called by __kmpc_fork_call with the address that this returns to; returns the
// runtime's function, which goes on with the arguments.
extern "C" __attribute__((used)) void* tfm_openmp_begin_fork_call(
    const void* address) {
  const Caller& caller = CallerOf(address);
  // Nothing can be done after the call, and so the last region ends here.
  EndRegion(caller);
  Team(caller, 0);
  return Find(caller, "__kmpc_fork_call");
}

// Regions of programs compiled by Clang or Intel's compilers. The function has
// any number of arguments; a number of threads has been given by another call,
// and is not cut.
#ifdef __x86_64__
__asm__(R"(
  .pushsection .text
  .globl __kmpc_fork_call
  .type __kmpc_fork_call, @function
__kmpc_fork_call:
  .cfi_startproc
  endbr64
  push %rbp
  .cfi_def_cfa_offset 16
  .cfi_offset %rbp, -16
  mov %rsp, %rbp
  .cfi_def_cfa_register %rbp
  push %rdi
  push %rsi
  push %rdx
  push %rcx
  push %r8
  push %r9
  push %rax
  sub $8, %rsp
  mov 8(%rbp), %rdi
  call tfm_openmp_begin_fork_call
  mov %rax, %r11
  add $8, %rsp
  pop %rax
  pop %r9
  pop %r8
  pop %rcx
  pop %rdx
  pop %rsi
  pop %rdi
  pop %rbp
  .cfi_def_cfa %rsp, 8
  jmp *%r11
  .cfi_endproc
  .size __kmpc_fork_call, . - __kmpc_fork_call
  .popsection
)");
#endif

// The same for a region with a condition.
TFM_OPENMP_HOOK(void, __kmpc_fork_call_if,
                (void* location, int count, void* body, int condition,
                 void* arguments)) {
  const Caller& caller = CallerOf(__builtin_return_address(0));
  auto* real = reinterpret_cast<void (*)(void*, int, void*, int, void*)>(
      Find(caller, "__kmpc_fork_call_if"));
  Team(caller, 0);
  real(location, count, body, condition, arguments);
  EndRegion(caller);
}

namespace {

int MaxThreads(const Caller& caller) {
  if (!IsFollowing(caller)) {
    return reinterpret_cast<int (*)()>(Find(caller, "omp_get_max_threads"))();
  }
  if (caller.how == Class::kFree) return BoundOf(*caller.runtime);
  const int number = Adopt(caller.runtime);
  thread_state.latches[caller.runtime->index].Ask();
  return number;
}

int NumProcs(const Caller& caller) {
  auto* real = reinterpret_cast<int (*)()>(Find(caller, "omp_get_num_procs"));
  if (!IsFollowing(caller)) return real();
  ThreadState& state = thread_state;
  const bool is_new = state.procs_operation != state.operation.number();
  if (state.procs == 0 || (is_new && state.operation.has_gil())) {
    state.procs = Min(real(), ToldCpus());
    state.procs_operation = state.operation.number();
  }
  return state.procs;
}

void SetNumThreads(const Caller& caller, int threads) {
  auto* real =
      reinterpret_cast<void (*)(int)>(Find(caller, "omp_set_num_threads"));
  real(threads);
  if (threads < 1 || !IsFollowing(caller)) return;
  ThreadState& state = thread_state;
  Latch& latch = state.latches[caller.runtime->index];
  // torch sets what MKL recommends, the number of cores that it has found:
  // a bound only if it could see all of them.
  const bool is_recommended = caller.is_torch && !state.is_in_torch;
  if (is_recommended && AllowedCpus() < Capacity()) {
    latch.SetByLibrary(threads);
  } else {
    latch.SetByProgram(threads);
    if (caller.is_torch) {
      caller.runtime->bound.store(threads, std::memory_order_relaxed);
    }
  }
}

}  // namespace

// C's names, and Fortran's.
TFM_OPENMP_HOOK(int, omp_get_max_threads, ()) {
  return MaxThreads(CallerOf(__builtin_return_address(0)));
}
TFM_OPENMP_HOOK(int, omp_get_max_threads_, ()) {
  return MaxThreads(CallerOf(__builtin_return_address(0)));
}
TFM_OPENMP_HOOK(int, omp_get_num_procs, ()) {
  return NumProcs(CallerOf(__builtin_return_address(0)));
}
TFM_OPENMP_HOOK(int, omp_get_num_procs_, ()) {
  return NumProcs(CallerOf(__builtin_return_address(0)));
}
TFM_OPENMP_HOOK(void, omp_set_num_threads, (int threads)) {
  SetNumThreads(CallerOf(__builtin_return_address(0)), threads);
}
TFM_OPENMP_HOOK(void, omp_set_num_threads_, (const int32_t* threads)) {
  SetNumThreads(CallerOf(__builtin_return_address(0)), *threads);
}
TFM_OPENMP_HOOK(void, omp_set_num_threads_8_, (const int64_t* threads)) {
  SetNumThreads(CallerOf(__builtin_return_address(0)),
                *threads < INT32_MAX ? *threads : INT32_MAX);
}

namespace {

// Notes that torch has been called, for the length of a scope.
class InTorch {
 public:
  InTorch(const Caller& caller, bool is_setting)
      : caller_(thread_state.torch_caller),
        is_setting_(thread_state.is_in_torch) {
    thread_state.torch_caller = &caller;
    thread_state.is_in_torch = is_setting || is_setting_;
  }
  ~InTorch() {
    thread_state.torch_caller = caller_;
    thread_state.is_in_torch = is_setting_;
  }
  InTorch(const InTorch&) = delete;
  InTorch& operator=(const InTorch&) = delete;

 private:
  const Caller* const caller_;
  const bool is_setting_;
};

}  // namespace

// at::set_num_threads(int), which torch.set_num_threads calls.
TFM_OPENMP_HOOK(void, _ZN2at15set_num_threadsEi, (int threads)) {
  const Caller& caller = CallerOf(__builtin_return_address(0));
  auto* real = reinterpret_cast<void (*)(int)>(
      Find(caller, "_ZN2at15set_num_threadsEi"));
  const InTorch in_torch(caller, true);
  real(threads);
}

// at::get_num_threads(), also of Python. What torch.compile() has compiled is
// compiled anew if this number differs, a few times, and a change while it
// compiles is an error: Python is told the upper bound.
TFM_OPENMP_HOOK(int, _ZN2at15get_num_threadsEv, ()) {
  const Caller& caller = CallerOf(__builtin_return_address(0));
  auto* real =
      reinterpret_cast<int (*)()>(Find(caller, "_ZN2at15get_num_threadsEv"));
  const InTorch in_torch(caller, false);
  const int number = real();
  if (!IsFollowing(caller) || !caller.is_torch_python) return number;
  Adopt(caller.runtime);
  const int own = thread_state.latches[caller.runtime->index].bound();
  return own > 0 ? own : BoundOf(*caller.runtime);
}

extern "C" __attribute__((visibility("default"))) std::uint64_t
tfm_openmp_regions(void) {
  return regions.load(std::memory_order_relaxed);
}

extern "C" __attribute__((visibility("default"))) int tfm_openmp_bound(
    void* handle) {
  const Runtime* runtime = FindRuntime(handle);
  if (runtime == nullptr || !AreFree(*runtime)) return -1;
  return thread_state.latches[runtime->index].bound();
}

extern "C" __attribute__((visibility("default"))) void tfm_openmp_set_bound(
    void* handle, int threads, int bound) {
  const Runtime* runtime = FindRuntime(handle);
  if (runtime == nullptr || !AreFree(*runtime) || threads < 1) return;
  thread_state.latches[runtime->index].SetDirectly(threads, bound);
}

}  // namespace openmp
}  // namespace tf_malleable
