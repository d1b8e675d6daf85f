// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// Hooks of the functions that read or close files, or use descriptors in a way
// that the shim cannot see.

#include <stdio.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include "cc/tier/copy_descriptor.h"
#include "cc/tier/hook.h"
#include "cc/tier/partial_copy.h"
#include "cc/tier/syscalls.h"

namespace tf_malleable {
namespace tier {
namespace {

// Calls read(entry) for a descriptor with an entry, and sets whether it has
// one.
template <typename Read>
__attribute__((noinline)) ssize_t WithEntry(int fd, Read read,
                                            bool* is_partial) {
  Table::Entry* entry = shim.table.Acquire(fd);
  *is_partial = entry != nullptr;
  if (entry == nullptr) return -1;
  const int before = errno;
  const ssize_t got = read(entry);
  if (got >= 0) errno = before;
  shim.table.Release(entry);
  return got;
}

// Reads into several buffers one after the other, from `offset` on, or by the
// position if that is -1.
ssize_t ReadVector(Table::Entry* entry, int fd, const struct iovec* parts,
                   int count, int64_t offset) {
  ssize_t done = 0;
  for (int i = 0; i < count; ++i) {
    if (parts[i].iov_len == 0) continue;
    const ssize_t got =
        offset < 0
            ? ReadPartialCopy(entry, fd, parts[i].iov_base, parts[i].iov_len)
            : ReadPartialCopyAt(entry, fd, parts[i].iov_base, parts[i].iov_len,
                                offset + done);
    if (got < 0) return done > 0 ? done : -1;
    done += got;
    if (static_cast<size_t>(got) < parts[i].iov_len) break;
  }
  return done;
}

constexpr int kMaxIovecs = 1024;  // The kernel's UIO_MAXIOV.

// Returns whether the kernel would accept the buffers.
bool AreGood(const struct iovec* parts, int count) {
  if (count <= 0 || count > kMaxIovecs) return false;
  size_t whole = 0;
  for (int i = 0; i < count; ++i) {
    if (parts[i].iov_len > SSIZE_MAX - whole) return false;
    whole += parts[i].iov_len;
  }
  return true;
}

// Shells give files to their children by such numbers, so that the children
// lock them for the shell. What is read by them is not much.
void BeforeRedirection(int fd, int other) {
  if (other > STDERR_FILENO) UseSource(fd);
}

}  // namespace

// Defines the hook of a function that reads from `fd`: it evaluates
// `read_partial` if `can` is true and the file has a partial copy.
#define TFM_READ(name, parameters, arguments, can, read_partial)            \
  TFM_HOOK(ssize_t, name, parameters) {                                     \
    static RealFunction<ssize_t parameters> real(#name);                    \
    if (__builtin_expect(shim.table.Has(fd), 0) && (can)) {                 \
      bool is_partial;                                                      \
      const ssize_t got = WithEntry(                                        \
          fd, [&](Table::Entry* entry) -> ssize_t { return read_partial; }, \
          &is_partial);                                                     \
      if (is_partial) return got;                                           \
    }                                                                       \
    const ssize_t got = real arguments;                                     \
    if (__builtin_expect(got == 0, 0) && IsOutdatedAtEnd(fd)) {             \
      return real arguments;                                                \
    }                                                                       \
    return got;                                                             \
  }

TFM_READ(read, (int fd, void* data, size_t size), (fd, data, size), true,
         ReadPartialCopy(entry, fd, data, size))
TFM_READ(__read_chk, (int fd, void* data, size_t size, size_t most),
         (fd, data, size, most), size <= most,
         ReadPartialCopy(entry, fd, data, size))
TFM_READ(pread, (int fd, void* data, size_t size, off_t offset),
         (fd, data, size, offset), true,
         ReadPartialCopyAt(entry, fd, data, size, offset))
TFM_READ(pread64, (int fd, void* data, size_t size, off64_t offset),
         (fd, data, size, offset), true,
         ReadPartialCopyAt(entry, fd, data, size, offset))
TFM_READ(__pread_chk,
         (int fd, void* data, size_t size, off_t offset, size_t most),
         (fd, data, size, offset, most), size <= most,
         ReadPartialCopyAt(entry, fd, data, size, offset))
TFM_READ(__pread64_chk,
         (int fd, void* data, size_t size, off64_t offset, size_t most),
         (fd, data, size, offset, most), size <= most,
         ReadPartialCopyAt(entry, fd, data, size, offset))
TFM_READ(readv, (int fd, const struct iovec* parts, int count),
         (fd, parts, count), AreGood(parts, count),
         ReadVector(entry, fd, parts, count, -1))
TFM_READ(preadv, (int fd, const struct iovec* parts, int count, off_t offset),
         (fd, parts, count, offset), AreGood(parts, count) && offset >= 0,
         ReadVector(entry, fd, parts, count, offset))
TFM_READ(preadv64,
         (int fd, const struct iovec* parts, int count, off64_t offset),
         (fd, parts, count, offset), AreGood(parts, count) && offset >= 0,
         ReadVector(entry, fd, parts, count, offset))
TFM_READ(preadv2,
         (int fd, const struct iovec* parts, int count, off_t offset,
          int flags),
         (fd, parts, count, offset, flags),
         AreGood(parts, count) && flags == 0 && offset >= 0,
         ReadVector(entry, fd, parts, count, offset))
TFM_READ(preadv64v2,
         (int fd, const struct iovec* parts, int count, off64_t offset,
          int flags),
         (fd, parts, count, offset, flags),
         AreGood(parts, count) && flags == 0 && offset >= 0,
         ReadVector(entry, fd, parts, count, offset))

// A seek waits for a read by the same position, as it would in the kernel.
#define TFM_SEEK(name)                                            \
  TFM_HOOK(off64_t, name, (int fd, off64_t offset, int whence)) { \
    static RealFunction<off64_t(int, off64_t, int)> real(#name);  \
    if (__builtin_expect(shim.table.Has(fd), 0)) {                \
      if (Table::Entry* entry = shim.table.Acquire(fd)) {         \
        off64_t result;                                           \
        {                                                         \
          const PositionLock lock(&entry->payload);               \
          result = real(fd, offset, whence);                      \
        }                                                         \
        shim.table.Release(entry);                                \
        return result;                                            \
      }                                                           \
    }                                                             \
    if (whence == SEEK_END) IsOutdatedAtSeek(fd);                 \
    return real(fd, offset, whence);                              \
  }
TFM_SEEK(lseek)
TFM_SEEK(lseek64)

TFM_HOOK(int, close, (int fd)) {
  static RealFunction<int(int)> real("close");
  if (__builtin_expect(shim.table.Has(fd), 0)) BeforeClose(fd);
  return real(fd);
}

TFM_HOOK(int, dup, (int fd)) {
  static RealFunction<int(int)> real("dup");
  if (shim.table.Has(fd)) BeforeUnseenUse(fd, UnseenUse::kDuplicated);
  return real(fd);
}

#define TFM_DUP_TO(name, parameters, arguments)                            \
  TFM_HOOK(int, name, parameters) {                                        \
    static RealFunction<int parameters> real(#name);                       \
    if (fd != other) {                                                     \
      BeforeRedirection(fd, other);                                        \
      if (shim.table.Has(fd)) BeforeUnseenUse(fd, UnseenUse::kDuplicated); \
      if (shim.table.Has(other)) BeforeClose(other);                       \
    }                                                                      \
    return real arguments;                                                 \
  }
TFM_DUP_TO(dup2, (int fd, int other), (fd, other))
TFM_DUP_TO(dup3, (int fd, int other, int flags), (fd, other, flags))

#define TFM_MMAP(name)                                                         \
  TFM_HOOK(void*, name,                                                        \
           (void* address, size_t size, int protection, int flags, int fd,     \
            off64_t offset)) {                                                 \
    static RealFunction<void*(void*, size_t, int, int, int, off64_t)> real(    \
        #name);                                                                \
    if (__builtin_expect(shim.table.Has(fd), 0) && !(flags & MAP_ANONYMOUS)) { \
      BeforeUnseenUse(fd, UnseenUse::kMapped);                                 \
    }                                                                          \
    return real(address, size, protection, flags, fd, offset);                 \
  }
TFM_MMAP(mmap)
TFM_MMAP(mmap64)

TFM_HOOK(FILE*, fdopen, (int fd, const char* mode)) {
  static RealFunction<FILE*(int, const char*)> real("fdopen");
  if (shim.table.Has(fd)) BeforeUnseenUse(fd, UnseenUse::kGone);
  return real(fd, mode);
}

// The shim does not see the reads of stdio, but after its end of file a stream
// reads only when this has been called.
#define TFM_CLEARERR(name)                        \
  TFM_HOOK(void, name, (FILE * file)) {           \
    static RealFunction<void(FILE*)> real(#name); \
    IsOutdated(fileno(file));                     \
    real(file);                                   \
  }
TFM_CLEARERR(clearerr)
TFM_CLEARERR(clearerr_unlocked)

#define TFM_COPY(name, parameters, arguments)                        \
  TFM_HOOK(ssize_t, name, parameters) {                              \
    static RealFunction<ssize_t parameters> real(#name);             \
    if (shim.table.Has(fd)) BeforeUnseenUse(fd, UnseenUse::kMapped); \
    return real arguments;                                           \
  }
TFM_COPY(sendfile, (int to, int fd, off64_t* offset, size_t size),
         (to, fd, offset, size))
TFM_COPY(sendfile64, (int to, int fd, off64_t* offset, size_t size),
         (to, fd, offset, size))
TFM_COPY(copy_file_range,
         (int fd, off64_t* from, int to, off64_t* offset, size_t size,
          unsigned flags),
         (fd, from, to, offset, size, flags))
TFM_COPY(splice,
         (int fd, off64_t* from, int to, off64_t* offset, size_t size,
          unsigned flags),
         (fd, from, to, offset, size, flags))

}  // namespace tier
}  // namespace tf_malleable
