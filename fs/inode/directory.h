// SPDX-License-Identifier: Apache-2.0
// The entries of one directory: by name (hash), and in the order of their cookies, which are the directory offsets the
// user sees. A cookie is not given twice while this lives, so an offset stays valid while entries come and go.
// Threads: none of its own; guarded by the inode's lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "fs/base/ids.h"

namespace brickfs {

class Directory {
 public:
  static constexpr uint64_t kFirstCookie = 3;  // 1 and 2 are behind "." and ".."

  struct Entry {
    Ino ino{};
    uint64_t cookie = 0;
    uint8_t type = 0;       // DT_*
    std::string_view name;  // valid until the entry goes
  };

  Directory();
  ~Directory();
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;

  std::optional<Entry> find(std::string_view name) const;
  // False: all cookies have been given; insert() must not be called.
  bool has_room() const;
  // The name must not be there. Returns the cookie given to it.
  uint64_t insert(std::string_view name, Ino ino, uint8_t type);
  // Recovery: with a cookie given before; replaces an entry of that name.
  void put(std::string_view name, Ino ino, uint8_t type, uint64_t cookie);
  bool erase(std::string_view name);
  // The name stays, with its cookie, and now means another inode (rename over, exchange).
  void replace(std::string_view name, Ino ino, uint8_t type);
  // The first entry whose cookie is greater.
  std::optional<Entry> after(uint64_t cookie) const;
  // Listings end with what is there now: names that come later, as each that is renamed while it is listed, would make
  // them endless. Of all readers, as those that are on their way are not told apart. By any thread that holds the lock,
  // shared or not.
  void begin_listing() const;
  // The first entry whose cookie is greater, if it was there when a listing last began (or none has yet).
  std::optional<Entry> next_listed(uint64_t cookie) const;
  // Every entry in the order of cookies, also where some share one (only in a damaged volume). `visit` must not change
  // the directory.
  void for_each(const std::function<void(const Entry&)>& visit) const;
  size_t size() const;
  bool empty() const { return size() == 0; }
  size_t memory_bytes() const;  // that this takes, entries included, as far as it can be told without a look at each

 private:
  struct Node;  // ino, cookie, type and name in one allocation
  class Impl;
  std::unique_ptr<Impl> impl_;
  mutable std::atomic<uint64_t> listed_end_{UINT64_MAX};  // no cookie from there on is listed
};

}  // namespace brickfs
