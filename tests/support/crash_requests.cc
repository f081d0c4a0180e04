// SPDX-License-Identifier: Apache-2.0
#include "tests/support/crash_requests.h"

#include <xxhash.h>

#include <algorithm>
#include <utility>

namespace brickfs {
namespace {

uint64_t digest(RequestSet done, const FileContents& files) {
  uint64_t value = done;
  for (const auto& [ino, contents] : files) value = XXH3_64bits_withSeed(contents.data(), contents.size(), value);
  return value;
}

void carry_out(const QueuedRequest& request, FileContents& files) {
  std::string& contents = files[request.ino];
  const uint64_t offset = request.kind == QueuedRequest::Kind::kAppend ? contents.size() : request.offset;
  if (contents.size() < offset + request.bytes.size()) contents.resize(offset + request.bytes.size());
  std::ranges::transform(request.bytes, contents.begin() + static_cast<ptrdiff_t>(offset),
                         [](std::byte byte) { return static_cast<char>(byte); });
}

}  // namespace

RequestOutcomes::RequestOutcomes(std::vector<QueuedRequest> requests, const FileContents& before,
                                 const FileContents& after)
    : requests_(std::move(requests)), before_(requests_.size()) {
  for (size_t i = 0; i < requests_.size(); ++i) {
    if (!requests_[i].changes()) continue;
    all_ |= RequestSet{1} << i;
    for (size_t j = 0; j < requests_.size(); ++j) {
      if (requests_[i].end < requests_[j].begin) before_[j] |= RequestSet{1} << i;
    }
  }
  explained_ = lead_on(0, before, after);
  seen_.clear();
}

// Whether those that are left lead to `after`. Then this is an outcome.
bool RequestOutcomes::lead_on(RequestSet done, const FileContents& files, const FileContents& after) {
  if (done == all_) return files == after;
  const uint64_t key = digest(done, files);
  if (const auto seen = seen_.find(key); seen != seen_.end()) return seen->second;
  bool leads = false;
  for (size_t i = 0; i < requests_.size(); ++i) {
    const RequestSet one = RequestSet{1} << i;
    if ((all_ & ~done & one) == 0 || (before_[i] & ~done) != 0) continue;
    FileContents next = files;
    carry_out(requests_[i], next);
    leads |= lead_on(done | one, next, after);
  }
  if (leads && done != 0) outcomes_.push_back({done, files});
  seen_.emplace(key, leads);
  return leads;
}

RequestSet RequestOutcomes::of_file(Ino ino) const {
  RequestSet set = 0;
  for (size_t i = 0; i < requests_.size(); ++i) {
    if (requests_[i].ino == ino) set |= all_ & RequestSet{1} << i;
  }
  return set;
}

RequestSet RequestOutcomes::begun(uint64_t tick) const {
  RequestSet set = 0;
  for (size_t i = 0; i < requests_.size(); ++i) {
    if (requests_[i].begin < tick) set |= all_ & RequestSet{1} << i;
  }
  return set;
}

RequestSet RequestOutcomes::kept(uint64_t tick) const {
  RequestSet set = 0;
  for (size_t i = 0; i < requests_.size(); ++i) {
    const QueuedRequest& request = requests_[i];
    if (request.kind == QueuedRequest::Kind::kSync && request.result == 0 && request.end < tick) set |= before_[i];
  }
  return set;
}

bool RequestOutcomes::synced(uint64_t tick) const {
  return std::ranges::any_of(requests_, [&](const QueuedRequest& request) {
    return request.kind == QueuedRequest::Kind::kSync && request.result == 0 && request.end < tick;
  });
}

bool RequestOutcomes::may_write(Ino ino, uint64_t offset, std::byte byte, uint64_t tick) const {
  return std::ranges::any_of(requests_, [&](const QueuedRequest& request) {
    return request.kind == QueuedRequest::Kind::kWrite && request.ino == ino && request.begin < tick &&
           offset >= request.offset && offset - request.offset < request.bytes.size() &&
           request.bytes[offset - request.offset] == byte;
  });
}

}  // namespace brickfs
