// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.

#include "cc/tier/daemon_client.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <initializer_list>
#include <new>

#include "cc/tier/syscalls.h"

namespace tf_malleable {
namespace tier {
namespace {

constexpr int kMaxFds = 2;  // Descriptors in one message.
// Time between two looks for another state file, and between two reports.
constexpr int64_t kRetryNs = 500 * kMillisecondNs;
constexpr int64_t kReportIntervalNs = kSecondNs;
// Maximum time for all replies to one lookup.
constexpr int64_t kMaxAskNs = 10 * kSecondNs;
constexpr size_t kBootIdBytes = 40;  // More than a boot id.
// Bound of the descriptors that the shim asks for: the kernel's table of a
// process grows with the highest one.
constexpr uint64_t kMaxFdLimit = 4096;

// Returns State::boot of this boot; 0 if it cannot be read.
uint64_t ReadBootId() {
  const int fd = sys::Open("/proc/sys/kernel/random/boot_id", O_RDONLY);
  if (fd < 0) return 0;
  char text[kBootIdBytes] = {};
  sys::Read(fd, text, sizeof(text) - 1);
  sys::Close(fd);
  unsigned first, second, third;
  return Scan(text, "%8x-%4x-%4x", &first, &second, &third) == 3
             ? uint64_t{first} << 32 | second << 16 | third
             : 0;
}

// Maps the file with a job's sums; null if it is not a file of this user.
AtomicCounts* MapCounts(const char* path) {
  const int fd = sys::Open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return nullptr;
  struct statx status;
  void* page = MAP_FAILED;
  if (sys::CachedStatus(fd, &status) == 0 && S_ISREG(status.stx_mode) &&
      status.stx_size >= sizeof(AtomicCounts) &&
      status.stx_uid == syscall(SYS_geteuid)) {
    page = sys::MapShared(fd, sizeof(AtomicCounts), PROT_READ | PROT_WRITE);
  }
  sys::Close(fd);
  return page == MAP_FAILED ? nullptr : static_cast<AtomicCounts*>(page);
}

}  // namespace

Counts AtomicCounts::Get() const {
  const auto relaxed = std::memory_order_relaxed;
  return {copy_opens.load(relaxed),    copy_bytes.load(relaxed),
          source_opens.load(relaxed),  source_bytes.load(relaxed),
          growing_bytes.load(relaxed), waits.load(relaxed),
          wait_ns.load(relaxed)};
}

uint64_t InodeOf(int fd) {
  struct statx status;
  if (fd < 0 || sys::CachedStatus(fd, &status) != 0) return 0;
  return status.stx_ino;
}

bool OwnFile::ForgetIfClosed() {
  int number = fd_plus_1_.load(std::memory_order_acquire);
  if (number > 0 && IsOpen()) return false;
  // Another thread may have taken a new one meanwhile, and be using it.
  if (number > 0) fd_plus_1_.compare_exchange_strong(number, 0);
  return true;
}

void OwnFile::Keep(int opened) {
  if (opened < 0) return;
  const uint64_t inode = InodeOf(opened);
  int none = 0;
  // The inode first: once the number is set, other threads use both.
  if (fd() < 0) inode_.store(inode, std::memory_order_relaxed);
  if (fd_plus_1_.compare_exchange_strong(none, opened + 1,
                                         std::memory_order_release)) {
    inode_.store(inode, std::memory_order_relaxed);
  } else {
    sys::Close(opened);
  }
}

void OwnFile::Take(int opened) {
  if (opened < 0) return;
  uint64_t limit = sys::Soft(RLIMIT_NOFILE);
  if (limit > kMaxFdLimit) limit = kMaxFdLimit;
  const int high =
      sys::Fcntl(opened, F_DUPFD_CLOEXEC, static_cast<long>(limit * 3 / 4));
  if (high >= 0) sys::Close(opened);
  Keep(high >= 0 ? high : opened);
}

bool OwnFile::Close() {
  const int fd = fd_plus_1_.exchange(0, std::memory_order_relaxed) - 1;
  if (fd >= 0 && InodeOf(fd) == inode_.load(std::memory_order_relaxed)) {
    sys::Close(fd);
  }
  return fd >= 0;
}

void DaemonClient::Start(const Settings& settings) {
  settings_ = &settings;
  const char* const counts = settings.counts;
  all_counts_.store(counts == nullptr ? nullptr : MapCounts(counts),
                    std::memory_order_relaxed);
  boot_ = ReadBootId();
  pid_.store(sys::Pid(), std::memory_order_relaxed);
  ReadState();
}

const State* DaemonClient::MapPage() {
  const int fd = OpenStateFile(*settings_);
  if (fd < 0) return nullptr;
  void* const page = sys::MapShared(fd, kStateBytes, PROT_READ);
  sys::Close(fd);
  return page == MAP_FAILED ? nullptr : static_cast<const State*>(page);
}

bool DaemonClient::IsValid(const State* page) {
  return page != nullptr &&
         static_cast<uint64_t>(sys::Now(CLOCK_BOOTTIME)) <
             __atomic_load_n(&page->valid_until, __ATOMIC_ACQUIRE);
}

bool DaemonClient::IsOurs(const State& page) const {
  return page.magic == kStateMagic && page.version == kVersion &&
         page.boot == boot_ && page.store_device == settings_->store_device &&
         page.store_inode == settings_->store_inode;
}

const State* DaemonClient::CurrentPage(bool* is_valid) {
  const State* page = page_.load(std::memory_order_acquire);
  // IsValid reads a clock that counts suspended time, which takes longer.
  const int64_t tick = sys::Now(CLOCK_MONOTONIC_COARSE);
  *is_valid =
      page != nullptr && valid_at_.load(std::memory_order_relaxed) == tick;
  if (*is_valid) return page;
  *is_valid = IsValid(page);
  if (*is_valid) {
    valid_at_.store(tick, std::memory_order_relaxed);
    return page;
  }
  // The file may exist by now, or be another one: look again, but not at each
  // call.
  const int64_t now = sys::Now(CLOCK_MONOTONIC);
  int64_t next = next_try_.load(std::memory_order_relaxed);
  if (now < next || !next_try_.compare_exchange_strong(next, now + kRetryNs)) {
    return page;
  }
  const ErrnoGuard guard;
  const State* found = MapPage();
  if (found == nullptr) return page;
  // A page that is replaced stays mapped, as another thread may be reading it.
  const bool is_found_valid = IsValid(found);
  if (IsOurs(*found) && (page == nullptr || is_found_valid) &&
      page_.compare_exchange_strong(page, found)) {
    *is_valid = is_found_valid;
    return found;
  }
  syscall(SYS_munmap, found, kStateBytes);
  return page;
}

StateView DaemonClient::ReadState() {
  StateView view;
  const State* page = CurrentPage(&view.is_valid);
  view.has_store = page != nullptr;
  view.flags =
      view.is_valid ? __atomic_load_n(&page->flags, __ATOMIC_RELAXED) : 0;
  return view;
}

int64_t DaemonClient::MaxFileBytes() {
  bool is_valid;
  const State* page = CurrentPage(&is_valid);
  if (!is_valid ||
      !(__atomic_load_n(&page->flags, __ATOMIC_RELAXED) & kFills)) {
    return 0;
  }
  const uint64_t largest = __atomic_load_n(&page->largest, __ATOMIC_RELAXED);
  return largest > INT64_MAX ? INT64_MAX : static_cast<int64_t>(largest);
}

bool DaemonClient::IsUnasked(const char* key, size_t size) {
  bool is_valid;
  const State* page = CurrentPage(&is_valid);
  if (!is_valid) return false;
  while (size > 0 && key[size - 1] != '/') --size;
  if (size == 0) return false;
  uint64_t hash = kFnv64Basis;
  uint64_t outer = 0;
  for (size_t i = 0; i + 1 < size; ++i) {
    if (key[i] == '/') outer = hash;
    hash = (hash ^ static_cast<unsigned char>(key[i])) * kFnv64Prime;
  }
  for (const uint64_t each : {hash, outer}) {
    if (__atomic_load_n(&page->unasked[each % kUnaskedFolders],
                        __ATOMIC_RELAXED) == each) {
      return true;
    }
  }
  return false;
}

int DaemonClient::Connection() {
  // After vfork(), the child has the parent's memory, but descriptors of its
  // own.
  if (sys::Pid() != pid()) return -1;
  if (!connection_.ForgetIfClosed()) return connection_.fd();
  struct sockaddr_un address;
  memset(&address, 0, sizeof(address));
  address.sun_family = AF_UNIX;
  const size_t size = strlen(settings_->socket);
  if (size >= sizeof(address.sun_path)) return -1;
  memcpy(address.sun_path, settings_->socket, size + 1);
  const int fd = static_cast<int>(syscall(
      SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd < 0) return -1;
  struct ucred listener;
  socklen_t listener_size = sizeof(listener);
  if (syscall(SYS_connect, fd, &address, sizeof(address)) != 0 ||
      syscall(SYS_getsockopt, fd, SOL_SOCKET, SO_PEERCRED, &listener,
              &listener_size) != 0 ||
      (listener.uid != 0 && listener.uid != settings_->uid)) {
    sys::Close(fd);
    return -1;
  }
  connection_.Take(fd);
  return connection_.fd();
}

bool DaemonClient::Send(MessageKind kind, const char* key, size_t size,
                        const Identity* identity, const int* fds,
                        int fds_size) {
  const ErrnoGuard guard;
  const int connection = Connection();
  if (connection < 0) return false;
  Message message;
  memset(&message, 0, sizeof(message));
  message.magic = kMessageMagic;
  message.kind = kind;
  if (identity != nullptr) message.identity = *identity;
  message.counts = counts_.Get();
  struct iovec parts[2] = {{&message, sizeof(message)},
                           {const_cast<char*>(key), size}};
  alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxFds)];
  struct msghdr header;
  memset(&header, 0, sizeof(header));
  header.msg_iov = parts;
  header.msg_iovlen = 2;
  if (fds_size > 0) {
    memset(control, 0, sizeof(control));
    header.msg_control = control;
    header.msg_controllen = CMSG_SPACE(sizeof(int) * fds_size);
    struct cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int) * fds_size);
    memcpy(CMSG_DATA(rights), fds, sizeof(int) * fds_size);
  }
  const long sent =
      syscall(SYS_sendmsg, connection, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent >= 0) return true;
  if (errno != EAGAIN && errno != ETOOMANYREFS) Disconnect();
  return false;
}

void DaemonClient::ReportCounts(const char* key, size_t size) {
  const int64_t now = sys::Now(CLOCK_MONOTONIC_COARSE);
  int64_t next = next_report_.load(std::memory_order_relaxed);
  if (now < next ||
      !next_report_.compare_exchange_strong(next, now + kReportIntervalNs)) {
    return;
  }
  Send(kCounts, key, size, nullptr, nullptr, 0);
}

void DaemonClient::ReportFinalCounts() {
  const Counts now = counts_.Get();
  if (now.copy_opens + now.source_opens == 0) return;
  Send(kCounts, "", 0, nullptr, nullptr, 0);
}

Reply DaemonClient::Ask(const char* key, size_t size) {
  const ErrnoGuard guard;
  const int64_t begin = sys::Now(CLOCK_MONOTONIC);
  if (begin < quiet_until_.load(std::memory_order_relaxed)) return kUseSource;
  int ends[2];
  if (syscall(SYS_socketpair, AF_UNIX,
              SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
    return kUseSource;
  }
  const bool is_sent = Send(kAsk, key, size, nullptr, ends + 1, 1);
  sys::Close(ends[1]);
  Reply reply = is_sent ? kWait : kUseSource;
  int64_t until = begin + kReplyNs;
  while (reply == kWait) {
    const int64_t now = sys::Now(CLOCK_MONOTONIC);
    bool is_over = now >= until || now >= begin + kMaxAskNs;
    const int64_t left = is_over ? 0 : until - now;
    struct pollfd poll = {ends[0], POLLIN, 0};
    struct timespec rest = {left / kSecondNs, left % kSecondNs};
    // Also when the time is over: a reply may have come in time, while this
    // thread did not run.
    const long ready = syscall(SYS_ppoll, &poll, 1, &rest, nullptr, 0);
    uint8_t answer;
    const ssize_t got = ready > 0 ? sys::Read(ends[0], &answer, 1) : -1;
    if (got == 0) reply = kUseSource;  // The daemon has closed it.
    if (got == 1) {
      if (answer == kUseCopy || answer == kFollow) {
        reply = static_cast<Reply>(answer);
      } else if (answer != kWait) {
        reply = kUseSource;
      }
      until = sys::Now(CLOCK_MONOTONIC) + kReplyNs;
      is_over = now >= begin + kMaxAskNs;
    }
    if (reply == kWait && is_over) {
      quiet_until_.store(now + kQuietNs, std::memory_order_relaxed);
      reply = kUseSource;
    }
  }
  sys::Close(ends[0]);
  CountWait(begin);
  return reply;
}

void DaemonClient::CountWait(int64_t begin) {
  Count(&AtomicCounts::waits);
  Count(&AtomicCounts::wait_ns,
        static_cast<uint64_t>(sys::Now(CLOCK_MONOTONIC) - begin));
}

void DaemonClient::AfterFork() {
  Disconnect();  // The connection has the credentials of the parent.
  new (&counts_) AtomicCounts();  // Zeros.
  pid_.store(sys::Pid(), std::memory_order_relaxed);
}

}  // namespace tier
}  // namespace tf_malleable
