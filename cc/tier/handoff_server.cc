// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.

#include "cc/tier/handoff_server.h"

#include <linux/limits.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/xattr.h>

#include "cc/tier/checksum.h"
#include "cc/tier/identity.h"
#include "cc/tier/settings.h"
#include "cc/tier/syscalls.h"

namespace tf_malleable {
namespace tier {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;
constexpr int64_t kResultAlignment = 8;  // Bytes.
// Tries to link a copy: another process may create or remove its name or its
// folder meanwhile.
constexpr int kLinkTries = 3;
constexpr char kOwnDescriptors[] = "/proc/self/fd/";
constexpr size_t kMaxDigits = 12;  // Digits of a descriptor.

// Owns a descriptor, and closes it.
class File {
 public:
  explicit File(int fd) : fd_(fd) {}
  ~File() {
    if (fd_ >= 0) sys::Close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int fd() const { return fd_; }

 private:
  const int fd_;
};

// Returns whether a key is a path below one of the folders, without empty
// components, "." and "..".
bool IsBelow(const char* key, const char* sources) {
  bool is_below = false;
  for (const char* each = sources; *each != '\0'; each += strlen(each) + 1) {
    const size_t size = strlen(each);
    is_below |= strncmp(key, each, size) == 0 && key[size] == '/';
  }
  for (const char* part = key; is_below && *part == '/';) {
    ++part;
    const size_t size = strcspn(part, "/");
    if (size == 0 ||
        (part[0] == '.' && (size == 1 || (size == 2 && part[1] == '.')))) {
      return false;
    }
    part += size;
  }
  return is_below;
}

// Creates the missing folders of a path. Its first `least` bytes are a folder
// that exists. The path is unchanged when the function returns.
void CreateFolders(char* path, size_t least) {
  size_t size = strlen(path);
  const size_t whole = size;
  while (size > least) {
    while (size > least && path[size] != '/') --size;
    if (size == least) break;
    path[size] = '\0';
    if (syscall(SYS_mkdirat, AT_FDCWD, path, kFolderMode) == 0 ||
        errno == EEXIST) {
      break;
    }
  }
  while (size < whole) {
    path[size] = '/';
    do {
      ++size;
    } while (size < whole && path[size] != '\0');
    if (size < whole) syscall(SYS_mkdirat, AT_FDCWD, path, kFolderMode);
  }
}

// Writes a whole file; returns errno, or 0.
int Write(int fd, const char* data, int64_t size) {
  for (int64_t done = 0; done < size;) {
    const ssize_t got =
        sys::WriteAt(fd, data + done, static_cast<size_t>(size - done), done);
    if (got < 0 && errno != EINTR) return errno;
    if (got == 0) return EIO;
    if (got > 0) done += got;
  }
  return 0;
}

// Sets the attributes of a copy; returns errno, or 0.
int SetAttributes(int fd, const Identity& identity, uint32_t code) {
  Identity own = identity;
  struct statx status;
  if (sys::CachedStatus(fd, &status) != 0) return errno;
  own.copy_inode = status.stx_ino;
  if (syscall(SYS_fsetxattr, fd, kBlocksAttribute, &code, sizeof(code), 0) !=
          0 ||
      syscall(SYS_fsetxattr, fd, kSourceAttribute, &own, sizeof(own), 0) != 0) {
    return errno;
  }
  return 0;
}

// Links an open file to a path, in place of any other file there; returns
// errno, or 0.
int LinkInPlace(int fd, char* path, size_t folder) {
  char file[sizeof(kOwnDescriptors) + kMaxDigits];
  memcpy(file, kOwnDescriptors, sizeof(kOwnDescriptors));
  char digits[kMaxDigits];
  int count = 0;
  for (int rest = fd; rest > 0 || count == 0; rest /= 10) {
    digits[count++] = static_cast<char>('0' + rest % 10);
  }
  char* to = file + strlen(file);
  while (count > 0) *to++ = digits[--count];
  *to = '\0';
  for (int i = 0; i < kLinkTries; ++i) {
    if (syscall(SYS_linkat, AT_FDCWD, file, AT_FDCWD, path,
                AT_SYMLINK_FOLLOW) == 0) {
      return 0;
    }
    if (errno == EEXIST) {
      sys::Unlink(path);
    } else if (errno == ENOENT) {
      CreateFolders(path, folder);
    } else {
      break;
    }
  }
  return errno;
}

// Makes a copy of a record; returns errno, or 0.
int MakeCopy(const QueueRecord& record, const QueueRecord* shared,
             const char* key, const char* data, const char* store,
             const char* growing) {
  char path[kMaxFolderBytes + PATH_MAX];
  const size_t folder = strlen(store);
  if (folder + record.key_size >= sizeof(path)) return ENAMETOOLONG;
  memcpy(path, store, folder);
  memcpy(path + folder, key, record.key_size + size_t{1});
  const File file(sys::Open(growing, O_TMPFILE | O_RDWR, kPrivateFileMode));
  if (file.fd() < 0) return errno;
  const int64_t size = record.identity.size;
  int error = Write(file.fd(), data, size);
  if (error == 0) {
    const uint32_t code = Checksum(0, data, static_cast<size_t>(size));
    error = SetAttributes(file.fd(), record.identity, code);
  }
  if (error == 0) error = LinkInPlace(file.fd(), path, folder);
  if (error == 0 &&
      __atomic_load_n(&shared->is_withdrawn, __ATOMIC_SEQ_CST) != 0) {
    sys::Unlink(path);
    error = ECANCELED;
  }
  return error;
}

}  // namespace

extern "C" {

void* tfm_tier_queue_open(int fd) {
  struct statx status;
  // A file that cannot shrink can be read without a SIGBUS.
  if ((sys::Fcntl(fd, F_GET_SEALS) & kSeals) != kSeals ||
      sys::CachedStatus(fd, &status) != 0 ||
      status.stx_size != static_cast<uint64_t>(kQueueBytes)) {
    return nullptr;
  }
  void* page = reinterpret_cast<void*>(syscall(SYS_mmap, nullptr, kQueueBytes,
                                               PROT_READ | PROT_WRITE,
                                               MAP_SHARED, fd, 0));
  if (page == MAP_FAILED) return nullptr;
  const auto* queue = static_cast<const QueueHeader*>(page);
  if (queue->magic != kQueueMagic || queue->version != kVersion) {
    tfm_tier_queue_close(page);
    return nullptr;
  }
  return page;
}

int64_t tfm_tier_queue_take(void* page, uint64_t* taken, const char* store,
                            const char* growing, const char* sources, char* out,
                            int64_t size) {
  auto* queue = static_cast<QueueHeader*>(page);
  char* const ring = static_cast<char*>(page) + kQueueRingOffset;
  char key[PATH_MAX];
  int64_t filled = 0;
  __atomic_store_n(&queue->is_busy, 1, __ATOMIC_SEQ_CST);
  const uint64_t written = __atomic_load_n(&queue->written, __ATOMIC_ACQUIRE);
  while (*taken != written) {
    if (written - *taken > kQueueRingBytes) return -1;
    const uint64_t rest = kQueueRingBytes - *taken % kQueueRingBytes;
    const auto* shared =
        reinterpret_cast<const QueueRecord*>(ring + *taken % kQueueRingBytes);
    QueueRecord record;
    memcpy(&record, shared, sizeof(record.magic));
    uint64_t step = rest;  // For a record that is skipped.
    if (record.magic != kSkipMagic) {
      if (rest < sizeof(record)) return -1;
      memcpy(&record, shared, sizeof(record));
      if (record.magic != kRecordMagic || record.key_size == 0 ||
          record.key_size >= sizeof(key) || record.identity.size < 0 ||
          record.identity.size > kSmallFileBytes ||
          !IsIdentity(record.identity, sizeof(record.identity)) ||
          record.size !=
              QueueRecordSize(record.key_size,
                              static_cast<uint64_t>(record.identity.size)) ||
          record.size > rest || record.size > written - *taken) {
        return -1;
      }
      const int64_t needed = (static_cast<int64_t>(sizeof(HandedFile)) +
                              record.key_size + kResultAlignment - 1) /
                             kResultAlignment * kResultAlignment;
      if (filled + needed > size) break;
      const char* its = reinterpret_cast<const char*>(shared + 1);
      memcpy(key, its, record.key_size);
      key[record.key_size] = '\0';
      if (strlen(key) != record.key_size) return -1;
      HandedFile result;
      memset(&result, 0, sizeof(result));
      result.key_size = record.key_size;
      result.identity = record.identity;
      if (!IsBelow(key, sources)) {
        result.error = EPERM;
      } else if (record.is_withdrawn) {
        result.error = ECANCELED;
      } else {
        result.error = MakeCopy(record, shared, key, its + record.key_size,
                                store, growing);
      }
      memcpy(out + filled, &result, sizeof(result));
      memcpy(out + filled + sizeof(result), key, record.key_size);
      filled += needed;
      step = record.size;
    }
    *taken += step;
    __atomic_store_n(&queue->taken, *taken, __ATOMIC_SEQ_CST);
  }
  __atomic_store_n(&queue->is_busy, 0, __ATOMIC_SEQ_CST);
  return filled;
}

int tfm_tier_queue_rest(void* page, uint64_t taken) {
  auto* queue = static_cast<QueueHeader*>(page);
  __atomic_store_n(&queue->is_watched, 0, __ATOMIC_SEQ_CST);
  return __atomic_load_n(&queue->written, __ATOMIC_SEQ_CST) == taken;
}

void tfm_tier_queue_close(void* page) {
  syscall(SYS_munmap, page, kQueueBytes);
}

}  // extern "C"

}  // namespace tier
}  // namespace tf_malleable
