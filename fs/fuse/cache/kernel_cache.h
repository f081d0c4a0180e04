// SPDX-License-Identifier: Apache-2.0
// What the kernel keeps of the file system in its caches, and how it is told to drop it. docs/decisions, 30.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "fs/base/ids.h"
#include "fs/fuse/cache/notices.h"
#include "fs/fuse/cache/page_dropper.h"
#include "fs/operations/file_operations.h"
#include "transport/base/mutex.h"

namespace brickfs {

// Names in the root directory that the kernel was told not to exist, which it remembers: to be taken back when somebody
// else has the volume. (Below other directories it asks for theirs first.) Bounded: what finds no room is not to be
// remembered by the kernel either.
//
// Threads: any.
class MissingNames {
 public:
  static constexpr size_t kMost = 4096;

  // False: there is no room.
  bool note(std::string_view name) {
    MutexLock lock(mutex_);
    if (names_.size() == kMost) return names_.contains(std::string(name));
    names_.emplace(name);
    return true;
  }
  std::vector<std::string> take() {
    MutexLock lock(mutex_);
    std::vector<std::string> taken(names_.begin(), names_.end());
    names_.clear();
    return taken;
  }

 private:
  Mutex mutex_;
  std::unordered_set<std::string> names_ ABSL_GUARDED_BY(mutex_);
};

// What the kernel keeps of the file system in its caches, and how it is told to drop it (FUSE_NOTIFY_*): what a request
// has changed behind the kernel's back before that request is answered, and all of it when the volume is lost.
// docs/decisions, 30.
//
// Threads: any.
class KernelCache {
 public:
  explicit KernelCache(FileOperations& files);
  KernelCache(const KernelCache&) = delete;
  KernelCache& operator=(const KernelCache&) = delete;
  // To the connection, which stays open. Before the first request is served.
  void connect(int device) { device_ = device; }

  // --- with an answer: FuseRequest
  // Of inodes that the answer's change has stamped without telling the kernel their attributes: it drops those it has
  // by itself, but then takes, and keeps, older ones out of an answer that was under way meanwhile. After this it does
  // not.
  void drop_stamped(std::span<const Ino> inodes, const OperationContext& context);
  // It may have pages of these bytes, or is about to drop some.
  bool may_have_pages(Ino ino, uint64_t offset, uint64_t length) const {
    // In this order: what is noted no longer is being dropped as long as the other is not idle.
    return files_.is_cached(ino, offset, length) || !pages_.is_idle();
  }
  // Those are dropped, as the bytes were written past them; then `answer` is called, by another thread.
  void drop_pages(Ino ino, PageDropper::Range written, PageDropper::Asker asker, std::function<void()> answer);
  // Bytes of a file and its times were changed behind the kernel's back: by another machine, or by a program past the
  // kernel. It drops its pages of them, and the attributes, before this returns, or before `by` is raised.
  // `if_waiting`: called if that is waited for; the kernel may need others to go on before it drops a page. Not on a
  // thread that serves the kernel.
  void drop_changed(Ino ino, PageDropper::Range bytes, const std::function<void()>& if_waiting, const Interruption* by);
  // The pages alone, of a kernel that is given attributes for no time: to be told that they have changed would make it
  // pass over an answer with newer ones that is on its way, and go on with the size that it knew.
  void drop_changed_pages(Ino ino, PageDropper::Range bytes, const std::function<void()>& if_waiting,
                          const Interruption* by);
  // Those of a hole are dropped; what a program has stored to them through a mapping is written back before. Then
  // `answer` is called: by another thread, unless it is false at once.
  void drop_hole(Ino ino, PageDropper::Range hole, const PageDropper::Answer& answer);

  // Of a name that was given or taken away though the answer, which has gone, is an error: the kernel forgets what it
  // knows of it, of its directory, and of the inode. Soon: it needs the directory for that, which others may have.
  void drop_name(Ino directory, std::string_view name, Ino ino);

  // --- at other times
  void drop_attributes(Ino ino) const;
  // The kernel writes the file's dirty pages back, and drops all it has of it. Waits for the requests that this makes.
  void write_back_and_drop(Ino ino) const;
  // A name of the root directory: false if the kernel is not to remember that there is none.
  bool note_missing(std::string_view name) { return missing_.note(name); }
  // The kernel forgets attributes, pages and links' targets of all that it knows, so it has to ask for them, and which
  // names the root has not; other names alone give nothing away. Waits for requests under way: while they are served,
  // and not on a serving thread. `is_severed`: there is no kernel any more.
  void drop_everything(const std::function<bool()>& is_severed);
  // The kernel forgets all names, and the attributes of all that it knows; it keeps pages.
  // FuseNegotiation::has_epochs().
  void drop_names_and_attributes() const;
  // No pages are dropped from now on; all answers that waited for that have been sent. While requests are served.
  void stop() {
    pages_.stop();
    holes_.stop();
    names_.stop();
  }

 private:
  PageDropper::Notice notice_of_pages();
  void notify_inode(Ino ino, int64_t offset, int64_t length) const;
  void notify_name(Ino directory, std::string_view name) const;

  FileOperations& files_;
  int device_ = -1;
  MissingNames missing_;
  std::array<Mutex, 64> dropping_;  // by inode number: nobody goes on while another has not yet told the kernel
  PageDropper pages_;               // last, with the next: their threads use the others
  PageDropper holes_;               // may take long: many pages are written back, one after the other
  NoticeThread names_;
};

}  // namespace brickfs
