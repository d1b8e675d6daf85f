// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// Hooks of what programs compiled by GCC call of libgomp. LLVM's and Intel's
// runtimes export the same functions.

#include <stdint.h>

#include "cc/openmp/hook.h"
#include "cc/openmp/limit.h"

namespace tf_malleable {
namespace openmp {

thread_local ThreadState thread_state;

namespace {

int Min(int a, int b) { return a < b ? a : b; }

// Whether teams of this caller are to follow the limit here. Inside a region
// they have the number that its team has inherited.
bool IsFollowing(const Caller& caller) {
  return caller.runtime != nullptr && caller.how != Class::kConfined &&
         !IsPlaced() && caller.runtime->get_level() == 0;
}

int BoundOf(const Runtime& runtime) {
  const int bound = runtime.bound.load(std::memory_order_relaxed);
  return bound > 0 ? bound : UserBound();
}

// Lets the runtime's number for this thread follow the limit; returns it.
int Adopt(Runtime* runtime) {
  const int current = runtime->get_max_threads();
  const Operation& operation = thread_state.operation;
  const int number = thread_state.latches[runtime->index].Adopt(
      current, operation.number(), Limit(), BoundOf(*runtime),
      operation.has_gil());
  if (number != current) runtime->set_num_threads(number);
  return number;
}

// Returns the size of a team to ask the runtime for: `asked` or less; 0 for the
// runtime's number.
unsigned Team(const Caller& caller, unsigned asked) {
  if (!IsFollowing(caller)) return asked;
  const int limit = Limit();
  if (caller.how == Class::kFree) {
    const int most =
        asked > 0 && asked < INT32_MAX ? asked : BoundOf(*caller.runtime);
    return Min(most, limit);
  }
  Adopt(caller.runtime);
  if (asked == 0 || caller.how == Class::kAtOperations) return asked;
  return asked < static_cast<unsigned>(limit) ? asked : limit;
}

void EndRegion(const Caller& caller) {
  if (caller.runtime != nullptr && caller.runtime->get_level() == 0) {
    thread_state.operation.EndRegion();
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

TFM_OPENMP_HOOK(int, omp_get_max_threads, ()) {
  const Caller& caller = CallerOf(__builtin_return_address(0));
  if (!IsFollowing(caller)) {
    return reinterpret_cast<int (*)()>(Find(caller, "omp_get_max_threads"))();
  }
  if (caller.how == Class::kFree) return BoundOf(*caller.runtime);
  const int number = Adopt(caller.runtime);
  thread_state.latches[caller.runtime->index].Ask();
  return number;
}

TFM_OPENMP_HOOK(int, omp_get_num_procs, ()) {
  const Caller& caller = CallerOf(__builtin_return_address(0));
  auto* real = reinterpret_cast<int (*)()>(Find(caller, "omp_get_num_procs"));
  if (!IsFollowing(caller)) return real();
  ThreadState& state = thread_state;
  const bool is_new = state.procs_operation != state.operation.number();
  if (state.procs == 0 || (is_new && state.operation.has_gil())) {
    state.procs = Word() > 0 ? Min(real(), Word()) : real();
    state.procs_operation = state.operation.number();
  }
  return state.procs;
}

TFM_OPENMP_HOOK(void, omp_set_num_threads, (int threads)) {
  const Caller& caller = CallerOf(__builtin_return_address(0));
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

}  // namespace openmp
}  // namespace tf_malleable
