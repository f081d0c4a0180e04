// SPDX-License-Identifier: Apache-2.0
// Every bound on a queue, a buffer, a batch or a name. What is exhausted is waited for or answered with an errno.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "transport/base/bytes.h"

namespace brickfs::limits {

// --- volumes and leases
constexpr size_t kVolumeNameBytes = 63;
constexpr size_t kClientNameBytes = 127;  // "host (pid 123)", for people
constexpr size_t kSecretBytes = 4096;     // of a secret file
constexpr size_t kSecrets = 64;           // in a secret file
constexpr size_t kVolumes = 1024;         // on one brick
constexpr size_t kKeysOfVolume = 16;
constexpr size_t kKeys = 4096;                       // of all volumes of a brick
constexpr size_t kReadOnlyHolders = 256;             // of one volume
constexpr std::chrono::milliseconds kLease{10'000};  // a holder not heard of for so long is cut off
constexpr std::chrono::milliseconds kGrace{10'000};  // a restarted brickd keeps volumes for their holders for so long
constexpr std::chrono::milliseconds kKeepAlive{2'000};  // a client is heard of at least so often
constexpr size_t kAddressesPerBrick = 8;                // of one source: paths to one brick
constexpr size_t kBricksPerSet = 64;                    // that one volume is striped over
constexpr size_t kEtcdEndpoints = 9;                    // of one source
constexpr uint64_t kReplicas = 4;                       // of a place of a set, at most

// --- control calls
constexpr uint64_t kBlocksPerCall = 4096;  // of one alloc, free, map or unmap
constexpr size_t kExtentsPerListPage = 4096;
constexpr size_t kRangesPerCommit = 8192;
constexpr std::chrono::milliseconds kConnectTimeout{4'000};  // a silent address is given up after this
constexpr std::chrono::milliseconds kHandshakeTimeout{4'000};
constexpr std::chrono::milliseconds kAdministrationTimeout{300'000};  // a large volume is removed block by block
constexpr std::chrono::milliseconds kCallTimeout{30'000};             // a control call; commit may wait for a disk
constexpr std::chrono::milliseconds kProgressTimeout{10'000};         // no byte of a frame under way for so long: dead
constexpr size_t kTagsPerVolume = 1024;                               // of notifications that a volume remembers
constexpr size_t kTagsPerWait = 64;                                   // waited for with one call
constexpr size_t kWaitsPerSession = 8;                                // at a time, each on a connection
constexpr std::chrono::milliseconds kWaitMost{10'000};                // of one call; who waits longer asks again

// --- data calls
constexpr uint64_t kTransferBytes = 4 * kMiB;  // of one transfer
constexpr size_t kSlicesPerTransfer = 30;      // local slices of one transfer (Soft-RoCE takes 32)
constexpr size_t kTransfersPerBatch = 1024;

// --- verbs (docs/protocol.md, "RDMA")
constexpr uint32_t kQueuePairs = 4;            // queue pairs for data that a client opens on each path, at most
constexpr uint32_t kQueuePairsPerSession = 8;  // a brick gives out; also the keys of one handle
constexpr uint32_t kQueuePairDepth = 256;      // work requests under way on a queue pair; who posts more waits
constexpr uint32_t kPostChain = 32;            // work requests handed to the device at once
constexpr uint32_t kReadsInFlight = 16;        // RDMA READs under way on a queue pair, if the device has so many
constexpr size_t kStagingBytes = 256 * kKiB;   // of one buffer for memory that is not registered
constexpr size_t kStagingBuffers = 16;
constexpr uint64_t kSlabBytes = 64 * kMiB;  // at least, of the brick's memory registered together for windows on it
constexpr size_t kSlabs = 64;               // for each client and device; some devices have few regions
// Nominally 2^14 * 4.096 us = 67 ms an attempt (adapters take up to four times that): 7 attempts, so a path that is
// dead fails a work request after 0.5 to 1.9 s, within what a mount may stall, and a lossy one has six more tries.
constexpr uint8_t kAckTimeout = 14;
constexpr uint8_t kRetryCount = 6;  // 7, the most there is, is "for ever" to Soft-RoCE
// Who sends knows that a receive is posted, so a receiver that is not ready is a broken peer.
constexpr uint8_t kRnrRetryCount = 0;

// --- libfabric (docs/protocol.md, "libfabric")
constexpr size_t kEndpointNameBytes = 256;

// --- brickd
// Of peers that proved themselves. Others: transport/accept/accept_limits.h; sessions: server/service/server_limits.h.
constexpr size_t kConnections = 4096;
constexpr size_t kFirstBodyBytes = 1024;                   // of OPEN and ATTACH, whose sender is still unauthenticated
constexpr std::chrono::milliseconds kListenerTick{1'000};  // silent holders are looked for so often

// --- the client's side of a volume
constexpr uint64_t kReplayBytes = 64 * kMiB;  // uncommitted bytes kept for replay; writers wait beyond
constexpr uint64_t kBlocksPerHandle = 16;     // mapped, and given up, together
constexpr uint64_t kWritableBlocks = 512;     // mapped for writing on a durable brick: a take-over compares them all
constexpr std::chrono::milliseconds kReconnectFirst{20};
constexpr std::chrono::milliseconds kReconnectMost{1'000};
constexpr std::chrono::milliseconds kPathProbeFirst{1'000};  // a failed path is looked at after this
constexpr std::chrono::milliseconds kPathProbeMost{30'000};  // and then less and less often, down to this
constexpr std::chrono::milliseconds kPathHealthy{3'000};     // works for so long without a gap before it is trusted
constexpr std::chrono::milliseconds kPathTrial{60'000};      // fails again sooner: it has not been healthy
constexpr std::chrono::seconds kSoftTimeout{60};             // default of timeo=

// --- the file system
constexpr size_t kNameBytes = 255;
constexpr size_t kSymlinkBytes = 4095;
constexpr size_t kXattrNameBytes = 255;
constexpr size_t kXattrValueBytes = 65536;
constexpr size_t kXattrsBytesPerInode = 1 * kMiB;
constexpr uint32_t kLinksPerInode = 0x7fff'ffff;
constexpr uint64_t kFileBytes = INT64_MAX;
constexpr uint64_t kVolumeBytes = uint64_t{1} << 63;  // volume addresses of a file system are below
// Numbers that only grow. A volume on which fewer than kSpareNumbers of transactions or generations are left is read
// only.
constexpr uint64_t kInodeNumber = INT64_MAX;
constexpr uint64_t kCookie = INT64_MAX;  // FUSE and getdents have them signed
constexpr uint64_t kLsn = INT64_MAX;
constexpr uint64_t kGeneration = INT64_MAX;  // of a superblock; also a checkpoint's id
constexpr uint64_t kSpareNumbers = uint64_t{1} << 32;
constexpr size_t kTransactionBytes = 1 * kMiB;     // of rows; an operation with more is split into several
constexpr size_t kJournalPendingBytes = 8 * kMiB;  // of transactions not yet on the brick; operations wait beyond

}  // namespace brickfs::limits
