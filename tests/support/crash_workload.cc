// SPDX-License-Identifier: Apache-2.0
#include "tests/support/crash_workload.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <span>
#include <utility>

namespace brickfs {
namespace {

struct Verb {
  const char* name;
  size_t arguments;
};

constexpr Verb kVerbs[] = {
    {"create", 1}, {"mkdir", 1},    {"symlink", 1},  {"link", 2},     {"unlink", 1},     {"rmdir", 1},
    {"rename", 2}, {"exchange", 2}, {"whiteout", 2}, {"write", 3},    {"append", 2},     {"truncate", 2},
    {"punch", 3},  {"zero", 3},     {"allocate", 3}, {"setxattr", 2}, {"unsetxattr", 1}, {"chmod", 2},
    {"hold", 1},   {"tmpfile", 1},  {"fsync", 1},    {"sync", 0},     {"checkpoint", 0}, {"unmount", 0},
};
// Of "submit".
constexpr Verb kRequests[] = {{"write", 3}, {"append", 2}, {"fsync", 1}};

std::vector<std::string> split(std::string_view text, char at) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(at), text.size());
    if (end > 0) parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

bool is_one_of(std::span<const Verb> verbs, std::span<const std::string> words) {
  return std::ranges::any_of(verbs, [&](const Verb& known) {
    return !words.empty() && words[0] == known.name && words.size() == known.arguments + 1;
  });
}

bool is_known(std::span<const std::string> words) {
  if (words[0] == "submit") return is_one_of(kRequests, words.subspan(1));
  return is_one_of(kVerbs, words) || (words[0] == "wait" && words.size() <= 2);
}

uint64_t number(std::string_view text) {
  uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

Caller root() {
  Caller caller;
  caller.in_group = [](uint32_t) { return true; };
  return caller;
}

CrashSequence known(std::string_view text) {
  std::string why;
  return parse_sequence(text, &why).value();
}

CrashSequence single_operations() {
  return known(
      "create c; create d/y; mkdir e; mkdir d/z; symlink c; symlink d/y;"
      "write a 0 4096; write a 100 50; write a 4000 3000; write a 20000 100; write d/x 4096 4096; write g 0 200; write "
      "c 0 700;"
      "append a 3000; append b 10; append b 9000; append d/y 4096;"
      "truncate a 0; truncate a 100; truncate a 9000; truncate d/x 4096; truncate b 50;"
      "punch a 0 4096; punch d/x 100 9000; zero d/x 4000 200; zero a 0 4096; allocate a 4096 20000; allocate b 0 8192; "
      "allocate b 0 600000; append b 270000;"
      "rename a b; rename a c; rename a d/y; rename d e; rename d/x a; rename f d/y; rename b b; exchange a b; "
      "exchange a d; whiteout a b; whiteout d/x c; whiteout f d/y;"
      "link a c; link a d/y; link d/x c; unlink a; unlink b; unlink d/x; unlink d/l; unlink d/s; rmdir f; rmdir d; "
      "mkdir f;"
      "hold a; hold d/x; tmpfile d; setxattr a 20; setxattr d 3000; unsetxattr a; chmod a 600; chmod d 711;"
      "fsync a; sync; checkpoint");
}

// Over old bytes and behind the end, some of it over the same bytes; of one file and of two; with syncs in the midst,
// one of them while another is under way. Each file is a's, b's, d/x's or g's of crash_base().
constexpr const char* kQueues[] = {
    "submit write a 0 4096; submit write a 100 50; submit write a 4000 3000; wait",
    "submit append a 3000; submit append a 10; submit write d/x 4096 4096; wait",
    "submit write a 0 4096; wait 1; submit fsync a; submit write a 100 50; wait",
    "submit append b 9000; submit fsync b; submit write a 0 200; wait 2; submit fsync a; wait",
    "submit write g 0 200; submit write a 20000 100; submit append a 10; submit fsync d/x; wait",
};

// Blocks that are a file's alone, and durably so: what follows may free them.
constexpr const char* kOwnBlocks = "allocate b 0 600000; sync";

Status status_of(const Result<Attributes>& made, Filesystem& filesystem) {
  if (!made.ok()) return made.error();
  filesystem.forget(made->ino, 1);
  return {};
}

}  // namespace

std::string CrashOperation::text() const {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

Result<CrashSequence> parse_sequence(std::string_view text, std::string* why) {
  CrashSequence sequence;
  for (const std::string& part : split(text, ';')) {
    CrashOperation operation{split(part, ' ')};
    if (operation.words.empty()) continue;
    if (!is_known(operation.words)) {
      *why = fmt::format("'{}' is not an operation", part);
      return Error(EINVAL, "operation");
    }
    sequence.push_back(std::move(operation));
  }
  return sequence;
}

std::string text_of(const CrashSequence& sequence) {
  std::string text;
  for (const CrashOperation& operation : sequence) text += (text.empty() ? "" : "; ") + operation.text();
  return text;
}

CrashSequence crash_base() {
  return known(
      "create a; append a 5000; setxattr a 10; create b; append b 100; mkdir d; create d/x; append d/x 12288; symlink "
      "d/s;"
      "mkdir f; link b d/l; create g; write g 8192 4096; allocate g 0 4096; sync");
}

CrashSequence crash_work() { return known("create new; append new 9000; append d/x 5000; sync"); }

const std::vector<CrashSequence>& crash_alphabet() {
  static const std::vector<CrashSequence> alphabet = [] {
    std::vector<CrashSequence> all;
    for (CrashOperation& operation : single_operations()) all.push_back({std::move(operation)});
    for (const char* const requests : kQueues) all.push_back(known(requests));
    all.push_back(known(kOwnBlocks));
    return all;
  }();
  return alphabet;
}

bool has_queue(const CrashSequence& sequence) {
  return std::ranges::any_of(sequence, [](const CrashOperation& operation) { return operation.is_queued(); });
}

Result<CrashWorkload::Place> CrashWorkload::place(std::string_view path) {
  Place place{kRootIno, ""};
  for (size_t slash = path.find('/'); slash != std::string_view::npos; slash = path.find('/')) {
    const Attributes next = TRY(filesystem_.lookup(place.directory, path.substr(0, slash), context_));
    filesystem_.forget(next.ino, 1);
    place.directory = next.ino;
    path.remove_prefix(slash + 1);
  }
  place.name = path;
  return place;
}

Result<Ino> CrashWorkload::find(std::string_view path) {
  const Place at = TRY(place(path));
  const Attributes found = TRY(filesystem_.lookup(at.directory, at.name, context_));
  filesystem_.forget(found.ino, 1);
  return found.ino;
}

Status CrashWorkload::run(const CrashOperation& operation) {
  const std::string& verb = operation.words[0];
  if (operation.is_queued()) return run_queued(operation);
  static_cast<void>(end_queue());
  if (verb == "checkpoint") {
    finish_checkpoint();
    checkpoint_ = Thread([this] { static_cast<void>(filesystem_.checkpoint()); });
    return {};
  }
  if (verb == "sync" || verb == "unmount") {
    const Status status = verb == "sync" ? filesystem_.sync_all(context_) : filesystem_.unmount();
    finish_checkpoint();
    return status;
  }
  if (verb == "fsync") return filesystem_.sync(TRY(find(operation.words[1])), context_);
  for (const char* on_names :
       {"create", "mkdir", "symlink", "link", "unlink", "rmdir", "rename", "exchange", "whiteout", "tmpfile"}) {
    if (verb == on_names) return run_name(operation);
  }
  return run_file(operation, TRY(find(operation.words[1])));
}

void CrashWorkload::finish() {
  static_cast<void>(end_queue());
  finish_checkpoint();
}

void CrashWorkload::begin_queue(bool background, CrashQueue::Tick tick) {
  queue_ = std::make_unique<CrashQueue>(filesystem_, background, std::move(tick));
}

std::vector<QueuedRequest> CrashWorkload::end_queue() {
  if (queue_ == nullptr) return {};
  queue_->wait_for_all();
  std::vector<QueuedRequest> requests(queue_->requests().begin(), queue_->requests().end());
  queue_.reset();
  return requests;
}

// What was submitted answers later. A full queue ends first.
Status CrashWorkload::run_queued(const CrashOperation& operation) {
  const std::vector<std::string>& words = operation.words;
  if (words[0] == "wait") {
    if (queue_ != nullptr) queue_->wait(words.size() > 1 ? number(words[1]) : CrashQueue::kMost);
    return {};
  }
  if (is_queue_full()) static_cast<void>(end_queue());
  if (queue_ == nullptr) begin_queue(false, [] { return uint64_t{0}; });
  QueuedRequest request;
  if (words[1] == "fsync") {
    request.kind = QueuedRequest::Kind::kSync;
  } else if (words[1] == "append") {
    request.kind = QueuedRequest::Kind::kAppend;
    request.bytes = next_bytes(0, 0, number(words[3]));
  } else {
    request.offset = number(words[3]);
    request.bytes = next_bytes(0, request.offset, number(words[4]));
  }
  return queue_->submit(words[2], std::move(request));
}

void CrashWorkload::finish_checkpoint() {
  if (checkpoint_.joinable()) checkpoint_.join();
}

Status CrashWorkload::run_name(const CrashOperation& operation) {
  const std::string& verb = operation.words[0];
  const Place at = TRY(place(operation.words[1]));
  if (verb == "create")
    return status_of(filesystem_.create(at.directory, at.name, S_IFREG | 0644, root(), context_), filesystem_);
  if (verb == "mkdir")
    return status_of(filesystem_.make_directory(at.directory, at.name, 0755, root(), context_), filesystem_);
  if (verb == "symlink")
    return status_of(filesystem_.make_symlink(at.directory, at.name, "to/" + at.name, root(), context_), filesystem_);
  if (verb == "unlink") return filesystem_.unlink(at.directory, at.name, context_);
  if (verb == "rmdir") return filesystem_.remove_directory(at.directory, at.name, context_);
  if (verb == "tmpfile") {  // stays open: it goes with the mount
    const Attributes made =
        TRY(filesystem_.make_temporary(TRY(find(operation.words[1])), S_IFREG | 0600, root(), context_));
    return write(made.ino, 0, 5000, false);
  }
  const Place to = TRY(place(operation.words[2]));
  if (verb == "link")
    return status_of(filesystem_.link(TRY(find(operation.words[1])), to.directory, to.name, context_), filesystem_);
  const Rename how = verb == "exchange" ? Rename::kExchange : Rename::kReplace;
  const Caller caller = root();
  const auto renamed = filesystem_.rename(at.directory, at.name, to.directory, to.name, how,
                                          verb == "whiteout" ? &caller : nullptr, context_);
  return renamed.ok() ? Status() : Status(renamed.error());
}

Status CrashWorkload::run_file(const CrashOperation& operation, Ino ino) {
  const std::string& verb = operation.words[0];
  const uint64_t first = operation.words.size() > 2 ? number(operation.words[2]) : 0;
  const uint64_t second = operation.words.size() > 3 ? number(operation.words[3]) : 0;
  if (verb == "write") return write(ino, first, second, false);
  if (verb == "append") return write(ino, 0, first, true);
  if (verb == "punch")
    return filesystem_.allocate(ino, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, first, second, nullptr, context_);
  if (verb == "zero") return filesystem_.allocate(ino, FALLOC_FL_ZERO_RANGE, first, second, nullptr, context_);
  if (verb == "allocate") return filesystem_.allocate(ino, 0, first, second, nullptr, context_);
  if (verb == "unsetxattr") return filesystem_.remove_xattr(ino, "user.x", context_);
  if (verb == "setxattr") {
    const std::vector<std::byte> value(first, std::byte{static_cast<uint8_t>('0' + first % 10)});
    return filesystem_.set_xattr(ino, "user.x", value, 0, root(), context_);
  }
  if (verb == "hold") {  // as an open file: an unlink leaves an orphan
    const Place at = TRY(place(operation.words[1]));
    const auto held = filesystem_.lookup(at.directory, at.name, context_);
    return held.ok() ? Status() : Status(held.error());
  }
  AttributeChange change;
  if (verb == "truncate") change.size_bytes = first;
  if (verb == "chmod") change.mode = static_cast<uint32_t>(std::stoul(operation.words[2], nullptr, 8));
  const auto changed = filesystem_.set_attributes(ino, change, root(), context_);
  return changed.ok() ? Status() : Status(changed.error());
}

// Other bytes with each write, and at each place: what stands where it should not is seen.
std::vector<std::byte> CrashWorkload::next_bytes(uint64_t seed, uint64_t offset, uint64_t length) {
  ++writes_;
  std::vector<std::byte> bytes(length);
  for (uint64_t i = 0; i < length; ++i) {
    bytes[i] = static_cast<std::byte>(1 + (seed * 41 + writes_ * 67 + (offset + i) / 8 * 13 + i % 8) % 255);
  }
  return bytes;
}

Status CrashWorkload::write(Ino ino, uint64_t offset, uint64_t length, bool append) {
  const std::vector<std::byte> bytes = next_bytes(raw(ino), offset, length);
  const LocalSlice from{const_cast<std::byte*>(bytes.data()), static_cast<uint32_t>(bytes.size()), 0};
  if (!append && writes_ % 2 == 1) {
    const auto jointly = write_jointly(ino, offset, from);
    if (jointly) return *jointly;
  }
  const auto written = filesystem_.write(ino, offset, std::span(&from, 1), append, nullptr, false, context_);
  return written.ok() ? Status() : Status(written.error());
}

// As the mount serves writes over io_uring. Nothing: it cannot be written that way.
std::optional<Status> CrashWorkload::write_jointly(Ino ino, uint64_t offset, const LocalSlice& from) {
  const auto joint = filesystem_.joint_transfer(context_);
  if (!joint->begin_write(ino, offset, from, false) || !joint->try_move().ok()) return std::nullopt;
  const auto written = joint->result(0);
  return written.ok() ? Status() : Status(written.error());
}

}  // namespace brickfs
