// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// What the shim in a reader and the daemon of a node have in common: files in
// the store, and messages. tf_malleable/tier/protocol.py has the same in
// Python. All numbers are little-endian and at their natural alignment.
//
// The store. The folder is the index: a complete copy lies at its key.
//
//   public/PATH           Copies of what everybody may read. Only the daemon
//                         writes here. Folders 0755, copies 0644.
//   private/UID/PATH      One user's copies. private/UID belongs to the
//                         daemon's user, mode 0700; if the reader is another
//                         user, with an ACL entry user:UID:--x. Copies belong
//                         to UID, mode 0600. Folders below are 0755.
//   growing/public/       Copies that the daemon makes; NAME.part, NAME.map.
//   growing/private/UID/  Copies that readers fill. Belongs to UID, mode 0700.
//
// PATH is the path in the source without links resolved: absolute, with no
// "", "." or ".." as a component. NAME is PATH's 128-bit FNV-1a hash in 32
// lower-case hexadecimal digits. A path too long to fit is not copied.
//
// A complete copy has the extended attribute kSourceAttribute, an Identity:
// it gets it before it comes to its place. A copy without any right in its mode
// is none: its owner has dropped it. kBlocksAttribute has its checksums, which
// only the daemon reads. Every folder here may be missing: then there is
// nothing.
//
// How a copy comes to be, one that a reader fills:
//
// 1. The shim opens the source for the caller. At the first read, if State
//    allows it, the file was modified 10 s ago or earlier, and
//    growing/private/UID is there, it makes NAME.part exclusively, then
//    NAME.map, and writes its header. It sends kGrowing with descriptors of
//    source, map and part, and waits for nothing. The daemon removes a part
//    whose map has not come for some seconds.
// 2. Each read that the shim sees goes, as far as the map says, to the part;
//    else to the source, and then what was read is written to the part, and
//    the map says so. Other processes of the same user that open the file find
//    the map by its name and do the same.
// 3. When the map is full, the shim sets kFull in the header and sends kFull.
//    If the caller stops earlier, or reads in a way that the shim cannot see,
//    it sends kClosed or kUnseen (also for a copy that nobody has begun, then
//    with a descriptor of the source). The daemon may then read what is missing
//    by the descriptor that it has, or drop the copy.
// 4. The daemon publishes a full copy only if the source's descriptor and name
//    both still have the header's Identity: it computes checksums, sets the
//    attributes, links the part's descriptor to its place, and removes NAME.*.
//    A part that is not as long as the source is dropped.
//
// To drop a growing copy, the daemon sets kDropped in the header, and removes
// NAME.*. It never truncates anything that a reader may have open.
//
// With State::kShared, files that everybody may read (by their own mode) get
// no part from the shim, and kGrowing has only the source and a map without a
// name (a memfd): the shim marks in it what it has read, and the daemon reads
// the same by the source's descriptor, from the kernel's cache. If every folder
// on the way is everybody's too, the copy grows as growing/public/NAME.*, from
// where the shim reads what is there; else the daemon makes a copy for
// private/UID out of sight. It never trusts what a reader wrote.
//
// A file of at most kSmallFileBytes bytes has neither map nor name while it
// grows: the part is made with O_TMPFILE in growing/private/UID. When it was
// read from its beginning to its end, in this order, kWhole has descriptors of
// source and part, to be published as in 4. If it was not, nothing is sent.
// With kShared and a file that everybody may read, there is no part: the daemon
// reads the source.
//
// With State::kTakes there is much room, and the daemon takes such a file of
// its own user from memory, so that its reader need not make one on a disk: the
// reader puts it into a queue (QueueHeader), and the daemon makes the copy. The
// name's status is what the kernel knows of it, as the file was opened by it a
// moment ago. If anything is not as it should be, or the queue is full, the
// reader sends kWhole.
//
// With State::kAsks, a reader that finds no complete copy and no growing one
// asks before it opens the source: kAsk, with the write end of a pipe into
// which the daemon writes Replies. So a file that another node has is not
// even opened in the source. The first reply must come within kReplyNs, each
// one after it, too. Otherwise, or if the pipe is closed, the reader opens the
// source; it asks nothing more for kQuietNs if there was no reply in time. Of
// files in a folder of State::unasked, nobody asks: many in a row were small
// and nobody else's, and to ask takes as long as to read one.
//
// Freshness. While State::valid_until has not passed, a complete copy is
// opened without asking the source: the daemon compares every copy with the
// source at least once in the minute before. ValueOf that (no daemon, or one
// that hangs), the reader compares the source's status itself before it opens
// a copy, and begins no new copies. ValueOf a reboot, before it publishes a
// State, the daemon moves away copies of another boot, and puts back each
// after having compared it with its checksums.

#ifndef TF_MALLEABLE_CC_TIER_PROTOCOL_H_
#define TF_MALLEABLE_CC_TIER_PROTOCOL_H_

#include <stdint.h>

namespace tf_malleable {
namespace tier {

inline constexpr uint32_t kVersion = 1;

// What stat() is to answer for a copy. Versions of a file of the source differ
// in size, mtime or inode; if mode, uid or gid differ, the copy is not used
// either, as perhaps not everybody may read it any more who could. Devices get
// other numbers when they are mounted again: the daemon then writes it anew.
struct Identity {
  uint32_t magic;    // kIdentityMagic.
  uint32_t version;  // kVersion.
  uint64_t device;
  uint64_t inode;
  int64_t size;
  int64_t mtime_s;
  int64_t ctime_s;
  int64_t atime_s;
  int64_t btime_s;  // Of birth; 0 if it is not known.
  uint32_t mtime_ns;
  uint32_t ctime_ns;
  uint32_t atime_ns;
  uint32_t btime_ns;
  uint32_t mode;
  uint32_t uid;
  uint32_t gid;
  uint32_t links;
  int64_t blocks;  // Of 512 bytes.
  int64_t block_size;
  uint64_t special_device;  // st_rdev: 0.
  uint64_t copy_inode;      // In the attribute: the copy's own; else 0.
};
static_assert(sizeof(Identity) == 128, "the layout is the daemon's too");
inline constexpr uint32_t kIdentityMagic = 0x694d4654;  // "TFMi"
inline constexpr char kSourceAttribute[] = "user.tfm.source";
// Checksums (zlib's crc32) of the blocks, 4 bytes each. A block is 1 MiB, or
// the next power of 2 with which a file has at most 800.
inline constexpr char kBlocksAttribute[] = "user.tfm.blocks";

// Modes of files and folders in the store.
inline constexpr uint32_t kPrivateFileMode = 0600;
inline constexpr uint32_t kFolderMode = 0755;

// NAME.map: this header, then, from kMapHeaderBytes on, one byte for each unit
// of the file: 0 or kPresent. A unit is 4 KiB, or the next power of 2 with
// which the file has at most 65536. The file may end before the last byte,
// which are 0 then. Whoever writes a byte wrote the unit to the part first.
// Bytes are written whole, so nobody needs a lock.
struct MapHeader {
  uint32_t magic;  // kMapMagic, written last: before, the map is not ready.
  uint32_t version;
  uint32_t unit;  // Bytes.
  uint32_t units;
  uint32_t state;     // MapState.
  uint32_t fetching;  // 1: the daemon fills it from another node, in order.
  uint32_t fills;     // 1: readers fill the part; 0: they mark what they read.
  uint32_t reserved;
  Identity identity;
  uint8_t padding[96];
};
static_assert(sizeof(MapHeader) == 256, "the layout is the daemon's too");
inline constexpr uint32_t kMapMagic = 0x6d4d4654;  // "TFMm"
inline constexpr int64_t kMapHeaderBytes = 256;
inline constexpr uint32_t kMinUnitBytes = 4096;
inline constexpr uint32_t kMaxUnits = 65536;
enum MapState : uint32_t {
  kIsGrowing = 0,
  kIsFull = 1,     // Every unit is there.
  kIsDropped = 2,  // Nobody may use or fill it any more.
};
inline constexpr uint8_t kPresent = 1;
// While MapHeader::fetching, a read of what is not there waits for the next
// piece for this long, and then goes to the source.
inline constexpr int64_t kStallNs = 200 * 1000 * 1000;

// The file SOCKET.state, 4096 bytes, which the daemon makes once, never
// replaces and never truncates. Readers map it. It belongs to root or to the
// reader's user. An aligned field of 8 bytes is written whole, valid_until
// last, at least each second.
inline constexpr uint64_t kUnaskedFolders = 500;
struct State {
  uint32_t magic;  // kStateMagic.
  uint32_t version;
  // The first 16 hexadecimal digits of /proc/sys/kernel/random/boot_id without
  // its '-', as a number.
  uint64_t boot;
  // Time by CLOCK_BOOTTIME in ns: now + 3 s. 0: the daemon has ended.
  uint64_t valid_until;
  uint64_t flags;    // StateFlag.
  uint64_t largest;  // Bytes: of a larger file, no copy is begun.
  uint8_t reserved[24];
  // Hashes of the folders of whose files, and of those in folders in them,
  // nobody asks, each at the place that the hash says, modulo kUnaskedFolders;
  // or 0.
  uint64_t unasked[kUnaskedFolders];
};
static_assert(sizeof(State) == 4064, "the layout is the daemon's too");
inline constexpr uint32_t kStateMagic = 0x734d4654;  // "TFMs"
inline constexpr uint64_t kStateBytes = 4096;
enum StateFlag : uint64_t {
  kFills = 1,   // Copies may be begun.
  kAsks = 2,    // Readers ask before they open the source.
  kShared = 4,  // For several users: look in public/, too.
  // The daemon takes small files of its own user from memory.
  kTakes = 16,  // 8 is of an earlier version.
};

// What a process has done since its start, in sums.
struct Counts {
  uint64_t copy_opens;     // Of complete copies.
  uint64_t copy_bytes;     // Their sizes.
  uint64_t copy_stats;     // Status of a source that a copy's attribute told.
  uint64_t source_opens;   // Below the sources, with no complete copy.
  uint64_t source_bytes;   // Read from the source by what the shim sees.
  uint64_t growing_bytes;  // Read from growing copies.
  uint64_t waits;          // For an answer, a piece, or a complete copy.
  uint64_t wait_ns;
};

// To the daemon, on a SOCK_SEQPACKET socket: one of these, followed by the
// bytes of PATH, without a zero. But for kAsk there are no answers. A reader
// that cannot send at once does without, so messages may be lost: the daemon
// also looks at growing copies now and then. Credentials are the socket's: each
// process, a forked one too, has its own connection, which it keeps.
struct Message {
  uint32_t magic;     // kMessageMagic.
  uint32_t kind;      // MessageKind.
  Identity identity;  // The source's when it was opened: or 0.
  Counts counts;
};
static_assert(sizeof(Message) == 200, "the layout is the daemon's too");
inline constexpr uint32_t kMessageMagic = 0x714d4654;  // "TFMq"
enum MessageKind : uint32_t {
  // With descriptors of source, map, and part if there is one.
  kGrowing = 1,
  kFull = 2,  // The map is.
  // The reader has closed it before all was there; or was told to make a copy,
  // and does not.
  kClosed = 3,
  // The reader goes on in a way that the shim does not see. With a descriptor
  // of the source, if no kGrowing was sent.
  kUnseen = 4,
  // PATH (a file, or a folder with all in it) was changed through the shim,
  // which has removed the user's own copy.
  kChanged = 5,
  // PATH is a complete copy that was opened lately, or empty. At most one each
  // second, and one when the process ends.
  kCounts = 6,
  kWhole = 7,  // With descriptors of source, and part if there is one.
  kAsk = 8,    // With the write end of a pipe.
  // 9 is of an earlier version.
  kQueue = 10,   // With the descriptor of this process's queue; no PATH.
  kHanded = 11,  // Something is in the queue, which was not watched; no PATH.
};
inline constexpr int64_t kSmallFileBytes = 1 << 20;

// What a reader hands over: a memfd of kQueueBytes that can neither shrink nor
// grow. It begins with a QueueHeader, and from kQueueRingOffset on is a ring:
// records follow each other, and none goes over its end. Positions are counted
// from the beginning of time, modulo kQueueRingBytes.
struct QueueHeader {
  uint32_t magic;  // kQueueMagic.
  uint32_t version;
  uint64_t written;     // The position after the last record; by the reader.
  uint64_t taken;       // Of the next one that the daemon takes; by the daemon.
  uint32_t is_watched;  // 1: the daemon looks again, or has been told to.
  uint32_t is_busy;     // 1: the daemon is at the record at `taken`.
};
inline constexpr uint32_t kQueueMagic = 0x754d4654;  // "TFMu"
inline constexpr uint64_t kQueueRingOffset = 4096;
inline constexpr uint64_t kQueueRingBytes = 4 << 20;
inline constexpr uint64_t kQueueBytes = kQueueRingOffset + kQueueRingBytes;
// Followed by the key and the bytes of the file.
struct QueueRecord {
  uint32_t magic;  // kRecordMagic; or kSkipMagic: go on at the ring's begin.
  uint32_t key_size;
  uint64_t size;          // Of all of it: QueueRecordSize().
  uint32_t is_withdrawn;  // 1: there is to be no copy any more.
  uint32_t reserved;
  Identity identity;
};
inline constexpr uint32_t kRecordMagic = 0x724d4654;   // "TFMr"
inline constexpr uint32_t kSkipMagic = 0x6b4d4654;     // "TFMk"
inline constexpr uint64_t kQueueRecordAlignment = 64;  // Bytes.
inline constexpr uint64_t QueueRecordSize(uint64_t key, uint64_t data) {
  return (sizeof(QueueRecord) + key + data + kQueueRecordAlignment - 1) /
         kQueueRecordAlignment * kQueueRecordAlignment;
}
enum Reply : uint8_t {
  kUseSource = 'S',  // Nobody else has it: this node has the claim.
  kUseCopy = 'C',    // There is a complete copy now.
  kFollow = 'F',     // There is a growing copy now: open the source, follow it.
  kWait = 'W',       // It comes; another reply follows.
};
inline constexpr int64_t kReplyNs = 250 * 1000 * 1000;
inline constexpr int64_t kQuietNs = 30LL * 1000 * 1000 * 1000;

// What the shim is told: the environment variable kEnvironmentVariable has
// lines
//   socket=PATH  the daemon's. Beside it is PATH.state.
//   store=PATH   the store.
//   source=PATH  once or more often: a folder of the source as programs name
//                it; absolute, without links, "." or a "/" at its end.
//   as=PATH      after a source: what the daemon calls it, if mounted
//   elsewhere.
//   counts=PATH  a file with room for Counts, the sums of all processes of a
//   job.
// Lines with other words are ignored; without a valid socket, store and source
// the shim does nothing.
inline constexpr char kEnvironmentVariable[] = "TF_MALLEABLE_TIER";

}  // namespace tier
}  // namespace tf_malleable

#endif  // TF_MALLEABLE_CC_TIER_PROTOCOL_H_
