// SPDX-License-Identifier: Apache-2.0
#include "tools/crash/shared_programs.h"

#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>

namespace brickfs::shared_world {
namespace {

constexpr size_t kText = 16;
constexpr size_t kLargeBytes = 128 * 1024;
constexpr size_t kRecordsBytes = 64 * 1024;
constexpr std::string_view kXattr = "user.n";

std::string own(std::string_view what, unsigned program) { return fmt::format("{}{}", what, program); }

Caller root() {
  Caller caller;
  caller.in_group = [](uint32_t) { return true; };
  caller.groups = [] { return Groups{.all = true}; };
  caller.is_administrator = [] { return true; };
  return caller;
}

std::string text_of(uint64_t number) { return fmt::format("{:016}", number); }

Status write_text(FileOperations& files, Ino ino, std::string text, bool append = false) {
  const LocalSlice from{reinterpret_cast<std::byte*>(text.data()), static_cast<uint32_t>(text.size()), 0};
  const auto written = files.write(ino, 0, std::span(&from, 1), append, nullptr);
  if (!written.ok()) return written.error();
  return *written == text.size() ? Status() : Status(Error(EIO, "a part was written"));
}

Result<std::string> read_text(FileOperations& files, Ino ino, size_t bytes) {
  std::string text(bytes, 'x');
  const LocalSlice into{reinterpret_cast<std::byte*>(text.data()), static_cast<uint32_t>(bytes), 0};
  text.resize(TRY(files.read(ino, 0, std::span(&into, 1))));
  return text;
}

uint64_t number_in(std::string_view text) {
  uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

}  // namespace

Status Program::prepare(FileOperations& files, size_t programs) {
  std::vector<std::string> names = {"records", "lock"};
  for (unsigned program = 0; program < programs; ++program) {
    names.push_back(own("bytes", program));
    names.push_back(own("large", program));
    names.push_back(own("moved", program));
  }
  for (const std::string& name : names) {
    const Attributes made = TRY(files.create(kRootIno, name, S_IFREG | 0644, root()));
    if (name.starts_with("bytes")) TRY(write_text(files, made.ino, text_of(0)));
    if (name.starts_with("large")) TRY(write_text(files, made.ino, std::string(kLargeBytes, '0')));
    AttributeChange change;
    change.mtime = TimeNs{0};
    TRY(files.set_attributes(made.ino, change, root()));
    files.forget(made.ino, 1);
  }
  return files.sync_all();
}

// With a reference, which is to be given back.
Result<Ino> Program::find(const std::string& name) { return TRY(files().lookup(kRootIno, name)).ino; }

bool Program::is_lost() {
  if (!machine_.leaves() && files().volume().final_error().ok()) return false;
  things_.history.lost(machine_.number);
  return true;
}

void Program::expect(const Status& status, const std::string& what) {
  if (status.ok()) return;
  is_over_ = true;
  if (is_lost()) return;
  things_.history.violation(
      fmt::format("{} on machine {}, errno {}: {}", what, machine_.number, status.code(), describe(status.error())));
}

void Program::run(fibers::Nanoseconds until) {
  constexpr int kMostPause = 400'000;  // microseconds
  while (fibers::now() < until && !is_over_ && !is_lost()) {
    step();
    ++operations_;
    if (random_() % 4 != 0) fibers::sleep(std::chrono::microseconds(random_() % kMostPause));
  }
  if (!is_over_ && !is_lost()) drop_unlinked();
}

void Program::step() {
  const auto other = static_cast<unsigned>(random_() % things_.bytes.size());
  switch (random_() % 16) {
    case 0:
    case 1:
      return write_bytes();
    case 2:
      return write_large();
    case 3:
      return set_time();
    case 4:
      return set_xattr();
    case 5:
      return flip_name();
    case 6:
    case 7:
      return append();
    case 8:
      return look_at_bytes(other);
    case 9:
      return look_at_large(other);
    case 10:
      return look_at_attributes(other);
    case 11:
      return look_at_name(other);
    case 12:
      return look_at_records();
    case 13:
      return random_() % 2 == 0 ? make_exclusively() : move();
    case 14:
      return lock_and_unlock();
    default:
      return use_unlinked();
  }
}

void Program::look_at_all() {
  for (unsigned program = 0; program < things_.bytes.size() && !is_over_; ++program) {
    look_at_bytes(program);
    look_at_large(program);
    look_at_attributes(program);
    look_at_name(program);
  }
  if (!is_over_) look_at_records();
}

// --- what only this one changes

void Program::write_bytes() {
  const auto ino = find(own("bytes", number_));
  if (!done(ino, "its file is found")) return;
  Known& known = things_.bytes[number_];
  const uint64_t value = known.begin();
  const Status written = write_text(files(), *ino, text_of(value));
  expect(written, "a write");
  if (written.ok()) known.learn(value, listener());
  files().forget(*ino, 1);
}

void Program::write_large() {
  const auto ino = find(own("large", number_));
  if (!done(ino, "its large file is found")) return;
  Known& known = things_.large[number_];
  const uint64_t value = known.begin();
  const Status written = write_text(files(), *ino, std::string(kLargeBytes, static_cast<char>('0' + value % 64)));
  expect(written, "a large write");
  if (written.ok()) known.learn(value, listener());
  files().forget(*ino, 1);
}

void Program::set_time() {
  const auto ino = find(own("moved", number_) + (is_moved_ ? "b" : ""));
  if (!done(ino, "its file with a time is found")) return;
  Known& known = things_.times[number_];
  const uint64_t value = known.begin();
  AttributeChange change;
  change.mtime = TimeNs{static_cast<int64_t>(value)};
  const auto set = files().set_attributes(*ino, change, root());
  if (done(set, "setting a time")) known.learn(value, listener());
  files().forget(*ino, 1);
}

void Program::set_xattr() {
  const auto ino = find(own("bytes", number_));
  if (!done(ino, "its file is found")) return;
  Known& known = things_.xattrs[number_];
  const uint64_t value = known.begin();
  const std::string text = std::to_string(value);
  const Status set = files().set_xattr(*ino, kXattr, std::as_bytes(std::span(text)), 0, root());
  expect(set, "setting an extended attribute");
  if (set.ok()) known.learn(value, listener());
  files().forget(*ino, 1);
}

// Done twice it would fail.
void Program::flip_name() {
  Known& known = things_.names[number_];
  if (!has_linked_) {
    const auto ino = find(own("bytes", number_));
    if (!done(ino, "its file is found")) return;
    const uint64_t value = known.begin();
    const auto linked = files().link(*ino, kRootIno, own("name", number_));
    if (done(linked, "a link of its own")) {
      known.learn(value, listener());
      files().forget(linked->ino, 1);
    }
    files().forget(*ino, 1);
  } else {
    const uint64_t value = known.begin();
    const Status removed = files().unlink(kRootIno, own("name", number_));
    expect(removed, "an unlink of its own");
    if (removed.ok()) known.learn(value, listener());
  }
  has_linked_ = !has_linked_;
}

void Program::move() {
  const std::string here = own("moved", number_);
  const std::string there = here + "b";
  const auto moved = is_moved_ ? files().rename(kRootIno, there, kRootIno, here, Rename::kReplace)
                               : files().rename(kRootIno, here, kRootIno, there, Rename::kReplace);
  if (done(moved, "a rename of its own")) is_moved_ = !is_moved_;
}

// --- what all change

void Program::append() {
  const auto ino = find("records");
  if (!done(ino, "the records are found")) return;
  Known& known = things_.records[number_];
  const uint64_t value = known.begin();
  const Status written = write_text(files(), *ino, History::record_of(number_, value), true);
  expect(written, "an append");
  if (written.ok()) known.learn(value, listener());
  files().forget(*ino, 1);
}

void Program::make_exclusively() {
  if (random_() % 2 == 0) ++things_.exclusive;
  const std::string name = fmt::format("exclusive{}", things_.exclusive);
  const auto made = files().create(kRootIno, name, S_IFREG | 0644, root());
  if (made.code() == EEXIST || !done(made, "making a name")) return;
  things_.history.has_made(name, listener());
  files().forget(made->ino, 1);
}

void Program::lock_and_unlock() {
  const auto ino = find("lock");
  if (!done(ino, "the lock's file is found")) return;
  LockRequest request{*ino, {0, number_ + 1, LockKind::kRange}, number_ + 1, {}};
  request.lock.mode = LockMode::kExclusive;
  const Status locked = files().set_lock(request, random_() % 2 == 0);
  if (locked.code() != EAGAIN) expect(locked, "a lock");
  if (locked.ok()) {
    things_.history.has_locked(number_, listener());
    fibers::sleep(std::chrono::milliseconds(random_() % 3'000));
    if (random_() % 2 == 0) append();
    things_.history.unlocks(number_);
    request.lock.mode = LockMode::kUnlocked;
    if (!is_over_) expect(files().set_lock(request, false), "unlocking");
  }
  files().forget(*ino, 1);
}

// A file without a name stays as long as somebody has it open.
void Program::use_unlinked() {
  const std::string name = own("unlinked", number_);
  if (unlinked_ == kNoIno) {
    const auto made = files().create(kRootIno, name, S_IFREG | 0644, root());
    if (!done(made, "making a file to be unlinked")) return;
    expect(write_text(files(), made->ino, text_of(number_)), "writing to it");
    if (!is_over_) expect(files().unlink(kRootIno, name), "unlinking it");
    unlinked_ = made->ino;
    return;
  }
  const auto text = read_text(files(), unlinked_, kText);
  if (!done(text, "reading a file without a name")) return;
  if (*text != text_of(number_))
    things_.history.violation(fmt::format("a file without a name has other bytes: {}", *text));
  if (random_() % 4 == 0) drop_unlinked();
}

void Program::drop_unlinked() {
  if (unlinked_ != kNoIno) files().forget(std::exchange(unlinked_, kNoIno), 1);
}

// --- looking

void Program::look_at_bytes(unsigned program) {
  const auto before = things_.history.floor(things_.bytes[program]);
  const auto ino = find(own("bytes", program));
  if (!done(ino, "a file is found")) return;
  const auto text = read_text(files(), *ino, kText);
  if (done(text, "a read"))
    things_.history.see(things_.bytes[program], before, number_in(*text), listener(),
                        own("bytes of program ", program));
  files().forget(*ino, 1);
}

// Numbers are seen modulo 64: the greatest that it can be.
void Program::look_at_large(unsigned program) {
  Known& known = things_.large[program];
  const auto before = things_.history.floor(known);
  const auto ino = find(own("large", program));
  if (!done(ino, "a large file is found")) return;
  const auto text = read_text(files(), *ino, kLargeBytes);
  files().forget(*ino, 1);
  if (!done(text, "a large read")) return;
  const uint64_t begun = known.begun();
  uint64_t oldest = begun;
  for (const char letter : *text) {
    const uint64_t age = (begun - static_cast<uint64_t>(letter - '0')) % 64;
    oldest = std::min(oldest, begun - std::min(age, begun));
  }
  things_.history.see(known, before, oldest, listener(), own("large bytes of program ", program));
}

void Program::look_at_attributes(unsigned program) {
  Known& times = things_.times[program];
  Known& xattrs = things_.xattrs[program];
  const auto time_before = things_.history.floor(times);
  for (const std::string& name : {own("moved", program), own("moved", program) + "b"}) {
    const auto found = files().lookup(kRootIno, name);
    if (found.code() == ENOENT) continue;
    if (!done(found, "a file with a time is looked up")) return;
    things_.history.see(times, time_before, static_cast<uint64_t>(found->mtime), listener(),
                        own("time of program ", program));
    files().forget(found->ino, 1);
  }
  const auto before = things_.history.floor(xattrs);
  const auto ino = find(own("bytes", program));
  if (!done(ino, "a file is found")) return;
  const auto value = files().get_xattr(*ino, kXattr);
  if (value.code() == ENODATA || done(value, "an extended attribute")) {
    const std::string text =
        value.ok() ? std::string(reinterpret_cast<const char*>(value->data()), value->size()) : "0";
    things_.history.see(xattrs, before, number_in(text), listener(), own("extended attribute of program ", program));
  }
  files().forget(*ino, 1);
}

// It is there after an odd number of changes: what is seen is the last one that can be meant.
void Program::look_at_name(unsigned program) {
  Known& known = things_.names[program];
  const auto before = things_.history.floor(known);
  const auto found = files().lookup(kRootIno, own("name", program));
  const bool is_there = found.ok();
  if (found.code() != ENOENT && !done(found, "a name is looked up")) return;
  if (is_there) files().forget(found->ino, 1);
  const uint64_t begun = known.begun();
  const bool is_last = (begun % 2 == 1) == is_there;
  if (begun == 0 && is_there) things_.history.violation("a name that nobody has made");
  if (begun > 0) {
    // Which of two it was is not known, so nothing is learnt of it unless it was the last.
    Known judged = known;
    things_.history.see(judged, before, is_last ? begun : begun - 1, listener(), own("name of program ", program));
  }
}

void Program::look_at_records() {
  const std::vector<Known> before = things_.records;
  const auto ino = find("records");
  if (!done(ino, "the records are found")) return;
  const auto text = read_text(files(), *ino, kRecordsBytes);
  if (done(text, "reading the records")) things_.history.see_records(*text, things_.records, before, listener());
  files().forget(*ino, 1);
}

}  // namespace brickfs::shared_world
