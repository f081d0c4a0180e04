// SPDX-License-Identifier: Apache-2.0
// What a member keeps of what it wrote to bricks itself, as tests have it: with a count of who asked, and a member that
// can go.
#pragma once

#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "transport/volume/lent_bytes.h"

namespace brickfs::testing {

class KeptBytes final : public LentBytes {
 public:
  struct Watch {
    std::atomic<int> fetched{0};
    std::atomic<bool> member_is_gone{false};
    std::atomic<bool> is_over{false};  // nobody needs the bytes any more
  };

  KeptBytes(uint64_t address, std::vector<std::byte> bytes, std::shared_ptr<Watch> watch)
      : address_(address), bytes_(std::move(bytes)), watch_(std::move(watch)) {}
  ~KeptBytes() override { watch_->is_over = true; }

  Status fetch(uint64_t address, std::span<std::byte> into) override {
    ++watch_->fetched;
    if (address < address_ || address - address_ + into.size() > bytes_.size()) return Error(EINVAL, "not ours");
    if (watch_->member_is_gone) {
      std::memset(into.data(), 0x55, into.size() / 2);  // on the way it went
      return Error(ENOTCONN, "the member is gone");
    }
    std::memcpy(into.data(), bytes_.data() + (address - address_), into.size());
    return {};
  }
  std::string owner() const override { return "a member of the test"; }

 private:
  const uint64_t address_;
  const std::vector<std::byte> bytes_;
  const std::shared_ptr<Watch> watch_;
};

}  // namespace brickfs::testing
