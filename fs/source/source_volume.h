// SPDX-License-Identifier: Apache-2.0
// From a SOURCE to its open volume, on one brick or on the bricks of a set: what the mount, the library and brickctl
// share.
#pragma once

#include <memory>
#include <string>

#include "fs/source/source_brick.h"
#include "transport/base/result.h"
#include "transport/brick/client_secret.h"
#include "transport/brick/source.h"
#include "transport/etcd/etcd_options.h"
#include "transport/volume/volume_set.h"

namespace brickfs {

// Why a source was not opened.
struct SourceFailure {
  Source brick;      // the one that it is about, alone
  std::string name;  // it, as people write it: the source, if that has one brick only
  Holder holder;     // with EBUSY
  std::string why;   // one line, if it says more than the error
};

// What a client has to show.
struct SourceAccess {
  ClientSecret secret;  // to bricks
  EtcdOptions etcd;     // to etcd, of a replicated set
};

// `name`: the source as it was given. `grow`: bricks of the source that the volume does not have yet join it. Errors as
// VolumeSet::open, make_brick() and EtcdMapStore::open.
Result<std::unique_ptr<VolumeSet>> open_source(const Source& source, const std::string& name,
                                               const SourceAccess& access, const VolumeOptions& options, bool grow,
                                               SourceFailure& failure);

}  // namespace brickfs
