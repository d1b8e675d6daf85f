// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.

#include "cc/openmp/blas.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <initializer_list>

#include "cc/openmp/limit.h"
#include "cc/openmp/openmp.h"

namespace tf_malleable {
namespace openmp {
namespace {

constexpr long kScanNanoseconds = 50000000;
// What openblas_get_parallel() says of a build with threads of its own; one
// with OpenMP has teams, which follow by themselves.
constexpr int kOwnThreads = 1;

// BLIS counts in its integers for dimensions.
using Dimension = int64_t;

struct Blas {
  uintptr_t base;
  // Of OpenBLAS; null for a BLIS.
  int (*get)();
  void (*set)(int);
  // Of BLIS; null for an OpenBLAS.
  Dimension (*get_blis)();
  void (*set_blis)(Dimension);
  int told;   // Number that was set or seen last.
  int bound;  // Upper bound that the program gives.
  // Of before the program set a number, as it may restore that; 0 if it has
  // not.
  int told_before;
  int bound_before;
  char path[512];
};

constexpr int kNobody = 0;

// Process of the thread that reads and changes all of the following; the parent
// of this one, if it was forked meanwhile.
std::atomic<int> busy{kNobody};
std::atomic<long> followed_until{0};
// Filled in order, each once.
Blas found[kMostBlas];
std::atomic<int> count{0};
long scanned_until = 0;
// How many libraries had ever been loaded at the last scan.
unsigned long long loaded = 0;

long Nanoseconds() {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000L + now.tv_nsec;
}

// The symbols of a loaded library, from its dynamic section: dlsym() could wait
// for a thread that waits for the GIL.
class Symbols {
 public:
  explicit Symbols(const struct dl_phdr_info& info) : base_(info.dlpi_addr) {
    for (int i = 0; i < info.dlpi_phnum; ++i) {
      if (info.dlpi_phdr[i].p_type == PT_DYNAMIC) {
        Read(reinterpret_cast<const ElfW(Dyn)*>(base_ +
                                                info.dlpi_phdr[i].p_vaddr));
      }
    }
  }

  // Returns the address of a function; null if there is none.
  void* Find(const char* name) const {
    if (table_ == nullptr || strings_ == nullptr) return nullptr;
    for (uint32_t i = 0; i < size_; ++i) {
      const ElfW(Sym)& symbol = table_[i];
      if (symbol.st_shndx != SHN_UNDEF && (symbol.st_info & 0xF) == STT_FUNC &&
          strcmp(strings_ + symbol.st_name, name) == 0) {
        return reinterpret_cast<void*>(base_ + symbol.st_value);
      }
    }
    return nullptr;
  }

 private:
  void Read(const ElfW(Dyn) * dynamic) {
    const uint32_t* gnu = nullptr;
    for (; dynamic->d_tag != DT_NULL; ++dynamic) {
      const uintptr_t at = Address(dynamic->d_un.d_ptr);
      switch (dynamic->d_tag) {
        case DT_SYMTAB:
          table_ = reinterpret_cast<const ElfW(Sym)*>(at);
          break;
        case DT_STRTAB:
          strings_ = reinterpret_cast<const char*>(at);
          break;
        case DT_HASH:
          size_ = reinterpret_cast<const uint32_t*>(at)[1];
          break;
        case DT_GNU_HASH:
          gnu = reinterpret_cast<const uint32_t*>(at);
          break;
        default:
          break;
      }
    }
    if (size_ == 0 && gnu != nullptr) size_ = Count(gnu);
  }

  // glibc relocates these in place, other loaders do not.
  uintptr_t Address(uintptr_t pointer) const {
    return pointer < base_ ? base_ + pointer : pointer;
  }

  // Returns the number of symbols of a hash table that has no such number.
  static uint32_t Count(const uint32_t* gnu) {
    const uint32_t buckets = gnu[0], first = gnu[1], words = gnu[2];
    const uint32_t* bucket =
        gnu + 4 + words * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
    const uint32_t* chain = bucket + buckets;
    uint32_t last = 0;
    for (uint32_t i = 0; i < buckets; ++i) {
      if (bucket[i] > last) last = bucket[i];
    }
    if (last < first) return 0;
    while ((chain[last - first] & 1) == 0) ++last;
    return last + 1;
  }

  const uintptr_t base_;
  const ElfW(Sym) * table_ = nullptr;
  const char* strings_ = nullptr;
  uint32_t size_ = 0;
};

// Builds have prefixes and suffixes, by their vendor and their integers.
void* FindFunction(const Symbols& symbols, const char* name) {
  for (const char* prefix : {"", "scipy_"}) {
    for (const char* suffix : {"", "64_", "_64"}) {
      char whole[64];
      stpcpy(stpcpy(stpcpy(whole, prefix), name), suffix);
      void* function = symbols.Find(whole);
      if (function != nullptr) return function;
    }
  }
  return nullptr;
}

int Get(const Blas& blas) {
  return blas.get != nullptr ? blas.get() : static_cast<int>(blas.get_blis());
}

void Set(const Blas& blas, int threads) {
  if (blas.set != nullptr) {
    blas.set(threads);
  } else {
    blas.set_blis(threads);
  }
}

int BoundOfUser(int current) {
  for (const char* variable : {"OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS"}) {
    const char* text = getenv(variable);
    if (text != nullptr && atoi(text) > 0) return atoi(text);
  }
  // Fewer than it takes by itself: the program has set it before it was found.
  if (current < AllowedCpus() && current < UserBound()) return current;
  return UserBound();
}

// Fills in the functions of a library; returns whether its threads can follow.
bool FindFunctions(const Symbols& symbols, Blas* made) {
  using Getter = int();
  using Setter = void(int);
  auto* parallel =
      reinterpret_cast<Getter*>(FindFunction(symbols, "openblas_get_parallel"));
  made->get = reinterpret_cast<Getter*>(
      FindFunction(symbols, "openblas_get_num_threads"));
  made->set = reinterpret_cast<Setter*>(
      FindFunction(symbols, "openblas_set_num_threads"));
  if (parallel != nullptr && made->get != nullptr && made->set != nullptr) {
    return parallel() == kOwnThreads;
  }
  made->get = nullptr;
  made->set = nullptr;
  made->get_blis = reinterpret_cast<Dimension (*)()>(
      symbols.Find("bli_thread_get_num_threads"));
  made->set_blis = reinterpret_cast<void (*)(Dimension)>(
      symbols.Find("bli_thread_set_num_threads"));
  return made->get_blis != nullptr && made->set_blis != nullptr;
}

void Add(const struct dl_phdr_info& info) {
  const int index = count.load(std::memory_order_relaxed);
  Blas& made = found[index];
  if (!FindFunctions(Symbols(info), &made)) return;
  made.base = info.dlpi_addr;
  made.told = Get(made);
  made.bound = made.get != nullptr ? BoundOfUser(made.told) : made.told;
  strncpy(made.path, info.dlpi_name, sizeof made.path - 1);
  count.store(index + 1, std::memory_order_release);
}

// Looks at a loaded library; `data` is the number of them, 0 before the first.
int Look(struct dl_phdr_info* info, size_t, void* data) {
  constexpr int kStop = 1;
  auto* adds = static_cast<unsigned long long*>(data);
  if (*adds == 0) *adds = info->dlpi_adds;
  if (*adds == loaded) return kStop;
  const char* slash = strrchr(info->dlpi_name, '/');
  if (slash == nullptr) return 0;
  if (strstr(slash, "blas") == nullptr && strstr(slash, "blis") == nullptr) {
    return 0;
  }
  const int known = count.load(std::memory_order_relaxed);
  for (int i = 0; i < known; ++i) {
    if (found[i].base == info->dlpi_addr) return 0;
  }
  if (known == kMostBlas) return kStop;
  Add(*info);
  return 0;
}

void Follow(Blas* blas, int limit) {
  const int current = Get(*blas);
  if (current <= 0) {
    // A BLIS for which nobody has set a number computes in the calling thread.
    blas->told = current;
    return;
  }
  if (current != blas->told) {
    // The program has set it.
    if (blas->told_before == current) {
      blas->bound = blas->bound_before;
      blas->told_before = 0;
    } else {
      if (blas->told_before == 0) {
        blas->told_before = blas->told;
        blas->bound_before = blas->bound;
      }
      blas->bound = current;
    }
  }
  const int wanted = limit < blas->bound ? limit : blas->bound;
  if (wanted != current) Set(*blas, wanted);
  blas->told = wanted == current ? current : Get(*blas);
}

// Holds `busy`, if it gets it.
class Hold {
 public:
  // Waits for another thread only if asked to.
  explicit Hold(bool waits) {
    const int self = getpid();
    for (int attempt = 0; !held_ && attempt <= (waits ? kAttempts : 0);
         ++attempt) {
      int holder = busy.load(std::memory_order_relaxed);
      held_ = holder != self && busy.compare_exchange_strong(
                                    holder, self, std::memory_order_acquire);
      if (!held_ && waits) sched_yield();
    }
  }
  ~Hold() {
    if (held_) busy.store(kNobody, std::memory_order_release);
  }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

  explicit operator bool() const { return held_; }

 private:
  // A thread holds it for microseconds, but may lose its CPU.
  static constexpr int kAttempts = 1000;

  bool held_ = false;
};

// The caller holds `busy`.
void Scan(long now) {
  unsigned long long adds = 0;
  dl_iterate_phdr(Look, &adds);
  loaded = adds;
  scanned_until = now + kScanNanoseconds;
}

// Returns the library with a handle of dlopen(); null if it does not follow.
// The caller holds `busy`.
Blas* Known(void* handle) {
  struct link_map* map = nullptr;
  if (handle == nullptr || IsPlaced() ||
      dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0) {
    return nullptr;
  }
  Scan(Nanoseconds());
  const int known = count.load(std::memory_order_relaxed);
  for (int i = 0; i < known; ++i) {
    if (found[i].base == map->l_addr) return &found[i];
  }
  return nullptr;
}

}  // namespace

void FollowInBlas() {
  const long now = Nanoseconds();
  if (now < followed_until.load(std::memory_order_relaxed) || IsPlaced()) {
    return;
  }
  const Hold hold(false);
  if (!hold) return;
  followed_until.store(now + kFreshNanoseconds, std::memory_order_relaxed);
  if (now >= scanned_until) Scan(now);
  const int known = count.load(std::memory_order_relaxed);
  if (known > 0) {
    const int limit = Limit();
    for (int i = 0; i < known; ++i) Follow(&found[i], limit);
  }
}

void FollowInBlasSoon() { followed_until.store(0, std::memory_order_relaxed); }

const char* BlasPath(int index) {
  return index < count.load(std::memory_order_acquire) ? found[index].path
                                                       : nullptr;
}

extern "C" __attribute__((visibility("default"))) int tfm_blas_bound(
    void* handle) {
  const Hold hold(true);
  const Blas* blas = hold ? Known(handle) : nullptr;
  return blas == nullptr ? -1 : blas->bound;
}

extern "C" __attribute__((visibility("default"))) void tfm_blas_set_bound(
    void* handle, int threads, int bound) {
  const Hold hold(true);
  Blas* blas = hold ? Known(handle) : nullptr;
  if (blas == nullptr || threads < 1) return;
  blas->bound = bound;
  blas->told = Get(*blas);
  blas->told_before = 0;
  Follow(blas, Limit());
}

}  // namespace openmp
}  // namespace tf_malleable
