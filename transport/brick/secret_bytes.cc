// SPDX-License-Identifier: Apache-2.0
#include "transport/brick/secret_bytes.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <new>

#include "transport/base/bytes.h"

namespace brickfs {

class SecretBytes::Pages {
 public:
  Pages(const char* bytes, size_t size) : size_(size), mapped_(round_up(size, static_cast<uint64_t>(getpagesize()))) {
    at_ = ::mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at_ == MAP_FAILED) throw std::bad_alloc();
    static_cast<void>(::madvise(at_, mapped_, MADV_DONTDUMP));  // which fails for no memory of this kind
    std::memcpy(at_, bytes, size);
  }
  ~Pages() {
    ::explicit_bzero(at_, size_);
    ::munmap(at_, mapped_);
  }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  std::string_view view() const { return {static_cast<const char*>(at_), size_}; }

 private:
  const size_t size_;
  const size_t mapped_;
  void* at_ = nullptr;
};

SecretBytes::SecretBytes(const char* bytes, size_t size)
    : pages_(size == 0 ? nullptr : std::make_shared<const Pages>(bytes, size)) {}

// Not at null, which HMAC takes for "the key as before".
std::string_view SecretBytes::view() const { return pages_ ? pages_->view() : std::string_view(""); }

}  // namespace brickfs
