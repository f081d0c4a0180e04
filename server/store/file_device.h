// SPDX-License-Identifier: Apache-2.0
// A store's device in production: a regular file, locked against a second opener.
#pragma once

#include <memory>
#include <string>

#include "server/store/store_device.h"
#include "transport/base/unique_fd.h"

namespace brickfs {

class FileDevice final : public StoreDevice {
 public:
  // `may_create`: an empty file, if there is none. Errors, with one line for people in `why`: EBUSY (another process
  // has it), EINVAL (no regular file), EPERM (another user's, or open to all), EEXIST (a link that leads nowhere),
  // others as the system gave them.
  static Result<std::unique_ptr<FileDevice>> open(const std::string& path, bool may_create, std::string* why);

  Result<uint64_t> size_bytes() const override;
  Status read(uint64_t offset, std::span<std::byte> into) const override;
  Status write(uint64_t offset, std::span<const std::byte> from) override;
  Status reserve(uint64_t offset, uint64_t length_bytes) override;
  Status punch(uint64_t offset, uint64_t length_bytes) override;
  Status grow(uint64_t size_bytes) override;
  Status sync() override;
  void forget_cache() override;
  uint64_t room_bytes() const override;

 private:
  FileDevice(std::string path, UniqueFd fd, bool is_new)
      : path_(std::move(path)), fd_(std::move(fd)), is_new_(is_new) {}
  Status allocate(int mode, uint64_t offset, uint64_t length_bytes, const char* doing);

  const std::string path_;
  const UniqueFd fd_;
  bool is_new_;  // its name may not be durable. sync() only
};

}  // namespace brickfs
