// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// Hooks of functions of libc, and access to the functions behind them.
//
// Thread-safety: a RealFunction may be called from any thread and from
// signal handlers.

#ifndef TF_MALLEABLE_CC_TIER_HOOK_H_
#define TF_MALLEABLE_CC_TIER_HOOK_H_

#include <dlfcn.h>

#include <atomic>

namespace tf_malleable {
namespace tier {

// The function of the next library that defines it. It is looked up at the
// first call, as constructors of other libraries may run before the shim's.
template <typename Function>
class RealFunction {
 public:
  constexpr explicit RealFunction(const char* name, const char* other = nullptr)
      : name_(name), other_(other), function_(nullptr) {}

  template <typename... Arguments>
  auto operator()(Arguments... arguments) {
    Function* function = function_.load(std::memory_order_relaxed);
    if (__builtin_expect(function == nullptr, 0)) function = Find();
    return function(arguments...);
  }

 private:
  Function* Find() {
    void* found = dlsym(RTLD_NEXT, name_);
    if (found == nullptr && other_ != nullptr) found = dlsym(RTLD_NEXT, other_);
    // No program calls a function that its libc lacks.
    if (found == nullptr) __builtin_trap();
    Function* function = reinterpret_cast<Function*>(found);
    function_.store(function, std::memory_order_relaxed);
    return function;
  }

  const char* const name_;
  const char* const other_;  // Name in an older libc; or null.
  std::atomic<Function*> function_;
};

// Defines extern "C" RESULT NAME PARAMETERS under a C++ name, as the headers
// of libc declare the same names with attributes that differ between versions.
#define TFM_HOOK(result, name, parameters)                                  \
  extern "C" __attribute__((                                                \
      visibility("default"))) result Hook_##name parameters __asm__(#name); \
  result Hook_##name parameters

}  // namespace tier
}  // namespace tf_malleable

#endif  // TF_MALLEABLE_CC_TIER_HOOK_H_
