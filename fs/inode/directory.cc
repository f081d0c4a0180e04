// SPDX-License-Identifier: Apache-2.0
#include "fs/inode/directory.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "absl/container/btree_set.h"
#include "absl/hash/hash.h"
#include "fs/base/memory_size.h"
#include "transport/base/check.h"
#include "transport/brick/limits.h"

namespace brickfs {

struct Directory::Node {
  struct Deleter {
    void operator()(Node* node) const { ::operator delete(node); }
  };
  using Owner = std::unique_ptr<Node, Deleter>;

  Ino ino;
  uint64_t cookie;
  uint8_t type;
  uint8_t name_bytes;
  char name_start[6];  // and on behind the struct

  static size_t bytes_of(std::string_view name) {
    return std::max(sizeof(Node), offsetof(Node, name_start) + name.size());
  }
  static Owner make(std::string_view name, Ino ino, uint8_t type, uint64_t cookie) {
    CHECK(name.size() <= limits::kNameBytes);
    void* memory = ::operator new(bytes_of(name));
    auto* node = new (memory) Node{ino, cookie, type, static_cast<uint8_t>(name.size()), {}};
    std::memcpy(reinterpret_cast<char*>(node) + offsetof(Node, name_start), name.data(), name.size());
    return Owner(node);
  }
  std::string_view name() const {
    return {reinterpret_cast<const char*>(this) + offsetof(Node, name_start), name_bytes};
  }
  Entry entry() const { return {ino, cookie, type, name()}; }
};

// The set by cookie owns the nodes. The set by name is only there once a look through all entries would take long.
class Directory::Impl {
 public:
  static constexpr size_t kHashedFrom = 12;

  ~Impl() {
    for (Node* node : by_cookie_) Node::Deleter()(node);
  }

  Node* find(std::string_view name) const {
    if (by_name_) {
      const auto it = by_name_->find(name);
      return it == by_name_->end() ? nullptr : *it;
    }
    const auto it =
        std::find_if(by_cookie_.begin(), by_cookie_.end(), [&](const Node* node) { return node->name() == name; });
    return it == by_cookie_.end() ? nullptr : *it;
  }

  void insert(Node::Owner node) {
    node_bytes_ += allocated_bytes(Node::bytes_of(node->name()));
    next_cookie_ = std::max(next_cookie_, node->cookie + 1);
    if (by_name_) by_name_->insert(node.get());
    by_cookie_.insert(by_cookie_.end(), node.release());
    if (!by_name_ && by_cookie_.size() >= kHashedFrom) {
      by_name_ = std::make_unique<NameSet>(by_cookie_.begin(), by_cookie_.end());
    }
  }

  void erase(Node* node) {
    const Node::Owner owner(node);
    node_bytes_ -= allocated_bytes(Node::bytes_of(node->name()));
    if (by_name_) by_name_->erase(node);
    by_cookie_.erase(node);
    if (by_cookie_.size() <= kHashedFrom / 2) by_name_.reset();
  }

  const Node* after(uint64_t cookie) const {
    const auto it = by_cookie_.upper_bound(cookie);
    return it == by_cookie_.end() ? nullptr : *it;
  }

  const auto& all() const { return by_cookie_; }
  size_t size() const { return by_cookie_.size(); }
  uint64_t next_cookie() const { return next_cookie_; }
  size_t memory_bytes() const {
    const size_t by_name = by_name_ ? by_name_->capacity() * (sizeof(Node*) + 1) : 0;
    return allocated_bytes(sizeof(Impl)) + node_bytes_ + tree_bytes(by_cookie_.size(), sizeof(Node*)) + by_name;
  }

 private:
  // Two names may share a cookie in a damaged volume only; both are kept then.
  struct CookieOrder {
    using is_transparent = void;
    bool operator()(const Node* left, const Node* right) const {
      return left->cookie != right->cookie ? left->cookie < right->cookie : left->name() < right->name();
    }
    bool operator()(uint64_t cookie, const Node* node) const { return cookie < node->cookie; }
    bool operator()(const Node* node, uint64_t cookie) const { return node->cookie < cookie; }
  };
  struct NameHash {
    using is_transparent = void;
    size_t operator()(const Node* node) const { return absl::HashOf(node->name()); }
    size_t operator()(std::string_view name) const { return absl::HashOf(name); }
  };
  struct NameEqual {
    using is_transparent = void;
    bool operator()(const Node* left, const Node* right) const {
      return left == right || left->name() == right->name();
    }
    bool operator()(const Node* node, std::string_view name) const { return node->name() == name; }
  };
  using NameSet = absl::flat_hash_set<Node*, NameHash, NameEqual>;

  uint64_t next_cookie_ = kFirstCookie;
  size_t node_bytes_ = 0;
  absl::btree_set<Node*, CookieOrder> by_cookie_;
  std::unique_ptr<NameSet> by_name_;
};

Directory::Directory() : impl_(std::make_unique<Impl>()) {}
Directory::~Directory() = default;

std::optional<Directory::Entry> Directory::find(std::string_view name) const {
  const Node* node = impl_->find(name);
  if (node == nullptr) return std::nullopt;
  return node->entry();
}

bool Directory::has_room() const { return impl_->next_cookie() <= limits::kCookie; }

uint64_t Directory::insert(std::string_view name, Ino ino, uint8_t type) {
  CHECK(has_room());
  const uint64_t cookie = impl_->next_cookie();
  impl_->insert(Node::make(name, ino, type, cookie));
  return cookie;
}

void Directory::put(std::string_view name, Ino ino, uint8_t type, uint64_t cookie) {
  if (Node* node = impl_->find(name)) impl_->erase(node);
  impl_->insert(Node::make(name, ino, type, cookie));
}

bool Directory::erase(std::string_view name) {
  Node* node = impl_->find(name);
  if (node == nullptr) return false;
  impl_->erase(node);
  return true;
}

void Directory::replace(std::string_view name, Ino ino, uint8_t type) {
  Node* node = impl_->find(name);
  CHECK(node != nullptr);
  node->ino = ino;
  node->type = type;
}

std::optional<Directory::Entry> Directory::after(uint64_t cookie) const {
  const Node* node = impl_->after(cookie);
  if (node == nullptr) return std::nullopt;
  return node->entry();
}

void Directory::for_each(const std::function<void(const Entry&)>& visit) const {
  for (const Node* node : impl_->all()) visit(node->entry());
}

void Directory::begin_listing() const { listed_end_ = impl_->next_cookie(); }

std::optional<Directory::Entry> Directory::next_listed(uint64_t cookie) const {
  auto next = after(cookie);
  if (next && next->cookie >= listed_end_) next.reset();
  return next;
}

size_t Directory::size() const { return impl_->size(); }

size_t Directory::memory_bytes() const { return allocated_bytes(sizeof(Directory)) + impl_->memory_bytes(); }

}  // namespace brickfs
