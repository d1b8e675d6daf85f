// Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
//
// Protocol between the shim in a reader and the daemon of a node: the layout of
// the store, and the messages. tf_malleable/tier/protocol.py is the same in
// Python. All numbers are little-endian and at their natural alignment.
//
// Terms. The source is the file system that programs read; the store is the
// folder on the node's disk with the copies. A reader is a process with the
// shim. A partial copy is a copy in the making: the part is the file that
// becomes the copy, and the map says which units of the part are present. The
// claim is the permission to read a file from the source, which only one node
// has at a time.
//
// The store. Its folders are the index of the complete copies. The daemon alone
// writes to it.
//
//   public/PATH           Copies of files that everybody may read. Folders
//   0755,
//                         copies 0644.
//   private/UID/PATH      One user's copies. private/UID belongs to the
//                         daemon's user, mode 0700; if the reader is another
//                         user, with an ACL entry user:UID:--x. Copies belong
//                         to UID, mode 0600. Folders below are 0755.
//   growing/AREA/         Partial copies of the area public or private/UID:
//                         NAME.part and NAME.map. Modes as of the area.
//
// PATH is the path in the source without links resolved: absolute, with no
// "", "." or ".." as a component. NAME is the 128-bit FNV-1a hash of PATH in 32
// lower-case hexadecimal digits. A file whose path is too long is not copied.
//
// A complete copy has the extended attribute kSourceAttribute, an Identity,
// which is set before the copy gets its name, and as its mtime the
// VersionStamp of the source, which is faster to read. If a file system cannot
// store that, the attribute is compared. The attribute kBlocksAttribute has the
// checksums of the copy, which only the daemon reads. Any folder may be
// missing; it then counts as empty.
//
// The life of a copy:
//
// 1. Absent. The shim opens the source for the caller. At the first read, if
//    State allows it and the file was last modified 10 s ago or earlier, the
//    shim creates a map without a name (a memfd), writes its header, and sends
//    kReading with descriptors of source and map. It does not wait. Each read
//    that the shim sees is marked in this map.
// 2. Partial. The daemon checks that the descriptor is the file of that path,
//    chooses the area, creates NAME.part and NAME.map there, and reads by the
//    source's descriptor what readers have read: from the kernel's cache. A
//    reader finds the daemon's map by its name, and reads the units that it
//    marks as present from the part. When a reader stops (kClosed), or reads in
//    a way that the shim cannot see (kUnseen, also for a copy that was not
//    begun, then with a descriptor of the source), the daemon may read the rest
//    itself, or drop the copy.
// 3. Complete and published. If the source's descriptor and name both still
// have
//    the Identity, the daemon sets the attributes and renames the part to its
//    place. To drop a partial copy, it sets kIsDropped in the header of the
//    map, and removes NAME.*. It never truncates a file that a reader may have
//    open.
// 4. Evicted, or found to differ from its source: the daemon removes the copy.
//
// A file of at most kSmallFileBytes has no map: when it was read from beginning
// to end, in this order, the shim sends kWhole with a descriptor of the source.
// If it is read in another way, the shim sends kUnseen.
//
// Nothing that a reader sends is trusted, but to hold for its own user: the
// bytes of a copy that other users read come from the file that the daemon has
// found at the path itself.
//
// With State flag kAsks, a reader that finds neither a complete nor a partial
// copy looks the file up before it opens the source: it sends kAsk with one end
// of a pair of connected Unix stream sockets, into which the daemon sends
// Replies. So a file that another node has is not even opened in the source. It
// is no pipe, as a write to a pipe blocks if the reader wants it to: the flag
// O_NONBLOCK is the reader's, too. The first reply, and each one after it, must
// come within kReplyNs. Otherwise, or if the daemon has closed its end, the
// reader opens the source; if a reply was late, it looks nothing up for
// kQuietNs. Readers look up no files in the folders of State::unasked: many
// files there in a row were small and on no other node, and a lookup takes as
// long as reading such a file.
//
// Freshness. A reader compares the status of the source with a copy's attribute
// each time it opens the copy, so that it never gets an older version, nor a
// file that it may not read any more; with State flag kSyncs, it has the status
// fetched from the file server. With kUnchecked, while State is valid, it does
// not: the daemon then has compared all copies within the time that its
// administrator allows. After a reboot, before it publishes a State, the daemon
// moves away copies from before the boot, and moves each back after it has
// compared the copy with its checksums.

#ifndef TF_MALLEABLE_CC_TIER_PROTOCOL_H_
#define TF_MALLEABLE_CC_TIER_PROTOCOL_H_

#include <stdint.h>

namespace tf_malleable {
namespace tier {

inline constexpr uint32_t kVersion = 2;  // Of this protocol.

// Status of a file in the source, which stat() returns for its copy. Versions
// of a file differ in size, mtime, ctime or inode. A change of mode, owner or
// ACL changes the ctime, too. A device may get another number when it is
// mounted again: the daemon then rewrites the attribute.
struct Identity {
  uint32_t magic;    // kIdentityMagic.
  uint32_t version;  // kVersion.
  uint64_t device;
  uint64_t inode;
  int64_t size;
  int64_t mtime_s;
  int64_t ctime_s;
  int64_t atime_s;
  int64_t btime_s;  // Time of birth; 0 if it is unknown.
  uint32_t mtime_ns;
  uint32_t ctime_ns;
  uint32_t atime_ns;
  uint32_t btime_ns;
  uint32_t mode;
  uint32_t uid;
  uint32_t gid;
  uint32_t links;
  int64_t blocks;  // Allocated size in units of 512 bytes.
  int64_t block_size;
  uint64_t special_device;  // As st_rdev: 0.
  uint64_t copy_inode;      // Inode of the copy in its attribute; else 0.
};
static_assert(sizeof(Identity) == 128, "the layout is the daemon's too");
inline constexpr uint32_t kIdentityMagic = 0x694d4654;  // "TFMi"
inline constexpr char kSourceAttribute[] = "user.tfm.source";
// Checksums of the blocks (zlib's crc32), 4 bytes each. A block has 1 MiB, or
// the next power of 2 with which the file has at most 800 blocks.
inline constexpr char kBlocksAttribute[] = "user.tfm.blocks";

// The 64-bit FNV-1a hash.
inline constexpr uint64_t kFnv64Basis = 0xcbf29ce484222325;
inline constexpr uint64_t kFnv64Prime = 0x100000001b3;

// Returns a time in ns since 1970 that stands for a version of a file: a hash
// of 59 bits. It is before 1988, as file systems set the access time at each
// read as long as it is before the modification time.
inline int64_t VersionStamp(uint64_t inode, int64_t size, int64_t mtime_s,
                            uint32_t mtime_ns, int64_t ctime_s,
                            uint32_t ctime_ns) {
  const uint64_t fields[] = {
      inode,    static_cast<uint64_t>(size),    static_cast<uint64_t>(mtime_s),
      mtime_ns, static_cast<uint64_t>(ctime_s), ctime_ns};
  uint64_t hash = kFnv64Basis;
  for (const uint64_t each : fields) {
    hash = (hash ^ each) * kFnv64Prime;
    hash ^= hash >> 32;
  }
  constexpr int kSecondBits = 29;
  constexpr uint64_t kNsPerSecond = 1000000000;
  const uint64_t seconds = hash & ((uint64_t{1} << kSecondBits) - 1);
  return static_cast<int64_t>(seconds * kNsPerSecond +
                              (hash >> kSecondBits) % kNsPerSecond);
}

// Header of NAME.map, and of a reader's map. One byte for each unit of the file
// follows from kMapHeaderBytes on: 0 or kPresent. A unit has 4 KiB, or the next
// power of 2 with which the file has at most 65536 units. The map may be
// shorter: missing bytes count as 0. The daemon writes the unit to the part
// before it marks the unit in the map. Bytes are written atomically, so no lock
// is needed.
struct MapHeader {
  uint32_t magic;  // kMapMagic, written last: before, the map is not ready.
  uint32_t version;
  uint32_t unit;      // Size of a unit in bytes.
  uint32_t units;     // Number of units.
  uint32_t state;     // MapState.
  uint32_t fetching;  // 1: the daemon fills it in order, ahead of its readers.
  uint32_t reserved[2];
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
  kIsFull = 1,     // The copy is complete.
  kIsDropped = 2,  // No process may use or fill it any more.
};
inline constexpr uint8_t kPresent = 1;
// Time for which a read of a missing range waits while MapHeader::fetching is
// set, before it reads the source.
inline constexpr int64_t kStallNs = 200 * 1000 * 1000;

// Number of folders in State::unasked.
inline constexpr uint64_t kUnaskedFolders = 500;

// The file SOCKET.state, kStateBytes long, which the daemon creates once, and
// never replaces or truncates. Readers map it. It belongs to root or to the
// reader's user. The daemon writes each aligned field of 8 bytes atomically,
// valid_until last, at least once a second.
struct State {
  uint32_t magic;  // kStateMagic.
  uint32_t version;
  // Boot of the machine: the first 16 hexadecimal digits of
  // /proc/sys/kernel/random/boot_id, without '-', as a number.
  uint64_t boot;
  // Time until which the State is valid, by CLOCK_BOOTTIME in ns: 3 s after it
  // was written; 0 after the daemon has ended.
  uint64_t valid_until;
  uint64_t flags;    // StateFlag.
  uint64_t largest;  // Maximum size of a file that is copied, in bytes.
  // Device and inode of the folder of the store, by which a reader knows it
  // under any path.
  uint64_t store_device;
  uint64_t store_inode;
  uint8_t reserved[8];
  // Hashes of folders, or 0: readers look up no files in these folders and in
  // the folders directly in them. A hash is at the index hash %
  // kUnaskedFolders.
  uint64_t unasked[kUnaskedFolders];
};
static_assert(sizeof(State) == 4064, "the layout is the daemon's too");
inline constexpr uint32_t kStateMagic = 0x734d4654;  // "TFMs"
inline constexpr uint64_t kStateBytes = 4096;
inline constexpr char kStateSuffix[] = ".state";  // After the socket's path.
// After kStateBytes, the file has a text of at most so many bytes, with these
// lines:
//   store=PATH   Folder of the store.
//   source=PATH  Folder of the source: absolute, without links, "." or a "/" at
//                its end. May be repeated.
// A daemon with another store or source puts another file in its place.
inline constexpr uint64_t kMaxStateTextBytes = 16383;
enum StateFlag : uint64_t {
  kFills = 1,      // The daemon makes copies.
  kAsks = 2,       // Readers look files up before they open the source.
  kShared = 4,     // The store has several users: look in public/, too.
  kUnchecked = 8,  // Copies are opened without a look at the source.
  kSyncs = 16,     // A look at the source asks its server.
};

// Counters of a process since its start.
struct Counts {
  uint64_t copy_opens;     // Complete copies that were opened.
  uint64_t copy_bytes;     // Sum of the sizes of these copies.
  uint64_t source_opens;   // Files opened in the source for lack of a copy.
  uint64_t source_bytes;   // Bytes read from the source, as the shim sees it.
  uint64_t growing_bytes;  // Bytes read from partial copies.
  uint64_t waits;          // Waits for a reply, a range or a complete copy.
  uint64_t wait_ns;        // Duration of these waits.
};

// Message to the daemon on a SOCK_SEQPACKET socket, followed by the bytes of
// PATH without a zero. Only kAsk is answered. A reader that cannot send at once
// drops the message, so messages may be lost. The credentials are the socket's:
// each process, also a forked one, has its own connection, which it keeps.
struct Message {
  uint32_t magic;     // kMessageMagic.
  uint32_t kind;      // MessageKind.
  Identity identity;  // Identity of the source when it was opened; or 0.
  Counts counts;
};
static_assert(sizeof(Message) == 192, "the layout is the daemon's too");
inline constexpr uint32_t kMessageMagic = 0x714d4654;  // "TFMq"
enum MessageKind : uint32_t {
  kReading = 1,  // With descriptors of source and map.
  // The reader has closed the file, or sends nothing more about it; or it has
  // the claim, and does not read the file.
  kClosed = 2,
  // The reader goes on to read in a way that the shim does not see. With a
  // descriptor of the source, if no kReading was sent.
  kUnseen = 3,
  // PATH is a complete copy that was opened lately, or empty. At most one
  // message a second, and one when the process ends.
  kCounts = 4,
  kWhole = 5,  // A small file was read. With a descriptor of the source.
  kAsk = 6,    // With one end of a pair of stream sockets.
};
// Maximum size of a small file.
inline constexpr int64_t kSmallFileBytes = 1 << 20;

enum Reply : uint8_t {
  kUseSource = 'S',  // No other node has the file: this node has the claim.
  kUseCopy = 'C',    // A complete copy exists now.
  kFollow = 'F',     // A partial copy exists now: open the source, follow it.
  kWait = 'W',       // The file is on its way; another reply follows.
};
// Time for which a reader waits for each reply.
inline constexpr int64_t kReplyNs = 250 * 1000 * 1000;
// Time without lookups after a reply was late.
inline constexpr int64_t kQuietNs = 30LL * 1000 * 1000 * 1000;

// Environment variable with the settings of the shim, one a line:
//   socket=PATH  Socket of the daemon. Beside it is PATH.state, the file with
//                the State.
//   counts=PATH  File with room for Counts, the sums of all processes of a job.
// If what the daemon has is mounted elsewhere for the reader:
//   store=PATH   Folder of the store.
//   source=PATH  Folder of the source as programs name it, instead of all that
//                the daemon names. May be repeated.
//   as=PATH      After a source: its path for the daemon.
// Other lines are ignored.
//
// Trust. The shim believes only what root or its own user has put there, and
// does nothing otherwise: nobody else can change the folders of socket and
// store (OpenTrustedFolder), the file with the State is owned by one of the two
// and the listening socket was made by one, the store has the device and inode
// that the State names, and each source is one of the daemon's or in one.
inline constexpr char kEnvironmentVariable[] = "TF_MALLEABLE_TIER";

}  // namespace tier
}  // namespace tf_malleable

#endif  // TF_MALLEABLE_CC_TIER_PROTOCOL_H_
