// SPDX-License-Identifier: Apache-2.0
#include "fs/served/served_volume.h"

#include <fmt/core.h>

#include <chrono>
#include <thread>
#include <utility>

#include "fs/mount/mount_source.h"
#include "fs/mount/second_mount.h"
#include "fs/mount/status/last_seen.h"
#include "fs/shared/join.h"
#include "fs/source/source_volume.h"
#include "transport/base/local_time.h"
#include "transport/base/log.h"
#include "transport/base/progress_bar.h"
#include "transport/brick/limits.h"
#include "transport/membership/client_identity.h"
#include "transport/membership/coordinator_name.h"

namespace brickfs {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

// A coordinator that has just come may not be ready, and one that has just gone is still the holder.
constexpr seconds kCoordinatorComes{20};
constexpr milliseconds kBetweenTries{250};
// A volume that was handed over is left for so long to whom it is meant for.
constexpr seconds kSuccessorTakes{3};

// Nobody listens where the coordinator should be: he may have ended.
bool is_gone(const Error& error) {
  switch (error.code()) {
    case ECONNREFUSED:
    case ECONNRESET:
    case ENOTCONN:
    case EPIPE:
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case ENETUNREACH:
      return true;
    default:
      return false;
  }
}

// He begins, or ends; or another machine was faster.
bool may_change(const Error& error) {
  return is_gone(error) || error.is(EAGAIN) || error.is(ESTALE) || error.is(EBUSY);
}

}  // namespace

Result<std::unique_ptr<ServedVolume>> ServedVolume::open(const MountCommand& command,
                                                         std::function<void(const std::string& why)> waiting,
                                                         std::string* why) {
  std::unique_ptr<ServedVolume> served(new ServedVolume());
  TRY(command.shared ? served->open_shared(command, std::move(waiting), why)
                     : served->open_own(command, waiting, client_name(), why));
  return served;
}

Status ServedVolume::open_own(const MountCommand& command, const std::function<void(const std::string& why)>& waiting,
                              std::string client_name, std::string* why) {
  const auto commit_wanted = [target = commit_target_] {
    if (Filesystem* const filesystem = *target) filesystem->want_commit();
  };
  MountRetry retry(command, waiting);
  auto volume = TRY(open_volume(command, {commit_wanted, client_, std::move(client_name), takes_over_}, retry, why));
  const MountOptions options{.read_only = command.read_only,
                             .writeback_cache = command.writeback == Writeback::kOn,
                             .no_atime = command.no_atime,
                             .shared = command.shared,
                             .max_metadata_bytes = command.max_metadata_bytes,
                             .progress = progress_for_people(command.log_target())};
  std::string reason;
  auto filesystem = Filesystem::mount(std::move(volume), options, &reason);
  if (!filesystem.ok()) {
    if (reason.empty()) reason = describe(filesystem.error());
    *why = fmt::format("{}: {}", command.source, reason);
    return filesystem.error();
  }
  filesystem_ = std::move(*filesystem);
  *commit_target_ = filesystem_.get();
  look_at_last_seen(command.source);
  return {};
}

// Who has it now is asked to let us in; if he does not answer, or nobody has it, it is opened. Both may change under
// our feet: two machines are booted at once, or a coordinator ends.
Status ServedVolume::open_shared(const MountCommand& command, std::function<void(const std::string& why)> waiting,
                                 std::string* why) {
  const Source source = TRY(parse_source(command.source, why));
  if (source.embedded()) {
    *why = fmt::format("option shared: {} is in this process, no other machine has it", command.source);
    return Error(EINVAL, "shared");
  }
  const ClientSecret secret = TRY(secret_of(command, why));
  command_ = command;
  command_.steal = false;
  const auto until = steady_clock::now() + kCoordinatorComes;
  while (true) {
    const auto holder = find_holder(source, {secret, command.etcd});
    const bool is_shared = holder.ok() && *holder && address_of_coordinator((*holder)->name);
    Status opened = Error(ENOENT, "nobody shares the volume");
    if (is_shared && !command.steal) opened = join(command, **holder, why);
    if (opened.ok()) return {};
    if (!is_shared && command.read_only)
      *why = fmt::format("{}: option ro,shared: nobody shares the volume yet", command.source);
    const bool may_coordinate = !command.read_only && (!is_shared || command.steal || is_gone(opened.error()));
    const bool is_over = opened.code() == ECONNREFUSED || (holder.ok() && !*holder);
    if (may_coordinate) opened = coordinate(command, waiting, why);
    if (opened.ok()) {
      if (!filesystem_->members().empty()) return follow(command, is_over, why);
      serve_switched(command);
      return {};
    }
    const bool is_another_s = holder.ok() && *holder && !is_shared;
    if (is_another_s || !may_change(opened.error()) || steady_clock::now() >= until) return opened;
    std::this_thread::sleep_for(kBetweenTries);
  }
}

void ServedVolume::serve_switched(const MountCommand& command) {
  std::optional<milliseconds> soft;
  if (command.soft) soft = command.soft_timeout;
  auto confirm = [this, soft](steady_clock::time_point began, const Interruption* by) {
    const auto coordinator = this->coordinator();
    if (!coordinator) return Status();
    return coordinator->confirm_own(began, soft, by);
  };
  switched_ = std::make_unique<shared::SwitchedFiles>(*leased_, std::move(confirm));
}

Status ServedVolume::join(const MountCommand& command, const Holder& holder, std::string* why) {
  const Source source = TRY(parse_source(command.source, why));
  const ClientSecret secret = TRY(secret_of(command, why));
  shared::CoordinatorLink::Config config;
  config.address = *address_of_coordinator(holder.name);
  config.secret = secret;
  config.request.client = client_.load();
  config.request.coordinator = holder.client;
  config.request.volume = source.volume;
  config.request.name = client_name();
  config.request.read_only = command.read_only;
  if (command.soft) config.soft = command.soft_timeout;
  config.seek = [this](const shared::CoordinatorLink::Lost& lost) { return seek(lost); };
  config.interrupted = [this] { interrupt_own(); };
  std::string reason;
  auto link = shared::CoordinatorLink::join(std::move(config), &reason);
  if (!link.ok()) {
    *why = fmt::format("{} is shared by {}: {}", command.source, holder.name, reason);
    return link.error();
  }
  if (command.require_durable && (*link)->durability() != Durability::kDurable) {
    *why = fmt::format("{} is volatile and -o durable asks for a durable one", command.source);
    return Error(ENOTSUP, "durability");
  }
  log::info("{} is shared by {}: a member of it", command.source, holder.name);
  auto open_brick = [source, secret, client = client_.load()](uint32_t place, const ReadableBrick& brick, bool writes) {
    return open_bound(source, secret, place, brick, writes, client, client_name());
  };
  own_session_ = (*link)->session();
  auto member = std::make_unique<shared::MemberFiles>(std::move(*link), std::move(open_brick), command.read_only,
                                                      command.no_atime);
  MutexLock lock(mutex_);
  member_ = std::move(member);
  return {};
}

// The address is told with the name, by which the bricks know us from the first moment on.
Status ServedVolume::coordinate(const MountCommand& command, const std::function<void(const std::string& why)>& waiting,
                                std::string* why) {
  const Source source = TRY(parse_source(command.source, why));
  const ClientSecret secret = TRY(secret_of(command, why));
  std::string host = command.listen_address;
  if (host.empty()) {
    auto found = shared::address_towards(source.addresses.front());
    if (!found.ok()) {
      *why = fmt::format("{}: {}", command.source, describe(found.error()));
      return found.error();
    }
    host = std::move(*found);
  }
  auto coordinator = shared::Coordinator::listen(host, command.listen_port, source.volume, secret);
  if (!coordinator.ok()) {
    *why = fmt::format("option shared: cannot listen at {}: {}", host, describe(coordinator.error()));
    return coordinator.error();
  }
  const HostPort address{host, (*coordinator)->port()};
  TRY(open_own(command, waiting, name_of_coordinator(client_name(), address), why));
  MutexLock lock(mutex_);
  coordinator_ = std::move(*coordinator);
  address_ = address;
  own_volume_ = &filesystem_->volume();
  leased_ = std::make_unique<shared::LeasedFiles>(*filesystem_, coordinator_->leases());
  log::info("{} is shared from here: members come to {}", command.source, format_address(address));
  return {};
}

FileOperations& ServedVolume::files() {
  if (switched_) return *switched_;
  if (auto* const member = this->member()) return *member;
  if (leased_) return *leased_;
  return *filesystem_;
}

// As the bricks tell others.
Holder ServedVolume::this_coordinator() const {
  MutexLock lock(mutex_);
  Holder self;
  self.name = name_of_coordinator(client_name(), address_);
  self.client = client_.load();
  return self;
}

// What has become of a coordinator that does not answer. By the member's keeper.
Result<shared::CoordinatorLink::Sought> ServedVolume::seek(const shared::CoordinatorLink::Lost& lost) {
  using Sought = shared::CoordinatorLink::Sought;
  MutexLock role(changing_role_);
  if (auto* const member = this->member(); member != nullptr) TRY(member->volume().final_error());
  if (coordinates() && filesystem_->volume().final_error().code() != ESTALE) return seek_here(lost);
  let_go_of_lost();
  std::string why;
  const Source source = TRY(parse_source(command_.source, &why));
  const auto holder = TRY(find_holder(source, {TRY(secret_of(command_, &why)), command_.etcd}));
  const bool is_another = holder && holder->client != lost.coordinator;
  Sought found;
  if (is_another) {
    const auto address = address_of_coordinator(holder->name);
    if (!address) return Sought{Sought::Kind::kEnded, {}, "another has taken the volume, and does not share it"};
    found = {Sought::Kind::kMoved, *address, "", holder->client};
    // One that has gone before we came to it is followed as the one that we know.
    if (lost.missed != holder->client) return found;
  }
  const bool is_anothers_turn =
      lost.next == shared::CoordinatorLink::Lost::Next::kAnother && steady_clock::now() - lost.heard < kSuccessorTakes;
  if (command_.read_only || is_anothers_turn) return found;
  if (!take_over(lost, !holder.has_value()).ok()) return found;  // it is held, or another was faster
  return seek_here(lost);
}

// The one that is slow, or the next: which this may have become before, and the way here was lost.
shared::CoordinatorLink::Sought ServedVolume::seek_here(const shared::CoordinatorLink::Lost& lost) const {
  using Sought = shared::CoordinatorLink::Sought;
  if (lost.coordinator == client_.load()) return {};
  MutexLock lock(mutex_);
  return {Sought::Kind::kMoved, address_, "", client_.load()};
}

// What this one coordinated, and another has now, or is to have.
void ServedVolume::let_go_of_lost() {
  const auto coordinator = this->coordinator();
  if (!coordinator) return;
  coordinator->stop();
  {
    MutexLock lock(mutex_);
    coordinator_.reset();
    own_volume_ = nullptr;
  }
  *commit_target_ = nullptr;
  if (switched_ && !switched_->has_switched()) {
    first_leased_ = std::move(leased_);
    first_filesystem_ = std::move(filesystem_);
  }
  leased_.reset();
  filesystem_.reset();
}

// Who gives the volume up goes by the member that this is: it is to end what waits here, too.
void ServedVolume::interrupt_own() {
  MutexLock lock(mutex_);
  if (own_volume_ != nullptr) own_volume_->interrupt();
}

// The bricks let in who comes when the former one has no connection to them.
Status ServedVolume::take_over(const shared::CoordinatorLink::Lost& lost, bool was_let_go) {
  const auto began = steady_clock::now();
  client_ = make_client_id();
  takes_over_ = true;
  std::string why;
  const Status taken = coordinate(command_, {}, &why);
  if (!taken.ok()) {
    if (taken.code() != EBUSY) log::warn("the coordinator's place cannot be taken: {}", why);
    return taken.error();
  }
  serve_after(lost.is_dead || was_let_go);
  const bool is_meant = lost.next == shared::CoordinatorLink::Lost::Next::kThis;
  log::warn("the coordinator has {}: this member has taken its place, in {:.1f} s",
            is_meant ? "handed the volume over" : "gone",
            std::chrono::duration<double>(steady_clock::now() - began).count());
  return {};
}

// A former coordinator of which it is not known that it has ended may serve what it has in memory for as long as its
// lease lasts: unless it has said on the bricks that it has unmounted, which may be behind when it was looked for.
void ServedVolume::serve_after(bool is_over) {
  const auto fenced = steady_clock::now();
  if (!is_over && !filesystem_->was_unmounted()) std::this_thread::sleep_until(fenced + limits::kLease);
  MutexLock lock(mutex_);
  coordinator_->serve({*leased_, filesystem_.get(), client_, nullptr, filesystem_.get(), this});
}

// Members of a former coordinator come, and what the own programs do is to wait for that, as what theirs do: so this is
// one of them.
Status ServedVolume::follow(const MountCommand& command, bool is_over, std::string* why) {
  serve_after(is_over);
  return join(command, this_coordinator(), why);
}

void ServedVolume::start_sharing(shared::OwnKernel* kernel) {
  kernel_ = kernel;
  MutexLock lock(mutex_);
  if (coordinator_ && !member_)
    coordinator_->serve({*leased_, filesystem_.get(), client_, kernel, filesystem_.get(), this});
}

void ServedVolume::stop_sharing() {
  await_handover();
  if (auto* const member = this->member()) return member->let_go_of_kernel();
  const auto coordinator = this->coordinator();
  if (coordinator) coordinator->stop();
}

std::shared_ptr<shared::Coordinator> ServedVolume::coordinator() const {
  MutexLock lock(mutex_);
  return coordinator_;
}

shared::MemberFiles* ServedVolume::member() const {
  MutexLock lock(mutex_);
  return member_.get();
}

std::vector<MemberState> ServedVolume::members() const {
  std::vector<MemberState> members;
  const auto coordinator = this->coordinator();
  if (!coordinator) return members;
  for (const auto& one : coordinator->members())
    members.push_back({one.name, std::chrono::duration<double>(one.silence).count(), one.calls,
                       std::chrono::duration<double>(one.busy).count(), one.bytes, one.read_only});
  return members;
}

// A member that has taken the place of its coordinator has at least itself.
void ServedVolume::tell_sharing(MountState& state) const {
  const auto take = [&state](const std::vector<shared::CallCounters::Call>& calls) {
    for (const auto& call : calls) state.calls.push_back(operation_state(call.name, call.counts));
  };
  const auto coordinator = this->coordinator();
  const auto* const member = this->member();
  if (member != nullptr) {
    state.direct_read_bytes = member->data_counts().bytes;
    state.direct_write_bytes = member->unit_counts().bytes;
  }
  if (!coordinator && member != nullptr) {
    state.sharing = "member";
    take(member->calls());
  }
  if (!coordinator) return;
  state.sharing = "coordinator";
  state.members = members();
  state.member_count = state.members.size();
  if (state.members.size() > kMostMembersTold) state.members.resize(kMostMembersTold);
  take(coordinator->calls());
  state.members_expelled = coordinator->expelled();
  const shared::Leases::Counts leases = coordinator->leases().counts();
  state.leases = leases.held;
  state.recalls = leases.recalls;
  state.recalls_lapsed = leases.lapsed;
}

// A member leaves its coordinator before that ends, also if that is here: then there is one who can answer.
Status ServedVolume::unmount() {
  await_handover();
  auto* const member = this->member();
  const Status left = member != nullptr ? member->unmount() : Status();
  const auto coordinator = this->coordinator();
  if (coordinator) coordinator->stop();
  const Status ended = filesystem_ ? end_filesystem() : Status();
  return left.ok() ? ended : left;
}

Status ServedVolume::end_filesystem() {
  *commit_target_ = nullptr;
  const Status unmounted = filesystem_->unmount();
  if (unmounted.ok()) keep_last_seen();
  return unmounted;
}

// An older copy of a store is as sound as the store itself.
void ServedVolume::look_at_last_seen(const std::string& source) const {
  const auto seen = read_last_seen(filesystem_->uuid());
  const uint64_t found = raw(filesystem_->found_through());
  if (!seen || found >= seen->transaction) return;
  log::warn(
      "{} is older than when it was unmounted here at {}: at transaction {}, and it was at {}. An older copy of its "
      "store was put back, or the store has lost what was committed: what was written since is not there",
      source, local_time(seen->at), found, seen->transaction);
}

// What is volatile has nothing that could be put back.
void ServedVolume::keep_last_seen() const {
  if (filesystem_->read_only() || filesystem_->volume().durability() != Durability::kDurable) return;
  brickfs::keep_last_seen(filesystem_->uuid(), raw(filesystem_->durable_through()));
}

}  // namespace brickfs
