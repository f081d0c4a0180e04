// SPDX-License-Identifier: Apache-2.0
// From a SOURCE to its brick, or to its open volume on one brick or on those of a set: what the mount, the library and
// brickctl share.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "transport/base/result.h"
#include "transport/brick/administration.h"
#include "transport/brick/brick.h"
#include "transport/brick/client_secret.h"
#include "transport/brick/proof.h"
#include "transport/brick/source.h"
#include "transport/etcd/etcd_options.h"
#include "transport/volume/volume_set.h"

namespace brickfs {

// Of one brick, over the network or embedded in this process (EINVAL: of a set, or etcd). No session yet. With one line
// in `why` where there is more to say than the error does.
Result<std::unique_ptr<Brick>> make_brick(const Source& source, const ClientSecret& secret, std::string* why);

// An administrator's call on the source's brick, whose volume does not matter. An embedded brick asks for no secret.
// Errors as administer_remote() (transport/paths/administer.h), or of opening the brick, with one line in `why`.
Result<AdminAnswer> administer(const Source& source, const ClientSecret& secret, const AdminRequest& request,
                               std::string* why);

// A volume that is held is tried for so long: its holder may be on his way out, who has the last bytes of a store file
// written to its disk before he goes.
std::chrono::seconds holder_leaves_within(const Source& source);
constexpr std::chrono::milliseconds kTryHeldAgain{100};

// Why a volume was not opened, in one line that begins with `name`, the source as it was given. `steal` and `secret`
// say in what words the options of that name are asked for: "-o steal". `shared`: likewise; null: there is none.
struct OpenWords {
  const char* steal;
  const char* secret;
  const char* shared;
};
std::string describe_open_failure(const Error& error, const std::string& name, const Source& source,
                                  const Holder& holder, bool has_secret, const OpenWords& words);

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

// Who has the volume now, or had it and was cut off; none: it was let go of. Does not disturb him. Errors as
// make_brick(), Brick::open() and MapStore::load().
Result<std::optional<Holder>> find_holder(const Source& source, const SourceAccess& access);

// A session for reading, or for writing, too, with a brick of a volume that another client has, bound to his lease:
// with the one of that place, or the replica that is named. Waits for it half a second, where it was there before.
// Errors as make_brick() and VolumeClient::open.
Result<std::unique_ptr<VolumeClient>> open_bound(const Source& source, const ClientSecret& secret, size_t place,
                                                 const ReadableBrick& brick, bool writes, ClientId client,
                                                 const std::string& client_name);

// `name`: the source as it was given. `grow`: bricks of the source that the volume does not have yet join it. Errors as
// VolumeSet::open, make_brick() and EtcdMapStore::open.
Result<std::unique_ptr<VolumeSet>> open_source(const Source& source, const std::string& name,
                                               const SourceAccess& access, const VolumeOptions& options, bool grow,
                                               SourceFailure& failure);

}  // namespace brickfs
