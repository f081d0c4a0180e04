// SPDX-License-Identifier: Apache-2.0
#include "fs/shared/coordinator_link.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "transport/base/log.h"
#include "transport/brick/limits.h"
#include "transport/tcp/greet.h"
#include "transport/tcp/socket.h"

namespace brickfs::shared {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kLook{50};            // of who waits, whether he is to end
constexpr milliseconds kLookForNamed{50};    // when the coordinator has said who is next
constexpr milliseconds kCancelTakes{1'000};  // then who was interrupted waits no longer for the answer
constexpr milliseconds kKeepAlive{1'000};
constexpr milliseconds kSilent{2'500};          // of a coordinator that is well
constexpr milliseconds kRecallsSilent{10'000};  // of one who would say after half of that that there are none

Ino ino_of(const std::variant<CloseLocks, ReleaseLocks>& released) {
  const auto* const closed = std::get_if<CloseLocks>(&released);
  return closed != nullptr ? closed->asked.ino : std::get<ReleaseLocks>(released).ino;
}

bool is_final(const Error& error) {
  return error.is(ESTALE) || error.is(ENOENT) || error.is(EROFS) || error.is(EPROTONOSUPPORT);
}

}  // namespace

// One of the slots, as long as it lives.
class CoordinatorLink::Turn {
 public:
  Turn(CoordinatorLink& link, Slot& slot) : link_(link), slot_(slot) {}
  ~Turn() { link_.give_slot(slot_); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  CoordinatorLink& link_;
  Slot& slot_;
};

Result<std::unique_ptr<CoordinatorLink>> CoordinatorLink::join(Config config, std::string* why) {
  const std::string name = format_address(config.address);
  std::unique_ptr<tcp::TcpChannel> channel;
  const auto joined = prove_with(config.secret, [&](const Secret& secret) -> Result<Joined> {
    auto greeted = TRY(tcp::greet(config.address, Clock::now() + limits::kConnectTimeout + limits::kHandshakeTimeout,
                                  config.secret.tls(), secret));
    channel = std::move(greeted.channel);
    return shared::join(*channel, greeted.nonces, secret, config.request, greeted.deadline);
  });
  if (!joined.ok()) {
    *why = fmt::format("the coordinator at {}: {}", name, describe(joined.error()));
    return joined.error();
  }
  tcp::warn_if_in_the_clear(config.address, config.secret.tls(), channel->stream());
  std::unique_ptr<CoordinatorLink> link(new CoordinatorLink(std::move(config), *joined));
  for (uint32_t i = 0; i < kMostSlots; ++i) link->slots_[i].number = i;
  link->slots_[kKeepersSlot].channel = std::move(channel);
  {
    MutexLock lock(link->mutex_);
    for (uint32_t i = kMostSlots; i-- > kRecallsSlot + 1;) link->free_.push_back(&link->slots_[i]);
    link->state_.read_only = link->config_.request.read_only;
  }
  link->keep_once();
  if (const Status heard = link->first_answer(); !heard.ok()) {
    *why = fmt::format("the coordinator at {} has just ended", name);
    return heard.error();
  }
  link->has_begun_ = true;
  link->keeper_ = Thread([raw = link.get()] { raw->keep(); });
  link->recalled_ = Thread([raw = link.get()] { raw->take_recalls(); });
  return link;
}

CoordinatorLink::~CoordinatorLink() { stop(); }

void CoordinatorLink::stop() {
  interrupt();
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (keeper_.joinable()) keeper_.join();
  if (recalled_.joinable()) recalled_.join();
}

Result<CoordinatorLink::Slot*> CoordinatorLink::take_slot(const OperationContext& context) {
  MutexLock lock(mutex_);
  while (free_.empty()) {
    if (final_) return *final_;
    TRY(wait_interruptibly(changed_, lock, context.interruption));
  }
  Slot* const slot = free_.back();
  free_.pop_back();
  return slot;
}

void CoordinatorLink::give_slot(Slot& slot) {
  MutexLock lock(mutex_);
  if (slot.is_abandoned) return;
  free_.push_back(&slot);
  changed_.notify_all();
}

Result<std::vector<std::byte>> CoordinatorLink::call(uint16_t kind, std::span<const std::byte> fields,
                                                     std::span<const LocalSlice> data, const OperationContext& context,
                                                     Aftermath after, bool is_patient) {
  TRY(final_error());
  const auto begun = Clock::now();
  Slot& slot = *TRY(take_slot(context));
  const Turn turn(*this, slot);
  slot.is_patient = is_patient;
  auto answer = call_on(slot, kind, fields, data, context, &after);
  if (!answer.ok() && after.over) after.over();
  uint64_t bytes = kind == kind_of<Read>() && answer.ok() ? answer->size() : 0;
  for (const LocalSlice& slice : data) bytes += slice.length_bytes;
  calls_.count(kind, Clock::now() - begun, answer.code(), bytes);
  return answer;
}

// A session of which nothing more was heard is nobody's yet: another one is begun.
Status CoordinatorLink::first_answer() const {
  MutexLock lock(mutex_);
  if (final_) return *final_;
  return away_since_ ? Status(Error(ENOTCONN, "the coordinator does not answer")) : Status();
}

// Until there is an answer, on one connection after the other. Our own threads' calls are nobody's, who would lose
// patience; they end when we do.
Result<std::vector<std::byte>> CoordinatorLink::call_on(Slot& slot, uint16_t kind, std::span<const std::byte> fields,
                                                        std::span<const LocalSlice> data,
                                                        const OperationContext& context, Aftermath* after,
                                                        std::optional<uint64_t> epoch) {
  ++slot.last;
  const uint64_t began_in = epoch.value_or(epoch_);
  milliseconds pause = limits::kReconnectFirst;
  bool must_know = false;  // a lock that may have been set
  while (true) {
    TRY(final_error());
    if (is_own(slot) && is_stopping() && kind != kind_of<Leave>()) return Error(ECANCELED, "the member leaves");
    Status connected;
    // What is told of the own accord, or asked about it, is of no use to another coordinator, who was told all there
    // is.
    if (is_own(slot) && epoch_ != began_in) return Error(ECANCELED, "another coordinator");
    if (slot.channel == nullptr) connected = connect(slot, is_own(slot) ? began_in : epoch_.load());
    if (connected.ok()) {
      must_know = kind == kind_of<SetLock>();
      auto answer = exchange(slot, kind, fields, data, context);
      if (answer.ok()) {
        heard();
        if (answer->header.status != 0) return Error(answer->header.status, "the coordinator's answer");
        return std::move(answer->body);
      }
      drop_channel(slot);
      if (is_own(slot) && is_stopping() && kind != kind_of<Leave>()) return Error(ECANCELED, "the member leaves");
      connected = answer.error();
      if (answer.code() == EINTR) return abandon(slot, answer.error(), after);
    }
    if (is_final(connected.error())) end(connected.error());
    lost_contact(connected.error());
    if (!has_begun_) return connected.error();
    if (slot.number == kKeepersSlot) {
      seek_coordinator(connected.error());
      if (has_named_next()) pause = std::min(pause, kLookForNamed);
      if (is_stopping()) return Error(ECANCELED, "the member ends");
    }
    const Status patience = check_patience(slot);
    if (!patience.ok()) return abandon(slot, patience.error(), after);
    if (!wait_to_connect(must_know ? OperationContext() : context, pause).ok())
      return abandon(slot, Error(EINTR, "interrupted"), after);
    pause = std::min(pause * 2, limits::kReconnectMost);
  }
}

// It may have been done, or be done yet: what its answer gives is taken back, and only when it is over the slot is
// anybody's again, and nothing is kept of before what it changes.
Error CoordinatorLink::abandon(Slot& slot, const Error& why, Aftermath* after) {
  MutexLock lock(mutex_);
  slot.is_abandoned = true;
  if (after != nullptr && after->change != nullptr)
    slot.changing = std::make_unique<Held::Change>(std::move(*after->change));
  if (after != nullptr) slot.over = std::exchange(after->over, nullptr);
  cancelled_.push_back({slot.number, slot.last, true});
  changed_.notify_all();
  return why;
}

Status CoordinatorLink::wait_to_connect(const OperationContext& context, milliseconds pause) {
  MutexLock lock(mutex_);
  const auto until = Clock::now() + pause;
  const uint64_t moved = moved_;
  while (!final_ && moved_ == moved && Clock::now() < until) {
    TRY(Interruption::check(context.interruption));
    changed_.wait_until(lock, std::min(until, Clock::now() + kLook));
  }
  return {};
}

Result<Joined> CoordinatorLink::join_at(const HostPort& address, ClientId coordinator, uint32_t slot,
                                        std::unique_ptr<tcp::TcpChannel>& channel) const {
  JoinRequest request = config_.request;
  request.coordinator = coordinator;
  request.session = joined_.session;
  request.token = joined_.token;
  request.slot = slot;
  return prove_with(config_.secret, [&](const Secret& secret) -> Result<Joined> {
    auto greeted = TRY(tcp::greet(address, Clock::now() + limits::kConnectTimeout, config_.secret.tls(), secret));
    channel = std::move(greeted.channel);
    return shared::join(*channel, greeted.nonces, secret, request, greeted.deadline);
  });
}

// In that epoch, or it fails.
Status CoordinatorLink::connect(Slot& slot, uint64_t epoch) {
  std::unique_ptr<tcp::TcpChannel> channel;
  const auto [address, coordinator] = known_coordinator();
  TRY(join_at(address, coordinator, slot.number, channel));
  if (!set_channel(slot, std::move(channel), epoch)) return Error(ENOTCONN, "another coordinator has come");
  return {};
}

// False: it leads to a former coordinator.
bool CoordinatorLink::set_channel(Slot& slot, std::unique_ptr<tcp::TcpChannel> channel, uint64_t epoch) {
  MutexLock lock(mutex_);
  if (epoch_ != epoch) return false;
  slot.channel = std::move(channel);
  return true;
}

void CoordinatorLink::drop_channel(Slot& slot) {
  MutexLock lock(mutex_);
  slot.channel = nullptr;
}

bool CoordinatorLink::is_stopping() const {
  MutexLock lock(mutex_);
  return stopping_;
}

bool CoordinatorLink::is_over() const {
  MutexLock lock(mutex_);
  return stopping_ || final_;
}

HostPort CoordinatorLink::address() const { return known_coordinator().first; }

std::pair<HostPort, ClientId> CoordinatorLink::known_coordinator() const {
  MutexLock lock(mutex_);
  return {address_, coordinator_};
}

// An error but EINTR says that the connection is of no more use.
Result<Message> CoordinatorLink::exchange(Slot& slot, uint16_t kind, std::span<const std::byte> fields,
                                          std::span<const LocalSlice> data, const OperationContext& context) {
  wire::CallHeader header;
  header.kind = kind;
  header.id = slot.last;
  header.length_bytes = static_cast<uint32_t>(fields.size());
  std::vector<iovec> parts = {tcp::to_iovec(bytes_of(header)), tcp::to_iovec(fields)};
  for (const LocalSlice& slice : data) {
    parts.push_back({slice.data, slice.length_bytes});
    header.length_bytes += slice.length_bytes;
  }
  tcp::Stream& stream = slot.channel->stream();
  TRY(stream.send_all(parts));
  TRY(await_answer(slot, kind == kind_of<SetLock>(), context));
  Message answer = TRY(tcp::receive_frame(stream, Clock::now() + limits::kProgressTimeout, kMostFrame));
  if (answer.header.kind != (kind | wire::kReplyBit) || answer.header.id != slot.last ||
      answer.header.status > wire::kHighestErrno) {
    return Error(EPROTO, "answer to another call");
  }
  return answer;
}

// Who is interrupted has the coordinator told of it, and waits for what that comes to: whether it was done is known
// then. Not for long, as it may be away, unless he `must_know`: whose a lock is that nobody waits for.
Status CoordinatorLink::await_answer(Slot& slot, bool must_know, const OperationContext& context) {
  const auto begun = Clock::now();
  std::optional<Clock::time_point> interrupted;
  while (true) {
    const Status come = slot.channel->wait(Clock::now() + kLook);
    if (come.code() != ETIMEDOUT) return come;
    TRY(final_error());
    TRY(check_patience(slot));
    const auto waited = Clock::now() - begun;
    if (slot.number == kKeepersSlot && waited > kSilent) return Error(ETIMEDOUT, "no answer");
    if (slot.number == kRecallsSlot && (waited > kRecallsSilent || is_stopping()))
      return Error(ETIMEDOUT, "no recalls");
    if (Interruption::check(context.interruption).ok()) continue;
    const auto now = Clock::now();
    if (interrupted && !must_know && now - *interrupted > kCancelTakes) return Error(EINTR, "interrupted");
    if (interrupted) continue;
    interrupted = now;
    MutexLock lock(mutex_);
    cancelled_.push_back({slot.number, slot.last, false});
    changed_.notify_all();
  }
}

Result<Written> CoordinatorLink::write(const Write& asked, std::span<const LocalSlice> from,
                                       const OperationContext& context, Aftermath after) {
  const auto body = TRY(call(kind_of<Write>(), encode(asked), from, context, std::move(after)));
  return decode<Written>(body);
}

Result<uint64_t> CoordinatorLink::read(const Read& asked, std::span<const LocalSlice> into,
                                       const OperationContext& context) {
  const auto body = TRY(call(kind_of<Read>(), encode(asked), {}, context));
  Count count;
  Decoder decoder(body);
  decoder.get(count);
  if (decoder.failed() || count.count != decoder.rest().size() || count.count > asked.length)
    return Error(EPROTO, "other bytes than were asked for");
  std::span<const std::byte> rest = decoder.rest();
  for (const LocalSlice& slice : into) {
    const size_t bytes = std::min<size_t>(slice.length_bytes, rest.size());
    if (bytes > 0) std::memcpy(slice.data, rest.data(), bytes);
    rest = rest.subspan(bytes);
  }
  return count.count;
}

void CoordinatorLink::forget(Ino ino, uint64_t references) {
  MutexLock lock(mutex_);
  forgotten_.push_back({ino, references});
}

void CoordinatorLink::release_later(const std::variant<CloseLocks, ReleaseLocks>& released) {
  MutexLock lock(mutex_);
  released_.push_back(released);
  changed_.notify_all();
}

Status CoordinatorLink::await_released(Ino ino, const OperationContext& context) {
  const auto is_of_it = [ino](const auto& released) { return ino_of(released) == ino; };
  while (true) {
    {
      MutexLock lock(mutex_);
      if (std::ranges::none_of(released_, is_of_it)) return {};
      if (final_) return *final_;
      TRY(Interruption::check(context.interruption));
      changed_.wait_until(lock, Clock::now() + kLook);
    }
    TRY(check_patience());
  }
}

void CoordinatorLink::drop_untold() {
  MutexLock lock(mutex_);
  forgotten_.clear();
  released_.clear();
  changed_.notify_all();
}

void CoordinatorLink::leave() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
    if (slots_[kRecallsSlot].channel) slots_[kRecallsSlot].channel->shut_down();
  }
  if (keeper_.joinable()) keeper_.join();
  if (recalled_.joinable()) recalled_.join();
  if (!is_away()) (void)call_on(slots_[kKeepersSlot], kind_of<Leave>(), encode(Leave{}), {}, {});
  end(Error(ECANCELED, "the member has left"));
}

// --- what is known of the coordinator

void CoordinatorLink::heard() {
  MutexLock lock(mutex_);
  heard_ = Clock::now();
  if (!bricks_away_since_) gave_up_ = false;
  if (!away_since_) return;
  const auto away = std::chrono::duration_cast<milliseconds>(heard_ - *away_since_);
  away_since_.reset();
  if (away > kSilent)
    log::info("the coordinator at {} answers, after {:.1f} s", format_address(address_), away.count() / 1000.0);
}

void CoordinatorLink::lost_contact(const Error& why) {
  MutexLock lock(mutex_);
  if (final_) return;
  away_why_ = describe(why);
  if (away_since_) return;
  away_since_ = Clock::now();
  changed_.notify_all();  // the keeper looks at once
}

// What the coordinator cannot answer either, since its bricks are away, is waited for no longer than it is itself.
Status CoordinatorLink::check_patience(const Slot& slot) const {
  return is_own(slot) || slot.is_patient ? Status() : check_patience();
}

Status CoordinatorLink::check_patience() const {
  MutexLock lock(mutex_);
  if (gave_up_) return Error(EIO, "the volume is away");
  for (const auto& since : {away_since_, bricks_away_since_}) {
    if (config_.soft && since && Clock::now() - *since > *config_.soft)
      return Error(EIO, "the volume is away for longer than a soft mount waits");
  }
  return {};
}

void CoordinatorLink::end(const Error& why) {
  MutexLock lock(mutex_);
  if (final_) return;
  final_ = why.is(ECANCELED) ? why : Error(ESTALE, why.what());
  held_.let_go();
  drop_all_data();  // what is being read does not count: nothing is valid before another renewal
  if (!why.is(ECANCELED)) {
    away_why_ = why.what();
    log::error("the volume is lost to this member: {}; umount, and mount it again", why.what());
  }
  for (Slot& slot : slots_)
    if (slot.channel) slot.channel->shut_down();
  changed_.notify_all();
}

void CoordinatorLink::interrupt() {
  end(Error(ECANCELED, "given up"));
  if (has_begun_ && config_.interrupted) config_.interrupted();
}

void CoordinatorLink::give_up_silent() {
  MutexLock lock(mutex_);
  for (Slot& slot : slots_)
    if (slot.channel) slot.channel->shut_down();
}

void CoordinatorLink::give_up_outage() {
  MutexLock lock(mutex_);
  gave_up_ = true;
  changed_.notify_all();
}

Status CoordinatorLink::final_error() const {
  MutexLock lock(mutex_);
  return final_ ? Status(*final_) : Status();
}

bool CoordinatorLink::is_away() const {
  MutexLock lock(mutex_);
  return away_since_.has_value() || !state_.link.empty();
}

State CoordinatorLink::state() const {
  MutexLock lock(mutex_);
  return state_;
}

LinkState CoordinatorLink::link_state() const {
  MutexLock lock(mutex_);
  const std::string at = format_address(address_);
  if (final_) return {LinkState::Kind::kFailed, *final_, away_why_};
  if (away_since_) {
    return {LinkState::Kind::kWaiting, Error(ENOTCONN),
            fmt::format("the coordinator at {} is away: {}", at, away_why_)};
  }
  if (Clock::now() - heard_ > kSilent)
    return {LinkState::Kind::kSilent, Error(ETIMEDOUT), fmt::format("the coordinator at {} does not answer", at)};
  if (!state_.link.empty())
    return {LinkState::Kind::kWaiting, Error(ENOTCONN), fmt::format("the coordinator at {}: {}", at, state_.link)};
  return {LinkState::Kind::kConnected, Error(0), fmt::format("member of {}", at)};
}

// --- the keeper

void CoordinatorLink::keep() {
  while (true) {
    {
      MutexLock lock(mutex_);
      const auto until = Clock::now() + kKeepAlive;
      while (!stopping_ && !final_ && cancelled_.empty() && released_.empty() && !away_since_ && Clock::now() < until)
        changed_.wait_until(lock, until);
      if (stopping_ || final_) return;
    }
    keep_once();
  }
}

void CoordinatorLink::keep_once() {
  std::vector<Cancel> cancelled;
  {
    MutexLock lock(mutex_);
    cancelled.swap(cancelled_);
    cancelled.insert(cancelled.end(), cancelled_later_.begin(), cancelled_later_.end());
    cancelled_later_.clear();
  }
  for (const Cancel& one : cancelled) cancel(one);
  tell_released();
  tell_forgotten();
  renew_leases();
}

// Those that another coordinator comes in between of were not claimed there.
void CoordinatorLink::tell_released() {
  Slot& slot = slots_[kKeepersSlot];
  while (true) {
    std::optional<std::variant<CloseLocks, ReleaseLocks>> next;
    uint64_t epoch = 0;
    {
      MutexLock lock(mutex_);
      if (released_.empty()) return;
      next = released_.front();
      epoch = epoch_;
    }
    const auto told = std::visit(
        [&](const auto& one) {
          using Asked = std::remove_cvref_t<decltype(one)>;
          return call_on(slot, kind_of<Asked>(), encode(one), {}, {}, nullptr, epoch);
        },
        *next);
    if (told.code() == ECANCELED || !final_error().ok()) return;
    MutexLock lock(mutex_);
    released_.pop_front();
    changed_.notify_all();
  }
}

void CoordinatorLink::tell_forgotten() {
  Slot& slot = slots_[kKeepersSlot];
  Forget forgotten;
  {
    MutexLock lock(mutex_);
    forgotten.inodes.swap(forgotten_);
  }
  while (!forgotten.inodes.empty()) {
    constexpr size_t kAtOnce = kMostFields / 32;
    Forget part;
    const size_t here = std::min(kAtOnce, forgotten.inodes.size());
    part.inodes.assign(forgotten.inodes.end() - static_cast<std::ptrdiff_t>(here), forgotten.inodes.end());
    forgotten.inodes.resize(forgotten.inodes.size() - here);
    if (call_on(slot, kind_of<Forget>(), encode(part), {}, {}).code() == ECANCELED) break;
  }
}

// One that is under way yet is looked after the next time.
void CoordinatorLink::cancel(const Cancel& asked) {
  const auto body = call_on(slots_[kKeepersSlot], kind_of<Cancel>(), encode(asked), {}, {});
  if (!asked.is_abandoned) return;
  Slot& slot = slots_[asked.slot];
  std::unique_ptr<Held::Change> changing;
  std::function<void()> over;
  {
    MutexLock lock(mutex_);
    const auto cancelled = body.ok() ? decode<Cancelled>(*body) : Result<Cancelled>(body.error());
    if (!cancelled.ok() || !cancelled->is_over) return cancelled_later_.push_back(asked);
    slot.is_abandoned = false;
    changing.swap(slot.changing);
    over.swap(slot.over);
  }
  if (over) over();
  give_slot(slot);
}

void CoordinatorLink::renew_leases() {
  const uint64_t generation = held_.generation();
  const auto sent = BootClock::now();
  const auto body = call_on(slots_[kKeepersSlot], kind_of<GetState>(), encode(GetState{generation}), {}, {});
  if (!body.ok()) return;
  const auto state = decode<State>(*body);
  if (!state.ok()) return;
  const bool begins_anew = state->leases != generation && state->leases != 0;  // no recalls have come here
  held_.renew(sent, state->leases);
  if (begins_anew) drop_all_data();  // behind that, as a recall: what is asked for meanwhile is not kept
  {
    MutexLock lock(data_mutex_);
    if (units_ != nullptr) units_->committed(state->committed);
  }
  MutexLock lock(mutex_);
  state_ = *state;
  if (state->link.empty()) {
    bricks_away_since_.reset();
  } else if (!bricks_away_since_) {
    bricks_away_since_ = Clock::now();
  }
  if (begins_anew && slots_[kRecallsSlot].channel) slots_[kRecallsSlot].channel->shut_down();
}

bool CoordinatorLink::is_own(const Slot& slot) const { return slot.number <= kRecallsSlot; }

}  // namespace brickfs::shared
