// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse/cache/kernel_cache.h"

#include <linux/fuse.h>
#include <sys/uio.h>

#include <cerrno>
#include <memory>
#include <string>
#include <vector>

#include "transport/base/log.h"

namespace brickfs {
namespace {

// FUSE_NOTIFY_INC_EPOCH came with protocol 7.44 (Linux 6.16): names that the kernel knows so far it asks for again.
constexpr auto kNotifyIncEpoch = static_cast<fuse_notify_code>(8);
constexpr int64_t kAttributesOnly = -1;  // as an offset: no pages

// The kernel may know nothing of it, or be gone.
void notify(int device, fuse_notify_code code, std::span<const iovec> parts) {
  fuse_out_header header{.len = sizeof(fuse_out_header), .error = code, .unique = 0};
  std::array<iovec, 4> all{iovec{&header, sizeof(header)}};
  size_t count = 1;
  for (const iovec& part : parts) {
    header.len += static_cast<uint32_t>(part.iov_len);
    all[count++] = part;
  }
  (void)!::writev(device, all.data(), static_cast<int>(count));
}

// The pages, by another thread.
class Dropped {
 public:
  void note() {
    MutexLock lock(mutex_);
    is_done_ = true;
    changed_.notify_all();
  }
  // Returns, too, if nobody waits for the answer any more.
  void wait(const Interruption* by) {
    MutexLock lock(mutex_);
    while (!is_done_ && wait_interruptibly(changed_, lock, by).ok()) continue;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool is_done_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace

KernelCache::KernelCache(FileOperations& files) : files_(files), pages_(notice_of_pages()), holes_(notice_of_pages()) {}

PageDropper::Notice KernelCache::notice_of_pages() {
  return [this](Ino ino, uint64_t offset, uint64_t length) {
    notify_inode(ino, static_cast<int64_t>(offset), static_cast<int64_t>(length));
  };
}

void KernelCache::notify_inode(Ino ino, int64_t offset, int64_t length) const {
  fuse_notify_inval_inode_out out{.ino = raw(ino), .off = offset, .len = length};
  const iovec part{&out, sizeof(out)};
  notify(device_, FUSE_NOTIFY_INVAL_INODE, {&part, 1});
}

void KernelCache::notify_name(Ino directory, std::string_view name) const {
  std::string ended(name);
  fuse_notify_inval_entry_out out{.parent = raw(directory), .namelen = static_cast<uint32_t>(name.size()), .flags = 0};
  const iovec parts[] = {{&out, sizeof(out)}, {ended.data(), ended.size() + 1}};
  notify(device_, FUSE_NOTIFY_INVAL_ENTRY, parts);
}

void KernelCache::drop_stamped(std::span<const Ino> inodes, const OperationContext& context) {
  for (const Ino ino : inodes) {
    const MutexLock lock(dropping_[raw(ino) % dropping_.size()]);
    if (files_.take_told(ino, context)) drop_attributes(ino);
  }
}

void KernelCache::drop_pages(Ino ino, PageDropper::Range written, PageDropper::Asker asker,
                             std::function<void()> answer) {
  const PageDropper::Turn turn(pages_);
  PageDropper::Range region{0, 0};
  if (const auto cached = files_.take_cached(ino, written.offset, written.length)) {
    region = {cached->offset, cached->length};
  }
  const PageDropper::Range first = region.length > 0 ? written : PageDropper::Range{0, 0};
  if (!pages_.drop(ino, first, region, asker, [answer](bool) { answer(); })) answer();
}

void KernelCache::drop_changed(Ino ino, PageDropper::Range bytes, const std::function<void()>& if_waiting,
                               const Interruption* by) {
  drop_stamped({&ino, 1}, {});
  drop_changed_pages(ino, bytes, if_waiting, by);
}

void KernelCache::drop_changed_pages(Ino ino, PageDropper::Range bytes, const std::function<void()>& if_waiting,
                                     const Interruption* by) {
  if (bytes.length == 0 || !may_have_pages(ino, bytes.offset, bytes.length)) return;
  const auto dropped = std::make_shared<Dropped>();
  drop_pages(ino, bytes, PageDropper::Asker::kOther, [dropped] { dropped->note(); });
  if_waiting();
  dropped->wait(by);
}

void KernelCache::drop_hole(Ino ino, PageDropper::Range hole, const PageDropper::Answer& answer) {
  if (!holes_.drop(ino, hole, {0, 0}, PageDropper::Asker::kKernel, answer)) answer(false);
}

// Of the directory it drops the attributes by itself only if it knows the name.
void KernelCache::drop_name(Ino directory, std::string_view name, Ino ino) {
  names_.give(
      [this, directory, name = std::string(name), ino] {
        notify_name(directory, name);
        drop_attributes(directory);
        if (ino != kNoIno) drop_attributes(ino);
      },
      [](const Status& given) {
        if (given.code() == EAGAIN) log::warn("a name may look as before a change that failed: too many were changed");
      });
}

void KernelCache::drop_attributes(Ino ino) const { notify_inode(ino, kAttributesOnly, 0); }

void KernelCache::write_back_and_drop(Ino ino) const { notify_inode(ino, 0, 0); }

void KernelCache::drop_names_and_attributes() const {
  notify(device_, kNotifyIncEpoch, {});
  Ino from{1};
  for (std::vector<Ino> known; !(known = files_.referenced_from(from)).empty();) {
    for (const Ino ino : known) drop_attributes(ino);
    from = Ino{raw(known.back()) + 1};
  }
}

void KernelCache::drop_everything(const std::function<bool()>& is_severed) {
  Ino from{1};
  for (std::vector<Ino> known; !(known = files_.referenced_from(from)).empty();) {
    for (const Ino ino : known) {
      if (is_severed()) return;
      write_back_and_drop(ino);
    }
    from = Ino{raw(known.back()) + 1};
  }
  for (const std::string& name : missing_.take()) notify_name(kRootIno, name);
}

}  // namespace brickfs
