// SPDX-License-Identifier: Apache-2.0
#include "tests/support/crash_oracle.h"

#include <fmt/compile.h>
#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>

namespace brickfs {
namespace {

class Snapshooter {
 public:
  explicit Snapshooter(Filesystem& filesystem) : filesystem_(filesystem) {}

  TreeSnapshot run() {
    const auto root = filesystem_.get_attributes(kRootIno);
    if (!root.ok()) {
      fail("/", root.error());
    } else {
      add("/", *root);
      directory(kRootIno, "/");
    }
    return std::move(snapshot_);
  }

 private:
  void fail(const std::string& path, Error error) {
    if (snapshot_.error.empty()) snapshot_.error = fmt::format("{}: {} (errno {})", path, error.what(), error.code());
  }

  void directory(Ino ino, const std::string& path) {
    std::vector<std::string> names;
    const Status status = filesystem_.read_directory(ino, 0, false, [&names](const DirectoryEntry& entry) {
      if (entry.name != "." && entry.name != "..") names.emplace_back(entry.name);
      return true;
    });
    if (!status.ok()) return fail(path, status.error());
    for (const std::string& name : names) {
      const auto found = filesystem_.lookup(ino, name);
      if (!found.ok()) return fail(path + name, found.error());
      add(path + name, *found);
      if (S_ISDIR(found->mode)) directory(found->ino, path + name + "/");
      filesystem_.forget(found->ino, 1);
    }
  }

  void add(const std::string& path, const Attributes& found) {
    TreeSnapshot::File file;
    file.ino = found.ino;
    file.written = {found.size_bytes, found.blocks_512, found.mtime, found.ctime};
    file.attributes = fmt::format(FMT_COMPILE("mode {:o} links {} owner {}:{} btime {}"), found.mode, found.nlink,
                                  found.uid, found.gid, static_cast<int64_t>(found.btime));
    if (S_ISLNK(found.mode)) {
      const auto target = filesystem_.read_symlink(found.ino);
      if (!target.ok()) return fail(path, target.error());
      file.attributes += " to " + *target;
    }
    if (S_ISREG(found.mode)) {
      file.contents.resize(found.size_bytes);
      const LocalSlice into{reinterpret_cast<std::byte*>(file.contents.data()), static_cast<uint32_t>(found.size_bytes),
                            0};
      const auto bytes =
          found.size_bytes == 0 ? Result<uint64_t>(0) : filesystem_.read(found.ino, 0, std::span(&into, 1));
      if (!bytes.ok() || *bytes != found.size_bytes)
        return fail(path, bytes.ok() ? Error(EIO, "short read") : bytes.error());
    }
    add_xattrs(path, found.ino, file);
    snapshot_.files.emplace(path, std::move(file));
  }

  void add_xattrs(const std::string& path, Ino ino, TreeSnapshot::File& file) {
    Caller administrator;
    administrator.is_administrator = [] { return true; };
    const auto names = filesystem_.list_xattr(ino, administrator);
    if (!names.ok()) return fail(path, names.error());
    const std::string_view all(reinterpret_cast<const char*>(names->data()), names->size());
    for (size_t at = 0; at < all.size();) {
      const std::string_view name = all.substr(at, all.find('\0', at) - at);
      at += name.size() + 1;
      const auto value = filesystem_.get_xattr(ino, name);
      if (!value.ok()) return fail(path, value.error());
      file.attributes += fmt::format(" {}=", name);
      file.attributes.append(reinterpret_cast<const char*>(value->data()), value->size());
    }
  }

  Filesystem& filesystem_;
  TreeSnapshot snapshot_;
};

const TreeSnapshot::File* file_of(const TreeSnapshot& snapshot, Ino ino) {
  for (const auto& [path, file] : snapshot.files) {
    if (file.ino == ino) return &file;
  }
  return nullptr;
}

std::string text_of(const TreeSnapshot::File& file) {
  return fmt::format("size {} blocks {} mtime {} ctime {} {}", file.written.size_bytes, file.written.blocks_512,
                     static_cast<int64_t>(file.written.mtime), static_cast<int64_t>(file.written.ctime),
                     file.attributes);
}

// One of the trees that a crash may leave.
class Candidate {
 public:
  // After so many of the trees' steps, the last one of which began at `high` or before. `steps`: empty, or one less
  // than there are trees.
  Candidate(std::span<const TreeSnapshot> trees, std::span<const CrashHistory::Step> steps, size_t after, size_t high,
            uint64_t tick)
      : trees_(trees), steps_(steps), after_(after), high_(high), tick_(tick) {}
  // And some requests of the next one.
  void then(const RequestOutcomes::Outcome& outcome) { outcome_ = &outcome; }

  // Empty: `found` is it.
  std::string compare(const TreeSnapshot& found) const;

 private:
  std::string compare(const std::string& path, const TreeSnapshot::File& expected,
                      const TreeSnapshot::File& found) const;
  bool is_written(const std::string& path, const TreeSnapshot::File& expected,
                  const TreeSnapshot::Written& found) const;
  const std::string& contents_of(const TreeSnapshot::File& file) const;
  bool may_be_written(size_t j, Ino ino, size_t at, char byte, char there) const;
  bool contents_fit(const std::string& expected, Ino ino, const std::string& found) const;

  const std::span<const TreeSnapshot> trees_;
  const std::span<const CrashHistory::Step> steps_;
  const size_t after_;
  const size_t high_;
  const uint64_t tick_;
  const RequestOutcomes::Outcome* outcome_ = nullptr;
};

const std::string& Candidate::contents_of(const TreeSnapshot::File& file) const {
  if (outcome_ == nullptr) return file.contents;
  const auto changed = outcome_->files.find(file.ino);
  return changed == outcome_->files.end() ? file.contents : changed->second;
}

// With some requests of it done a file has a time from before the last of them. (The clock may have been set back since
// the file was made.)
bool Candidate::is_written(const std::string& path, const TreeSnapshot::File& expected,
                           const TreeSnapshot::Written& found) const {
  const TreeSnapshot::Written& before = expected.written;
  const RequestSet of_file = outcome_ == nullptr ? 0 : steps_[after_].requests.of_file(expected.ino);
  const RequestSet done = outcome_ == nullptr ? 0 : outcome_->done & of_file;
  if (done == 0) return found == before;
  const TreeSnapshot::Written& behind = trees_[after_ + 1].files.at(path).written;
  if (done == of_file) return found == behind;
  return found.size_bytes == contents_of(expected).size() && found.blocks_512 >= before.blocks_512 &&
         found.blocks_512 <= behind.blocks_512 && found.mtime == found.ctime && found.mtime <= behind.mtime;
}

// Whether what led to the j-th tree, where that byte is `there`, may have written this one. Of requests those that had
// begun may have, whatever was done later.
bool Candidate::may_be_written(size_t j, Ino ino, size_t at, char byte, char there) const {
  if (steps_.empty() || steps_[j - 1].requests.requests().empty()) return byte == there;
  return steps_[j - 1].requests.may_write(ino, at, std::byte(byte), tick_);
}

// True if each byte is the one expected, or one that a later write put over it in place: the file never ended before it
// in between.
bool Candidate::contents_fit(const std::string& expected, Ino ino, const std::string& found) const {
  if (found == expected) return true;
  if (found.size() != expected.size()) return false;
  std::vector<size_t> wrong;
  for (size_t i = 0; i < found.size(); ++i) {
    if (found[i] != expected[i]) wrong.push_back(i);
  }
  for (size_t j = after_ + 1; j <= high_ && !wrong.empty(); ++j) {
    const TreeSnapshot::File* later = file_of(trees_[j], ino);
    if (later == nullptr) break;
    if (std::ranges::any_of(wrong, [&](size_t i) { return i >= later->contents.size(); })) return false;
    std::erase_if(wrong, [&](size_t i) { return may_be_written(j, ino, i, found[i], later->contents[i]); });
  }
  return wrong.empty();
}

std::string Candidate::compare(const std::string& path, const TreeSnapshot::File& expected,
                               const TreeSnapshot::File& found) const {
  if (found.ino != expected.ino) return fmt::format("{} is inode {}, not {}", path, raw(found.ino), raw(expected.ino));
  if (found.attributes != expected.attributes || !is_written(path, expected, found.written))
    return fmt::format("{} has [{}], not [{}]", path, text_of(found), text_of(expected));
  const std::string& contents = contents_of(expected);
  if (contents_fit(contents, expected.ino, found.contents)) return "";
  const auto differ = std::ranges::mismatch(found.contents, contents);
  return fmt::format("{} has other bytes, from {} on", path, differ.in1 - found.contents.begin());
}

std::string Candidate::compare(const TreeSnapshot& found) const {
  const TreeSnapshot& expected = trees_[after_];
  for (const auto& [path, file] : expected.files) {
    const auto at = found.files.find(path);
    if (at == found.files.end()) return fmt::format("{} is missing", path);
    std::string why = compare(path, file, at->second);
    if (!why.empty()) return why;
  }
  for (const auto& [path, file] : found.files) {
    if (!expected.files.contains(path)) return fmt::format("{} is there", path);
  }
  return "";
}

FileContents contents_of(const TreeSnapshot& tree, std::span<const QueuedRequest> requests) {
  FileContents contents;
  for (const QueuedRequest& request : requests) {
    const TreeSnapshot::File* const file = request.changes() ? file_of(tree, request.ino) : nullptr;
    if (file != nullptr) contents[request.ino] = file->contents;
  }
  return contents;
}

std::string judge_any(std::span<const TreeSnapshot> trees, std::span<const CrashHistory::Step> steps,
                      const CrashBounds& bounds, const TreeSnapshot& found) {
  if (!found.error.empty()) return found.error;
  std::string why;
  const auto fits = [&](const Candidate& candidate, size_t k, const char* how) {
    const std::string text = candidate.compare(found);
    if (!text.empty()) why += fmt::format("{}after {} operations{}: {}", why.empty() ? "" : "; ", k, how, text);
    return text.empty();
  };
  for (size_t k = bounds.high + 1; k-- > bounds.low;) {
    const Candidate whole(trees, steps, k, bounds.high, bounds.tick);
    if (k < bounds.high && !steps.empty()) {
      for (const RequestOutcomes::Outcome& outcome : steps[k].requests.outcomes()) {
        if ((bounds.kept[k] & ~outcome.done) != 0 || (outcome.done & ~bounds.begun[k]) != 0) continue;
        Candidate midst = whole;
        midst.then(outcome);
        if (fits(midst, k, " and some requests")) return "";
      }
      if (bounds.kept[k] != 0) continue;  // some of them are there
    }
    if (fits(whole, k, "")) return "";
  }
  return "the tree is none that the operations made: " + why;
}

}  // namespace

TreeSnapshot take_snapshot(Filesystem& filesystem) { return Snapshooter(filesystem).run(); }

std::string difference(const TreeSnapshot& expected, const TreeSnapshot& found) {
  if (!found.error.empty()) return found.error;
  return Candidate(std::span(&expected, 1), {}, 0, 0, 0).compare(found);
}

std::string judge_failed(const TreeSnapshot& before, const TreeSnapshot& intended, const TreeSnapshot& found) {
  if (!found.error.empty()) return found.error;
  const TreeSnapshot trees[] = {before, intended};
  return Candidate(trees, {}, 0, 1, 0).compare(found);
}

void CrashHistory::add(Step step, TreeSnapshot after) {
  steps.push_back(std::move(step));
  trees.push_back(std::move(after));
}

bool CrashHistory::add_requests(std::vector<QueuedRequest> requests, uint64_t begin, uint64_t end, TreeSnapshot after) {
  const FileContents from = contents_of(trees.back(), requests);
  const FileContents to = contents_of(after, requests);
  RequestOutcomes outcomes(std::move(requests), from, to);
  const bool explained = outcomes.is_explained();
  add({begin, end, false, std::move(outcomes)}, std::move(after));
  return explained;
}

CrashBounds::CrashBounds(const CrashHistory& history, uint64_t at) : tick(at) {
  for (size_t i = 0; i < history.steps.size(); ++i) {
    const CrashHistory::Step& step = history.steps[i];
    begun.push_back(step.requests.begun(tick));
    kept.push_back(step.requests.kept(tick));
    if (step.synced && step.end < tick) low = i + 1;
    if (step.requests.synced(tick)) low = i;
    if (step.begin < tick) high = i + 1;
  }
}

uint64_t CrashBounds::digest() const {
  uint64_t value = low * 1'000'003 + high;
  for (size_t i = 0; i < begun.size(); ++i) {
    if (begun[i] != 0) value = value * 1'000'003 + begun[i] * 64 + kept[i];
  }
  return value;
}

std::string judge(const CrashHistory& history, const CrashBounds& bounds, const TreeSnapshot& found) {
  return judge_any(history.trees, history.steps, bounds, found);
}

std::string judge(std::span<const TreeSnapshot> trees, size_t low, size_t high, const TreeSnapshot& found) {
  return judge_any(trees, {}, {low, high}, found);
}

}  // namespace brickfs
