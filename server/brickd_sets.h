// SPDX-License-Identifier: Apache-2.0
// brickd --etcd: replicated sets that have a copy on this brick, as their maps in etcd say (docs/sets.md). The brick
// itself knows of none. A thread of its own asks etcd, while somebody looks, and nothing else waits for it.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "server/service/brick_service.h"
#include "transport/base/mutex.h"
#include "transport/base/result.h"
#include "transport/base/thread.h"
#include "transport/brick/source.h"
#include "transport/etcd/etcd_client.h"
#include "transport/membership/set_map.h"

namespace brickfs {

struct SetOnBrick {
  std::string name;
  SetMap map;
  std::set<MemberId> here;  // of its replicas: at least one
};

class BrickSets {
 public:
  struct View {
    std::string trouble;           // why etcd, or one of its maps, cannot be read now: one line
    int64_t unix_seconds = 0;      // of `sets`; 0: etcd has not answered yet
    std::vector<SetOnBrick> sets;  // by name
  };
  static constexpr std::chrono::seconds kApart{2};  // from an answer to the next question

  // The service outlives this; it serves at `listens`.
  BrickSets(const BrickService& service, std::vector<ListenUrl> listens, std::unique_ptr<EtcdClient> etcd);
  ~BrickSets();  // waits until a call of etcd has ended, some seconds if it is away
  BrickSets(const BrickSets&) = delete;
  BrickSets& operator=(const BrickSets&) = delete;

  // As etcd was seen last. It is asked again soon. Any thread.
  View look() ABSL_LOCKS_EXCLUDED(mutex_);
  // Etcd is not asked any more. False: a call of it is under way, and the destructor would wait.
  bool end() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void run();
  // With a line in `why`, too, if some map could not be used.
  Result<std::vector<SetOnBrick>> ask(std::string* why);
  std::set<MemberId> replicas_here(const SetMap& map, const std::set<std::string>& volumes) const;

  const BrickService& service_;
  const std::vector<ListenUrl> listens_;
  const std::unique_ptr<EtcdClient> etcd_;

  Mutex mutex_;
  CondVar changed_;
  bool somebody_looks_ ABSL_GUARDED_BY(mutex_) = true;  // once at the start, for the log
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  View view_ ABSL_GUARDED_BY(mutex_);
  Thread thread_{[this] { run(); }};
};

// "HOST[:PORT][,HOST[:PORT]]..." of one etcd. EINVAL, with one line in `why`.
Result<std::vector<HostPort>> parse_etcd_endpoints(std::string_view text, std::string* why);

}  // namespace brickfs
