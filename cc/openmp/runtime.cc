// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.

#include "cc/openmp/runtime.h"

#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// musl has none: its programs are left alone.
extern "C" __attribute__((weak)) decltype(dladdr1) dladdr1;
// What pthread_atfork() calls, which would be linked without being weak.
extern "C" __attribute__((weak)) int __register_atfork(void (*prepare)(),
                                                       void (*parent)(),
                                                       void (*child)(),
                                                       void* object);

namespace tf_malleable {
namespace openmp {
namespace {

struct Row {
  const char* part;  // Of the library's path.
  Class how;
};

// Libraries whose parallel regions were read and tried: see "What works with
// what". All others are kAtOperations.
constexpr Row kClasses[] = {
    {"/lib_lightgbm.", Class::kFree},
    {"/libggml-cpu", Class::kFree},
    {"/_hist_gradient_boosting/", Class::kFreeToShrink},
    {"/sklearn/_loss/", Class::kFreeToShrink},
    {"/sklearn/cluster/_k_means_", Class::kFreeToShrink},
    {"/numba/np/ufunc/omppool.", Class::kFreeToShrink},
};

std::atomic<unsigned> forks{0};
std::atomic<bool> is_counting{false};

void CountForks() {
  if (__register_atfork == nullptr || is_counting.exchange(true)) return;
  const auto count = [] { forks.fetch_add(1, std::memory_order_relaxed); };
  __register_atfork(nullptr, nullptr, count, nullptr);
}

// Slots are filled in order, each once.
std::atomic<Runtime*> runtimes[kMostRuntimes];
std::atomic<const Caller*> callers[kMostCallers + 1];

// By return address.
struct Entry {
  std::atomic<const void*> address;
  std::atomic<const Caller*> caller;
};
constexpr unsigned kEntries = 1 << 13;
Entry entries[kEntries];

// What calls a runtime that cannot be told apart.
Caller overflow = {nullptr, nullptr, Class::kConfined, false, false, false, ""};

unsigned Hash(const void* address) {
  const uint64_t mixed =
      reinterpret_cast<uintptr_t>(address) * 0x9E3779B97F4A7C15u;
  return static_cast<unsigned>(mixed >> 40) % kEntries;
}

void* FunctionOf(void* handle, const char* name) {
  void* found = handle == nullptr ? nullptr : dlsym(handle, name);
  // The program itself, or a library that is linked with no runtime: the next
  // one in the global scope.
  return found != nullptr ? found : dlsym(RTLD_NEXT, name);
}

const void* BaseOf(const void* address) {
  Dl_info info = {};
  return dladdr(address, &info) == 0 ? nullptr : info.dli_fbase;
}

template <typename Function>
void Assign(Function** function, void* handle, const char* name) {
  *function = reinterpret_cast<Function*>(FunctionOf(handle, name));
}

// As FindRuntime(); null for the program itself.
Runtime* RuntimeOf(void* handle) {
  void* parallel = FunctionOf(handle, "GOMP_parallel");
  if (parallel == nullptr) return nullptr;
  Runtime* made = nullptr;
  for (int i = 0; i < kMostRuntimes; ++i) {
    Runtime* found = runtimes[i].load(std::memory_order_acquire);
    if (found == nullptr) {
      if (made == nullptr) {
        made = static_cast<Runtime*>(calloc(1, sizeof(Runtime)));
        if (made == nullptr) return nullptr;
        made->parallel = parallel;
        Assign(&made->get_max_threads, handle, "omp_get_max_threads");
        Assign(&made->set_num_threads, handle, "omp_set_num_threads");
        Assign(&made->get_level, handle, "omp_get_level");
        Assign(&made->get_num_procs, handle, "omp_get_num_procs");
        made->is_libgomp =
            BaseOf(FunctionOf(handle, "__kmpc_fork_call")) != BaseOf(parallel);
        CountForks();
      }
      made->index = i;
      if (runtimes[i].compare_exchange_strong(found, made)) return made;
    }
    if (found->parallel == parallel) {
      free(made);
      return found;
    }
  }
  free(made);
  return nullptr;
}

const Caller* Describe(const void* address) {
  Dl_info info = {};
  struct link_map* map = nullptr;
  if (dladdr1 == nullptr ||
      dladdr1(address, &info, reinterpret_cast<void**>(&map),
              RTLD_DL_LINKMAP) == 0 ||
      map == nullptr) {
    return &overflow;
  }
  // The program has no name here, and its handle would find this library. Code
  // that stays loaded keeps its addresses.
  const bool is_program = map->l_name == nullptr || *map->l_name == '\0';
  const char* path = is_program ? info.dli_fname : map->l_name;
  void* handle =
      is_program ? nullptr
                 : dlopen(map->l_name, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
  for (int i = 0; i < kMostCallers; ++i) {
    const Caller* known = callers[i].load(std::memory_order_acquire);
    if (known == nullptr) break;
    if (known->handle == handle && strcmp(known->path, path) == 0) return known;
  }
  Caller* made = static_cast<Caller*>(calloc(1, sizeof(Caller)));
  if (made == nullptr) return &overflow;
  made->handle = handle;
  made->runtime = RuntimeOf(handle);
  made->how = ClassOf(path);
  Dl_info self = {};
  made->is_self =
      dladdr(&entries, &self) != 0 && self.dli_fbase == info.dli_fbase;
  made->is_torch_python = strstr(path, "/libtorch_python.so") != nullptr;
  made->is_torch = strstr(path, "/torch/lib/") != nullptr;
  strncpy(made->path, path, sizeof made->path - 1);
  for (int i = 0; i < kMostCallers; ++i) {
    const Caller* free_slot = nullptr;
    if (callers[i].compare_exchange_strong(free_slot, made)) return made;
  }
  return made;  // Not listed.
}

}  // namespace

Class ClassOf(const char* path) {
  for (const Row& row : kClasses) {
    if (strstr(path, row.part) != nullptr) return row.how;
  }
  return Class::kAtOperations;
}

Runtime* FindRuntime(void* handle) {
  return handle == nullptr ? nullptr : RuntimeOf(handle);
}

unsigned Forks() { return forks.load(std::memory_order_relaxed); }

const Caller& CallerAt(const void* address) {
  const unsigned start = Hash(address);
  for (unsigned i = 0; i < 32; ++i) {
    Entry& entry = entries[(start + i) % kEntries];
    const void* there = entry.address.load(std::memory_order_acquire);
    if (there == address) {
      const Caller* caller = entry.caller.load(std::memory_order_acquire);
      if (caller != nullptr) return *caller;
      return *Describe(address);  // Another thread is about to say.
    }
    if (there == nullptr) {
      const Caller* found = Describe(address);
      if (entry.address.compare_exchange_strong(there, address)) {
        entry.caller.store(found, std::memory_order_release);
        return *found;
      }
      if (there == address) return *found;
    }
  }
  return *Describe(address);
}

void* Find(const Caller& caller, const char* name) {
  void* found = FunctionOf(caller.handle, name);
  // No program calls a function that its runtime lacks.
  if (found == nullptr) __builtin_trap();
  return found;
}

const Caller* const* Callers() {
  return reinterpret_cast<const Caller* const*>(callers);
}

}  // namespace openmp
}  // namespace tf_malleable
