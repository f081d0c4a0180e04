// SPDX-License-Identifier: Apache-2.0
#include "fs/shared/coordinator.h"

#include <algorithm>
#include <array>
#include <system_error>
#include <thread>
#include <utility>

#include "fs/operations/gate.h"
#include "fs/shared/answered_before.h"
#include "transport/base/log.h"
#include "transport/base/printable.h"
#include "transport/brick/limits.h"
#include "transport/tcp/socket.h"

namespace brickfs::shared {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr milliseconds kLookAtMembers{250};
constexpr milliseconds kOverslept{1'000};
constexpr milliseconds kWaitForCall{1'000};
constexpr milliseconds kUnsure{500};  // after a long sleep: then the loss of the volume has been met with
constexpr milliseconds kLookAtLink{20};
// On what is in memory, behind the last look that saw the bricks: it may have been 2 s since they were heard of.
constexpr milliseconds kOwnReliesFor = limits::kLease - seconds(3);
constexpr SessionId kNoMembers = UINT64_MAX;  // who coordinates without being one
constexpr milliseconds kHeardLately{3'000};   // of a member that says each second that it is there

// Header, fields and data, from where they are.
Status send_answer(tcp::Stream& stream, const Message& call, const MemberSession::Answer& answer) {
  wire::CallHeader header;
  header.kind = call.header.kind | wire::kReplyBit;
  header.status = static_cast<uint16_t>(answer.status);
  header.id = call.header.id;
  header.length_bytes = static_cast<uint32_t>(answer.fields.size() + answer.data.size());
  std::array parts = {tcp::to_iovec(bytes_of(header)), tcp::to_iovec(answer.fields), tcp::to_iovec(answer.data)};
  return stream.send_all(parts);
}

// Locks and what a member asks about itself are in no journal.
bool shows_files(const Request& request) {
  return !std::holds_alternative<GetState>(request) && !std::holds_alternative<FindLock>(request) &&
         !std::holds_alternative<SetLock>(request) && !std::holds_alternative<CloseLocks>(request) &&
         !std::holds_alternative<ReleaseLocks>(request) && !std::holds_alternative<RecallsDone>(request);
}

// Its answer tells that they are away, or tells of nothing that could be another's by now.
bool needs_no_bricks(const Request& request) {
  return std::holds_alternative<GetState>(request) || std::holds_alternative<CloseLocks>(request) ||
         std::holds_alternative<ReleaseLocks>(request);
}

bool is_handover(const Message& call) { return call.header.kind == static_cast<uint16_t>(kHandover); }

Result<Credential> check_first(const Secret& secret, const Nonces& nonces, const Message& call) {
  TRY(is_handover(call) ? check_handover(secret, nonces, call) : check_join(secret, nonces, call));
  return Credential{.secret = secret, .key = {}, .rights = KeyRights::kReadWrite};
}

}  // namespace

Result<std::unique_ptr<Coordinator>> Coordinator::listen(const std::string& host, uint16_t port, std::string volume,
                                                         const ClientSecret& secret, milliseconds lease) {
  auto acceptor = TRY(TcpAcceptor::open(host, port));
  return std::unique_ptr<Coordinator>(new Coordinator(std::move(volume), secret, lease, std::move(acceptor)));
}

Coordinator::Coordinator(std::string volume, const ClientSecret& secret, milliseconds lease,
                         std::unique_ptr<TcpAcceptor> acceptor)
    : volume_(std::move(volume)), secret_(secret), lease_(lease), acceptor_(std::move(acceptor)) {
  TcpAcceptor::Hooks hooks;
  hooks.judge = [this](const PeerAddress& peer, const Nonces& nonces, const Message& call) {
    return judge(peer, nonces, call);
  };
  hooks.tls.mode = secret_.tls() == TlsMode::kRequire ? TlsMode::kRequire : TlsMode::kOn;
  hooks.tls.find = [this](const PeerAddress& peer, KeyId id) { return find_secret(peer, id); };
  hooks.tls.refused = [this](const PeerAddress& peer) { note_wrong_secret(peer); };
  hooks.introduced = [this](TcpUnauthenticatedPeers::Introduced peer) { introduce(std::move(peer)); };
  hooks.tick = [this] { reap_finished(); };
  hooks.displaced = [] {};
  hooks.out_of_descriptors = [this] { reap_finished(); };
  acceptor_->start(std::move(hooks));
}

Coordinator::~Coordinator() { stop(); }

void Coordinator::serve(const Served& served, milliseconds grace) {
  files_ = &served.files;
  journal_ = served.journal;
  client_ = served.client;
  kernel_ = served.kernel;
  lend_from(served.units);
  hands_over_ = served.hands_over;
  connected_ = looked_ = steady_clock::now().time_since_epoch().count();
  recall_sessions(grace);
  serving_ = true;
  looker_ = Thread([this] { look_at_members(); });
  lapser_ = Thread([this] { look_at_leases(); });
}

void Coordinator::lend_from(UnitLending* units) {
  units_ = units;
  if (units == nullptr) return;
  lender_ = std::make_shared<UnitLender>(*units, static_cast<uint64_t>(client_),
                                         [this](SessionId session) { leases_.call(session); });
  units->ask_back_by([weak = std::weak_ptr(lender_)](const Interruption* by) {
    if (const auto lender = weak.lock()) lender->ask_back(by);
  });
}

// What members have written and keep is committed while they can be asked for it.
void Coordinator::end_lending() {
  if (lender_ == nullptr) return;
  units_->ask_back_by(nullptr);
  lender_->close();
  if (lender_->bytes().any_uncommitted() && gate(*files_).ok()) (void)files_->sync_all();
}

// Bytes that are kept are waited for no longer before anything here may wait for a brick that waits for them.
void Coordinator::stop() {
  stopping_.raise();
  end_lending();
  stop_looking_ = true;
  if (looker_.joinable()) looker_.join();
  if (lapser_.joinable()) lapser_.join();
  acceptor_->stop();
  std::map<SessionId, SessionPtr> sessions;
  {
    MutexLock lock(mutex_);
    stopped_ = true;
    sessions.swap(sessions_);
  }
  const auto how = journal_ != nullptr ? MemberSession::Ends::kComesBack : MemberSession::Ends::kForGood;
  for (const auto& [id, session] : sessions)
    if (lender_ != nullptr) lender_->bytes().give_up(id);
  for (const auto& [id, session] : sessions) {
    session->end(how);
    session->add_references(left_);
    if (lender_ != nullptr) lender_->end(id);
  }
  if (lender_ != nullptr) lender_->stop();
  for (Connection& connection : connections_) connection.channel->shut_down();
  for (Connection& connection : connections_) connection.thread.join();
  connections_.clear();
  lender_.reset();           // what it stands on may go
  leases_.hold_back(false);  // nobody is left but the own programs
}

std::vector<Coordinator::Member> Coordinator::members() const {
  std::vector<Member> members;
  MutexLock lock(mutex_);
  for (const auto& [id, session] : sessions_) {
    members.push_back({session->request().name, std::chrono::duration_cast<milliseconds>(session->silence()),
                       session->calls(), session->busy(), session->bytes(), session->request().read_only});
  }
  return members;
}

std::optional<FirstCallVerdict> Coordinator::judge(const PeerAddress& peer, const Nonces& nonces, const Message& call) {
  const auto now = SecretGuesses::Clock::now();
  if (!guesses_.may_try(peer.host, now)) return std::nullopt;
  FirstCallVerdict verdict{prove_with(secret_, [&](const Secret& secret) { return check_first(secret, nonces, call); }),
                           {}};
  if (verdict.proof.code() != EACCES) return verdict;
  verdict.delay = guesses_.delay(peer.host, now);
  note_guess(guesses_, peer);
  return verdict;
}

// The file may have another one by now.
std::optional<Secret> Coordinator::find_secret(const PeerAddress& peer, KeyId id) {
  if (!guesses_.may_try(peer.host, SecretGuesses::Clock::now())) return std::nullopt;
  const auto found = prove_with(secret_, [&](const Secret& secret) -> Result<Secret> {
    if (!secret.bytes.empty() && key_id_of(secret) == id) return secret;
    return Error(EACCES, "another secret");
  });
  return found.ok() ? std::optional(*found) : std::nullopt;
}

void Coordinator::note_wrong_secret(const PeerAddress& peer) { note_guess(guesses_, peer); }

void Coordinator::introduce(TcpUnauthenticatedPeers::Introduced peer) {
  auto channel = std::make_unique<tcp::TcpChannel>(std::move(peer.stream));
  if (!peer.proof.ok()) {
    if (peer.proof.code() == EACCES) (void)answer_join(*channel, peer.nonces, {}, peer.call, peer.proof.error());
    return;
  }
  if (connections_.size() >= limits::kConnections) reap_finished();
  if (connections_.size() >= limits::kConnections)
    return (void)answer_join(*channel, peer.nonces, peer.proof->secret, peer.call, Error(EUSERS));
  tcp::configure(channel->fd());
  Connection& connection = connections_.emplace_back();
  connection.channel = std::move(channel);
  try {
    connection.thread = Thread([this, &connection, peer = std::make_shared<decltype(peer)>(std::move(peer))] {
      serve_connection(*connection.channel, peer->peer, peer->nonces, peer->proof->secret, peer->call);
      connection.channel->shut_down();
      connection.finished = true;
    });
  } catch (const std::system_error& error) {
    log::error("a member's connection is turned away: no thread for it ({})", error.what());
    connections_.pop_back();
  }
}

void Coordinator::reap_finished() {
  for (auto at = connections_.begin(); at != connections_.end();) {
    if (at->finished) {
      at->thread.join();
      at = connections_.erase(at);
    } else {
      ++at;
    }
  }
}

void Coordinator::serve_connection(tcp::TcpChannel& channel, const PeerAddress& peer, const Nonces& nonces,
                                   const Secret& secret, const Message& call) {
  if (is_handover(call)) {
    const auto asked = handover_in(call);
    if (asked.ok()) (void)answer_handover(channel, nonces, secret, call, hand_over(*asked));
    return;
  }
  const auto request = request_in(call);
  if (!request.ok()) return;
  auto session = join(*request, peer);
  if (session.ok()) {
    const Status connected = (*session)->connect(request->slot, channel);
    if (!connected.ok()) session = connected.error();
  }
  if (!session.ok()) return (void)answer_join(channel, nonces, secret, call, session.error());
  const Joined joined{(*session)->id(), (*session)->token(), client_, files_->volume().durability(), lease_};
  if (answer_join(channel, nonces, secret, call, joined).ok()) serve_calls(channel, *session, request->slot);
  (*session)->disconnect(request->slot, channel);
}

HandoverAnswer Coordinator::hand_over(const HandoverRequest& request) {
  if (!serving_) return {EAGAIN, 0, "it begins to coordinate just now"};
  if (request.coordinator != client_ || request.volume != volume_)
    return {EAGAIN, 0, "another one coordinates the volume by now"};
  if (in_grace()) return {EAGAIN, 0, "the members of the former coordinator are coming to it just now"};
  if (hands_over_ == nullptr) return {EOPNOTSUPP, 0, "this coordinator cannot hand the volume over"};
  std::vector<HandoverCandidate> candidates;
  {
    MutexLock lock(mutex_);
    for (const auto& [id, session] : sessions_)
      candidates.push_back(
          {id, session->request().name, session->request().read_only, session->silence() < kHeardLately});
  }
  SessionId own = hands_over_->own_session();
  if (own == 0) candidates.push_back({own = kNoMembers, hands_over_->own_name(), false, true});
  HandoverAnswer chosen = choose_successor(candidates, own, request.to);
  if (chosen.status != 0) return chosen;
  const Status begun = hands_over_->hand_over(chosen);
  if (!begun.ok()) chosen = {begun.code(), 0, begun.error().what()};
  return chosen;
}

bool Coordinator::is_successor_known() const {
  MutexLock lock(mutex_);
  return std::ranges::all_of(sessions_, [&](const auto& each) {
    return each.second->was_told(successor_) || each.second->silence() > kHeardLately;
  });
}

Result<Coordinator::SessionPtr> Coordinator::join(const JoinRequest& request, const PeerAddress& peer) {
  if (request.version != kCallsVersion) return Error(EPROTONOSUPPORT, "another version");
  if (!serving_) return Error(EAGAIN, "not ready yet");
  if (request.coordinator != ClientId{} && request.coordinator != client_) return Error(ECONNREFUSED, "another one");
  if (request.volume != volume_) return Error(ENOENT, "another volume");
  const Status lost = gate(*files_);
  if (lost.code() == ESTALE) return Error(EAGAIN, "the volume is another's");
  TRY(Status(lost));
  if (request.session == 0) return begin_session(request, peer);
  MutexLock lock(mutex_);
  const auto found = sessions_.find(request.session);
  if (stopped_) return Error(EAGAIN, "it ends");
  if (found == sessions_.end() || !same_bytes(found->second->token(), request.token))
    return Error(ESTALE, "no such session");
  return found->second;
}

// The own kernel is told before the member's first answer.
Result<Coordinator::SessionPtr> Coordinator::begin_session(const JoinRequest& request, const PeerAddress& peer) {
  if (!request.read_only && files_->read_only()) return Error(EROFS, "read-only");
  SessionId id = 0;
  {
    MutexLock lock(mutex_);
    if (stopped_) return Error(EAGAIN, "it ends");
    if (sessions_.size() + beginning_ >= kMostMembers) return Error(EUSERS, "members");
    ++beginning_;
    id = ++last_session_;
  }
  tell_kernel();
  const auto session = std::make_shared<MemberSession>(*files_, leases_, lender_.get(), id, request);
  Status begun = journal_ == nullptr ? Status() : journal_->begin_member(session->row(), &stopping_);
  if (begun.code() == EINTR) begun = Error(EAGAIN, "it ends");
  {
    MutexLock lock(mutex_);
    --beginning_;
    if (begun.ok() && stopped_) return Error(EAGAIN, "it ends");
    if (begun.ok()) {
      sessions_.emplace(id, session);
      log::info("{} is a member now ({}), one of {}", printable(request.name), peer.text, sessions_.size());
      return session;
    }
  }
  session->end();
  if (journal_ != nullptr) journal_->end_member(id);
  tell_kernel();
  return begun.error();
}

// Whether there are members.
void Coordinator::tell_kernel() {
  MutexLock telling(telling_kernel_);
  bool is_shared = false;
  {
    MutexLock lock(mutex_);
    is_shared = beginning_ > 0 || !sessions_.empty();
  }
  if (kernel_ == nullptr || std::exchange(is_kernel_shared_, is_shared) == is_shared) return;
  kernel_->set_shared(is_shared);
}

// A brick that is brought up to date waits for its bytes no longer, before anything here may wait for that. Nobody gets
// its locks before the next coordinator would not know it any more.
void Coordinator::end_session(const SessionPtr& session, const char* why) {
  if (lender_ != nullptr) lender_->bytes().give_up(session->id());
  {
    MutexLock lock(mutex_);
    lost_.erase(session->id());
    if (sessions_.erase(session->id()) == 0) return;
  }
  session->end(MemberSession::Ends::kForGood, [&]() -> Status {
    if (journal_ == nullptr) return {};
    journal_->end_member(session->id());
    return files_->await_written({.interruption = &stopping_});
  });
  if (lender_ != nullptr) lender_->end(session->id());
  log::info("{} {}", printable(session->request().name), why);
  tell_kernel();
}

// A brick that waits for bytes of one of them may be what the end of another waits for.
void Coordinator::expel(const std::vector<Lost>& lost) {
  for (const Lost& one : lost)
    if (lender_ != nullptr) lender_->bytes().give_up(one.session->id());
  for (const Lost& one : lost) {
    ++expelled_;
    end_session(one.session, one.why);
  }
}

void Coordinator::serve_calls(tcp::TcpChannel& channel, const SessionPtr& session, uint32_t slot) {
  std::vector<std::byte> room;
  while (true) {
    const Status come = channel.wait(steady_clock::now() + kWaitForCall);
    if (come.code() == ETIMEDOUT) continue;
    if (!come.ok()) return;
    const auto message =
        tcp::receive_frame(channel.stream(), steady_clock::now() + limits::kProgressTimeout, kMostFrame);
    if (!message.ok()) return;
    const auto call = decode_request(message->header.kind, message->body);
    if (!call.ok() && send_answer(channel.stream(), *message, {call.code(), {}, {}}).ok()) continue;
    if (!call.ok()) return;
    if (std::holds_alternative<Read>(call->request) && room.empty()) room.resize(kMostData);
    const SessionId successor = successor_;
    const auto perform_here = [&](const Decoded& asked, const MemberReply* before, const OperationContext& context) {
      return perform(*session, successor, asked, before, room, context);
    };
    const auto begun = steady_clock::now();
    // Of a volume that is another's now nothing is told: the member is to look for that one.
    const auto say = [&](const MemberSession::Answer& answer) -> Status {
      count(*session, *call, begun, answer.status, call->data.size() + answer.data.size());
      if (gate(*files_).code() == ESTALE) return Error(ESTALE, "the volume is another's");
      return send_answer(channel.stream(), *message, answer);
    };
    if (!session->call(slot, message->header.id, *call, perform_here, say).ok()) return;
    if (std::holds_alternative<GetState>(call->request)) session->note_told(successor);
    if (const Claim* const claim = std::get_if<Claim>(&call->request); claim != nullptr && claim->is_all)
      claimed(session->id());
    if (std::holds_alternative<Leave>(call->request)) return end_session(session, "has left");
  }
}

void Coordinator::count(MemberSession& session, const Decoded& call, steady_clock::time_point begun, int error,
                        uint64_t bytes) {
  const auto took = steady_clock::now() - begun;
  calls_.count(call.request.index(), took, error, bytes);
  session.note_cost(waits_for_others(call.request.index()) ? std::chrono::nanoseconds(0) : took, bytes);
}

// What the answer shows may not be lost with us, nor be what another has changed since he took the volume. It has been
// done: that is not taken back because a program does not wait for it any more.
Status Coordinator::settle(const ServedAnswer& answer, const OperationContext& context) {
  if (kernel_ != nullptr)
    for (const ChangedFile& changed : answer.changed) kernel_->drop(changed, context.interruption);
  TRY(files_->await_written(context));
  return gate(*files_);
}

// What is in memory is the volume while nobody else can have it: as long as the bricks have been heard of lately, and
// this process was not asleep. Looked at behind what was done.
// `without_bricks`: also while they are away.
Status Coordinator::confirm(bool without_bricks, const Interruption* by) const {
  while (true) {
    TRY(gate(*files_));
    const auto now = steady_clock::now();
    const bool slept = now - steady_clock::time_point(steady_clock::duration(looked_)) > kOverslept;
    const bool is_unsure = now.time_since_epoch().count() < unsure_until_;
    const bool is_heard = without_bricks || files_->volume().link_state().kind == LinkState::Kind::kConnected;
    if (!slept && !is_unsure && is_heard) return {};
    TRY(Interruption::check(by));
    std::this_thread::sleep_for(kLookAtLink);
  }
}

// Bricks that are away are no reason to wait for as long as nobody else can have the volume.
Status Coordinator::confirm_own(steady_clock::time_point began, std::optional<milliseconds> soft,
                                const Interruption* by) const {
  for (auto now = steady_clock::now(); serving_ && !stop_looking_; now = steady_clock::now()) {
    TRY(gate(*files_));
    const steady_clock::time_point looked{steady_clock::duration(looked_)};
    const steady_clock::time_point connected{steady_clock::duration(connected_)};
    const bool slept = now - looked > kOverslept;
    const bool is_unsure = now.time_since_epoch().count() < unsure_until_;
    if (!slept && !is_unsure && now - connected < kOwnReliesFor) return {};
    TRY(Interruption::check(by));
    if (soft && now > std::max(began, connected) + *soft)
      return Error(EIO, "the bricks are away for longer than a soft mount waits");
    std::this_thread::sleep_for(kLookAtLink);
  }
  return {};
}

// What a former coordinator has done: its recall behind that may have been missed.
Status Coordinator::recall_done(const MemberSession& session, const Decoded& call, const Interruption* by) {
  const Ino changed = std::visit(calls::Overloaded{
                                     [](const Write& asked) { return asked.ino; },
                                     [](const WriteUnits& asked) { return asked.ino; },
                                     [](const SetAttributes& asked) { return asked.ino; },
                                     [](const Allocate& asked) { return asked.ino; },
                                     [](const CopyRange& asked) { return asked.to; },
                                     [](const auto&) { return kNoIno; },
                                 },
                                 call.request);
  Leases::Scope scope;
  scope.add(changed, Lease::kData);
  return leases_.begin(scope, session.id(), by).ok() ? Status() : Status(Error(EINTR, "interrupted"));
}

ServedAnswer Coordinator::perform(const MemberSession& session, SessionId successor, const Decoded& call,
                                  const MemberReply* before, std::span<std::byte> room,
                                  const OperationContext& context) {
  ServedAnswer answer;
  Status allowed;
  if (!std::holds_alternative<GetState>(call.request)) allowed = leases_.await_going_on(context.interruption);
  if (allowed.ok()) allowed = gate(*files_);
  if (allowed.ok() && before != nullptr) allowed = recall_done(session, call, context.interruption);
  const auto about_to_change = [&](const ChangedFile& changed) {
    if (kernel_ != nullptr) kernel_->drop(changed, context.interruption);
  };
  if (allowed.ok())
    answer = before != nullptr ? answered_before(*files_, call, *before, context)
                               : serve_call(*files_, leases_, lender_.get(),
                                            {session.request().client, session.request().name, successor}, call, room,
                                            about_to_change, context);
  const bool is_done = allowed.ok() && answer.status == 0;
  if (allowed.ok())
    allowed = shows_files(call.request) ? settle(answer, {.interruption = &session.ending()}) : gate(*files_);
  if (allowed.ok()) allowed = confirm(needs_no_bricks(call.request), &session.ending());
  if (allowed.ok()) return answer;
  for (const Ino ino : answer.given) files_->forget(ino, 1);
  ServedAnswer refusal;
  refusal.status = allowed.code();
  // Others say that nothing was done.
  const bool leaves_open = allowed.code() == EINTR || allowed.code() == ESTALE || allowed.code() == ECANCELED;
  if (is_done && !leaves_open) refusal.status = EIO;
  if (std::holds_alternative<GetState>(call.request)) refusal.status = ESTALE;  // which the member goes by
  return refusal;
}

// --- after a former coordinator

void Coordinator::recall_sessions(milliseconds grace) {
  if (journal_ == nullptr) return;
  const std::vector<KnownMember> known_members = journal_->members();
  if (known_members.empty()) return;
  {
    MutexLock lock(mutex_);
    for (const KnownMember& known : known_members) {
      sessions_.emplace(known.session, std::make_shared<MemberSession>(*files_, leases_, lender_.get(), known));
      awaited_.insert(known.session);
      last_session_ = std::max(last_session_, known.session);
    }
  }
  tell_kernel();  // before anything is held back that it may wait for
  MutexLock lock(mutex_);
  leases_.hold_back(true);
  grace_until_ = steady_clock::now() + grace;
  log::info("waiting for {} member(s) of the former coordinator", awaited_.size());
}

void Coordinator::claimed(SessionId session) {
  {
    MutexLock lock(mutex_);
    awaited_.erase(session);
  }
  look_at_grace();
}

// Those who have not come hold nothing any more: what they had open, and nobody else, goes.
void Coordinator::look_at_grace() {
  MutexLock looking(looking_at_grace_);
  std::vector<Lost> lost;
  {
    MutexLock lock(mutex_);
    const auto now = steady_clock::now();
    const bool has_slept = now - steady_clock::time_point(steady_clock::duration(looked_)) > kOverslept;
    if (!in_grace() || (!awaited_.empty() && (has_slept || now < grace_until_))) return;
    for (const SessionId id : awaited_)
      if (const auto found = sessions_.find(id); found != sessions_.end())
        lost.push_back({found->second, "has not come to the new coordinator, and is expelled"});
    awaited_.clear();
  }
  expel(lost);
  journal_->end_grace();
  leases_.hold_back(false);
  MutexLock lock(mutex_);
  log::info("serving {} member(s) of the former coordinator", sessions_.size());
}

void Coordinator::look_at_members() {
  while (!stop_looking_) {
    std::this_thread::sleep_for(kLookAtMembers);
    look_at_grace();
    std::vector<Lost> lost;
    {
      MutexLock lock(mutex_);
      for (const auto& [id, why] : lost_)
        if (const auto found = sessions_.find(id); found != sessions_.end()) lost.push_back({found->second, why});
    }
    expel(lost);
  }
}

void Coordinator::look_at_leases() {
  while (!stop_looking_) {
    std::this_thread::sleep_for(kLookAtMembers);
    const auto now = steady_clock::now();
    look_at_time(now);
    give_up_lost();
    leases_.look(now);
  }
}

// Stopped, or starved: what came meanwhile has not been read, and nobody could come. That it has looked again is said
// together with the time that it gives them for it.
void Coordinator::look_at_time(steady_clock::time_point now) {
  const auto since_last = now - steady_clock::time_point(steady_clock::duration(looked_));
  const bool has_slept = since_last > kOverslept;
  if (has_slept) unsure_until_ = (now + kUnsure).time_since_epoch().count();
  const bool is_connected = files_->volume().link_state().kind == LinkState::Kind::kConnected;
  MutexLock lock(mutex_);
  looked_ = now.time_since_epoch().count();
  if (is_connected) connected_ = looked_.load();
  const bool is_cut_off = !is_connected && hears_of_no_member();
  if (!has_slept && !is_cut_off) return;
  for (const auto& [id, session] : sessions_) session->hear();
  grace_until_ += has_slept ? since_last : steady_clock::duration(quiet_);
}

// Nor, when it is asked, of a brick: it is this machine that nothing comes to, and nobody is to be expelled for that.
bool Coordinator::hears_of_no_member() const {
  const SessionId own = hands_over_ != nullptr ? hands_over_->own_session() : 0;
  return std::ranges::all_of(
      sessions_, [&](const auto& member) { return member.first == own || member.second->silence() > quiet_; });
}

// Of who is to be expelled nothing is waited for from now on. That it is heard of again changes nothing.
void Coordinator::give_up_lost() {
  MutexLock lock(mutex_);
  for (const auto& [id, session] : sessions_) {
    const bool is_silent = session->silence() > lease_;
    if (is_silent && lender_ != nullptr) lender_->bytes().give_up(id);
    if (is_silent) {
      lost_.emplace(id, "was not heard of for its lease, and is expelled");
    } else if (lender_ != nullptr && lender_->bytes().has_failed(id)) {
      lost_.emplace(id, "has not given the bytes that it keeps, and is expelled");
    }
  }
}

}  // namespace brickfs::shared
