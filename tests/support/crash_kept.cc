// SPDX-License-Identifier: Apache-2.0
#include "tests/support/crash_kept.h"

#include <fmt/core.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "server/store/kept_table.h"
#include "transport/base/check.h"

namespace brickfs {
namespace {

constexpr uint32_t kTableFrames = 8;
constexpr uint32_t kTableVolumes = 3;  // used; the rest stays zero
constexpr int kChanges = 14;
constexpr int kDamages = 300;
constexpr KeptTable::Place kTablePlace{7, 9};
constexpr uint32_t kTableKeys = 3;  // places used; the rest stays zero
constexpr uint64_t kTableBytes = kKeptEntriesAt + kTableFrames * sizeof(KeptEntry);
constexpr uint64_t kTableKeysAt = kept_keys_at(kTableFrames);
// brickfs-crash has small blocks, and no room for keys: those are explored by the unit tests.
constexpr uint64_t kTableKeysBytes = kept_keys_fit(kTableFrames) ? kTableKeys * sizeof(StoreKey) : 0;

// Whose block is in each frame, and what each volume's record says.
struct KeptModel {
  std::map<uint32_t, std::pair<uint32_t, BlockAddress>> frames;
  std::set<uint32_t> blank;
  std::map<uint32_t, uint64_t> epochs;
  std::map<uint32_t, std::pair<uint32_t, KeyId>> keys;  // by place: of which volume
  bool sealed = false;
  bool operator==(const KeptModel&) const = default;
};

struct KeptStep {
  enum class Kind { kVolume, kErase, kAdd, kFill, kRemove, kKey, kUnkey, kSeal } kind;
  uint32_t volume = 0;
  uint64_t epoch = 0;
  BlockRange blocks;
  std::vector<uint32_t> frames;  // of a key: its place
};

// Shared with the process that is stepped.
struct KeptProgress {
  std::atomic<uint64_t> begun;
  std::atomic<uint64_t> done;
};

StoreVolume record_of(uint32_t volume, uint64_t epoch) {
  StoreVolume record{};
  const std::string name = fmt::format("volume{}", volume);
  std::memcpy(record.name.data(), name.data(), name.size());
  record.epoch = epoch;
  record.holder_client = epoch;
  record.lease_mode = 1;
  return record;
}

// What the history can change.
void copy_table(std::span<std::byte> to, std::span<const std::byte> from) {
  std::memcpy(to.data(), from.data(), kTableBytes);
  std::memcpy(&to[kTableKeysAt], &from[kTableKeysAt], kTableKeysBytes);
}

// The key of a step; its number is the step's epoch.
VolumeKey key_of(uint64_t number) {
  VolumeKey key;
  key.secret = Secret{fmt::format("the key number {}", number)};
  key.id = key_id_of(key.secret);
  key.rights = number % 2 == 0 ? KeyRights::kReadOnly : KeyRights::kReadWrite;
  return key;
}

KeptModel model_of(const KeptTable::Contents& contents) {
  KeptModel model;
  for (const KeptTable::Entry& entry : contents.entries) {
    model.frames[entry.frame] = {entry.volume, entry.address};
    if (entry.blank) model.blank.insert(entry.frame);
  }
  for (const StoredKey& key : contents.keys)
    model.keys[key.place] = {key.volume, key_id_of(key.key.secret) == key.key.id ? key.key.id : KeyId{}};
  for (uint32_t id = 0; id < contents.volumes.size(); ++id) {
    const StoreVolume& record = contents.volumes[id];
    if (record.in_use == 0) continue;
    model.epochs[id] = record.name == record_of(id, 0).name && record.holder_client == record.epoch ? record.epoch : 0;
  }
  return model;
}

// A history that keeps to the rules of KeptTable's callers, and what it leads to after each step.
class KeptHistory {
 public:
  explicit KeptHistory(std::mt19937_64& random) : random_(random) {
    models_.push_back({});
    for (uint32_t volume = 0; volume < kTableVolumes; ++volume) append_volume(volume);
    for (int i = 0; i < kChanges; ++i) append();
    if (random_() % 2 == 0) {
      KeptModel next = models_.back();
      next.sealed = true;
      steps_.push_back({.kind = KeptStep::Kind::kSeal, .volume = 0, .epoch = 0, .blocks = {}, .frames = {}});
      models_.push_back(next);
    }
  }
  const std::vector<KeptStep>& steps() const { return steps_; }
  const KeptModel& after(uint64_t steps) const { return models_[std::min<uint64_t>(steps, models_.size() - 1)]; }

 private:
  void append() {
    const uint32_t volume = static_cast<uint32_t>(random_() % kTableVolumes);
    switch (random_() % 10) {
      case 0:
        return append_volume(volume);
      case 8:
      case 9:
        return append_key(volume);
      case 7:
        return append_erase(volume);
      case 1:
      case 2:
        return append_remove();
      case 3:
      case 4:
        return append_fill();
      default:
        return append_add(volume);
    }
  }
  void append_volume(uint32_t volume) {
    KeptModel next = models_.back();
    const uint64_t epoch = ++next.epochs[volume];
    steps_.push_back({.kind = KeptStep::Kind::kVolume, .volume = volume, .epoch = epoch, .blocks = {}, .frames = {}});
    models_.push_back(std::move(next));
  }
  void append_erase(uint32_t volume) {
    KeptModel next = models_.back();
    const auto is_of_it = [&](const auto& known) { return known.second.first == volume; };
    const auto is_key_of_it = [&](const auto& known) { return known.second.first == volume; };
    if (std::ranges::any_of(next.keys, is_key_of_it)) return append_volume(volume);
    if (std::ranges::any_of(next.frames, is_of_it) || next.epochs.erase(volume) == 0) return append_volume(volume);
    steps_.push_back({.kind = KeptStep::Kind::kErase, .volume = volume, .epoch = 0, .blocks = {}, .frames = {}});
    models_.push_back(std::move(next));
  }
  void append_add(uint32_t volume) {
    KeptModel next = models_.back();
    if (!next.epochs.contains(volume)) return append_volume(volume);
    KeptStep step{.kind = KeptStep::Kind::kAdd, .volume = volume, .epoch = 0, .blocks = {}, .frames = {}};
    const uint64_t wanted = 1 + random_() % 4;
    const BlockAddress start{random_() % 64 * 8 * kBlockBytes};  // a range of its own for each
    const auto exists = [&](const auto& known) { return known.second == std::pair(volume, start); };
    if (std::ranges::any_of(next.frames, exists)) return;
    for (uint32_t frame = 0; frame < kTableFrames && step.frames.size() < wanted; ++frame) {
      if (next.frames.contains(frame)) continue;
      next.frames[frame] = {volume, block_after(start, step.frames.size())};
      next.blank.insert(frame);
      step.frames.push_back(frame);
    }
    if (step.frames.empty()) return append_remove();
    step.blocks = {start, step.frames.size()};
    steps_.push_back(std::move(step));
    models_.push_back(std::move(next));
  }
  // A place has a key, or gets one.
  void append_key(uint32_t volume) {
    if (kTableKeysBytes == 0) return append_volume(volume);
    KeptModel next = models_.back();
    const auto place = static_cast<uint32_t>(random_() % kTableKeys);
    KeptStep step{.kind = KeptStep::Kind::kUnkey, .volume = volume, .epoch = 0, .blocks = {}, .frames = {place}};
    if (next.keys.erase(place) == 0) {
      if (!next.epochs.contains(volume)) return append_volume(volume);
      step.kind = KeptStep::Kind::kKey;
      step.epoch = steps_.size();
      next.keys[place] = {volume, key_of(step.epoch).id};
    }
    steps_.push_back(std::move(step));
    models_.push_back(std::move(next));
  }
  void append_fill() {
    KeptModel next = models_.back();
    if (next.blank.empty()) return;
    const uint32_t frame = *next.blank.begin();
    steps_.push_back({.kind = KeptStep::Kind::kFill, .volume = 0, .epoch = 0, .blocks = {}, .frames = {frame}});
    next.blank.erase(frame);
    models_.push_back(std::move(next));
  }
  void append_remove() {
    KeptModel next = models_.back();
    if (next.frames.empty()) return;
    auto first = next.frames.begin();
    std::advance(first, static_cast<std::ptrdiff_t>(random_() % next.frames.size()));
    const auto volume = first->second.first;
    const auto address = first->second.second;
    KeptStep step{.kind = KeptStep::Kind::kRemove, .volume = volume, .epoch = 0, .blocks = {address, 0}, .frames = {}};
    for (BlockAddress block = address;; block = block_after(block)) {
      const auto found = std::ranges::find_if(
          next.frames, [&](const auto& known) { return known.second == std::pair(volume, block); });
      if (found == next.frames.end()) break;
      step.frames.push_back(found->first);
      next.blank.erase(found->first);
      next.frames.erase(found);
    }
    step.blocks.count = step.frames.size();
    steps_.push_back(std::move(step));
    models_.push_back(std::move(next));
  }

  std::mt19937_64& random_;
  std::vector<KeptStep> steps_;
  std::vector<KeptModel> models_;
};

void do_step(KeptTable& table, const KeptStep& step) {
  switch (step.kind) {
    case KeptStep::Kind::kVolume:
      CHECK(table.write_volume(step.volume, record_of(step.volume, step.epoch)).ok());
      break;
    case KeptStep::Kind::kErase:
      CHECK(table.erase_volume(step.volume).ok());
      break;
    case KeptStep::Kind::kAdd:
      table.add(step.volume, step.blocks, step.frames);
      break;
    case KeptStep::Kind::kFill:
      table.fill(step.frames.front());
      break;
    case KeptStep::Kind::kRemove:
      table.remove(step.volume, step.blocks, step.frames);
      break;
    case KeptStep::Kind::kKey:
      CHECK(table.write_key(step.frames.front(), step.volume, key_of(step.epoch)).ok());
      break;
    case KeptStep::Kind::kUnkey:
      CHECK(table.erase_key(step.frames.front()).ok());
      break;
    case KeptStep::Kind::kSeal:
      table.seal();
      break;
  }
}

class KeptWorld {
 public:
  KeptWorld(uint64_t seed, uint64_t& states, bool& cannot_step)
      : states_(states), cannot_step_(cannot_step), random_(seed), history_(random_) {
    const size_t room = kept_frames_at(kTableFrames);
    for (std::span<std::byte>* memory : {&memory_, &scratch_, &other_}) {
      void* const mapped = mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
      CHECK(mapped != MAP_FAILED);
      *memory = {static_cast<std::byte*>(mapped), room};
    }
    void* const shared = mmap(nullptr, sizeof(KeptProgress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    progress_ = new (shared) KeptProgress{};
  }
  KeptWorld(const KeptWorld&) = delete;
  KeptWorld& operator=(const KeptWorld&) = delete;
  ~KeptWorld() {
    for (const std::span<std::byte> memory : {memory_, scratch_, other_}) munmap(memory.data(), memory.size());
    munmap(progress_, sizeof(KeptProgress));
  }

  std::string run() {
    const auto table = KeptTable::make(memory_, kTableFrames, kTablePlace);
    const auto change = [&] {
      for (uint64_t i = 0; i < history_.steps().size(); ++i) {
        progress_->begun = i + 1;
        do_step(*table, history_.steps()[i]);
        progress_->done = i + 1;
      }
    };
    const auto judge = [&]() -> std::string {
      const uint64_t done = progress_->done;
      const uint64_t begun = progress_->begun;
      const KeptModel& before = history_.after(done);
      const KeptModel& after = history_.after(begun);
      std::string failure = judge_state(memory_, before, after);
      if (!failure.empty()) return fmt::format("change {} of {}: {}", begun, history_.steps().size(), failure);
      if (opened_ || random_() % 256 != 0) return {};
      opened_ = true;  // it takes long
      return kill_who_opens();
    };
    std::string failure = step_through(memory_, change, judge);
    if (!failure.empty() || cannot_step_) return failure;
    if (progress_->done != history_.steps().size()) return "the process that is stepped does not come to its end";
    return damage();
  }

 private:
  // Lets a process do it, and judges what it has done behind each instruction that changes `memory`.
  std::string step_through(std::span<const std::byte> memory, const std::function<void()>& work,
                           const std::function<std::string()>& judge) {
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(1);
      raise(SIGSTOP);
      work();
      _exit(0);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    cannot_step_ = WIFEXITED(status);
    std::string failure;
    Changes changes(memory);
    while (WIFSTOPPED(status) && failure.empty()) {
      // A signal of the system's own (an alarm, say) is passed on, the trap is not.
      const int signal = WSTOPSIG(status) == SIGTRAP || WSTOPSIG(status) == SIGSTOP ? 0 : WSTOPSIG(status);
      if (ptrace(PTRACE_SINGLESTEP, child, nullptr, signal) != 0) break;
      if (waitpid(child, &status, 0) != child) break;
      if (!changes.any()) continue;
      ++states_;
      failure = judge();
    }
    if (WIFSTOPPED(status)) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
    } else if (failure.empty() && !cannot_step_ && !(WIFEXITED(status) && WEXITSTATUS(status) == 0)) {
      failure = "the process that is stepped ends by itself";
    }
    return failure;
  }

  // Looks where the history can change anything.
  class Changes {
   public:
    explicit Changes(std::span<const std::byte> memory) : memory_(memory) { any(); }
    bool any() {
      bool changed = false;
      for (const auto& [at, bytes] : kPlaces) {
        if (std::memcmp(&before_[at], &memory_[at], bytes) == 0) continue;
        std::memcpy(&before_[at], &memory_[at], bytes);
        changed = true;
      }
      return changed;
    }

   private:
    static constexpr std::pair<uint64_t, uint64_t> kPlaces[] = {
        {kKeptSummariesAt, 2 * sizeof(KeptSummary)},
        {kKeptVolumesAt, 2 * kTableVolumes * sizeof(KeptVolume)},
        {kKeptEntriesAt, kTableFrames * sizeof(KeptEntry)},
        {kTableKeysAt, kTableKeysBytes},
    };
    const std::span<const std::byte> memory_;
    std::vector<std::byte> before_ = std::vector<std::byte>(kept_frames_at(kTableFrames));
  };

  // In memory that may be changed.
  static std::string open(std::span<std::byte> memory, KeptModel* model) {
    std::string why;
    const auto frames = KeptTable::look(memory, kTablePlace, &why);
    if (!frames.ok()) return why;
    KeptTable::Contents contents;
    const auto table = KeptTable::open(memory, *frames, &contents, &why);
    if (!table.ok()) return why;
    *model = model_of(contents);
    model->sealed = contents.sealed;
    return "";
  }

  // What another process finds there, and a third one that comes when the second was killed as it began to serve.
  std::string judge_state(std::span<const std::byte> memory, const KeptModel& before, const KeptModel& after) {
    copy_table(scratch_, memory);
    KeptModel found;
    std::string why = open(scratch_, &found);
    if (!why.empty()) return "memory of a process that was killed " + why;
    if (found != before && found != after) return "what is found was never there: " + difference(found, before, after);
    KeptModel again;
    why = open(scratch_, &again);
    if (!why.empty()) return "memory that was opened and left " + why;
    if (again.sealed) return "memory that somebody began to serve is said to be left in order";
    again.sealed = found.sealed;
    return again == found ? "" : "what is found differs the second time";
  }

  std::string kill_who_opens() {
    copy_table(scratch_, memory_);
    copy_table(other_, memory_);
    KeptModel found;
    if (const std::string why = open(scratch_, &found); !why.empty()) return why;
    KeptModel served = found;
    served.sealed = false;
    const auto work = [&] {
      KeptModel ignored;
      if (!open(other_, &ignored).empty()) _exit(1);
    };
    const std::string failure = step_through(other_, work, [&] { return judge_state(other_, found, served); });
    return failure.empty() ? failure : "killed as it opens: " + failure;
  }

  // A bit turns, a record or a page is lost, or an older one comes back: it is noticed, or changes nothing.
  std::string damage() {
    const KeptModel& last = history_.after(history_.steps().size());
    std::vector<std::byte> whole(memory_.begin(), memory_.end());
    for (int i = 0; i < kDamages; ++i) {
      copy_table(memory_, whole);
      const std::string what = damage_once();
      copy_table(scratch_, memory_);
      KeptModel found;
      if (!open(scratch_, &found).empty()) continue;
      if (found != last) return what + " is not noticed";
    }
    copy_table(memory_, whole);
    return judge_state(memory_, last, last);
  }

  std::string damage_once() {
    static constexpr std::pair<uint64_t, uint64_t> kUsed[] = {
        {0, 96},
        {offsetof(KeptHeader, checksum), 8},
        {kKeptSummariesAt, 2 * sizeof(KeptSummary)},
        {kKeptVolumesAt, 2 * kTableVolumes * sizeof(KeptVolume)},
        {kKeptEntriesAt, kTableFrames * sizeof(KeptEntry)},
        {kTableKeysAt, kTableKeysBytes},
    };
    const auto& [place, bytes] = kUsed[random_() % (std::size(kUsed) - (kTableKeysBytes == 0 ? 1 : 0))];
    const uint64_t at = place + random_() % bytes;
    if (random_() % 2 == 0) {
      memory_[at] ^= std::byte{1} << (random_() % 8);
      return fmt::format("bit of byte {}", at);
    }
    static constexpr uint64_t kSizes[] = {8, 32, 64, 256, 4096};
    const uint64_t size = kSizes[random_() % std::size(kSizes)];
    const uint64_t from = round_down(at, size);
    std::memset(&memory_[from], 0, std::min(size, kTableBytes - from));
    return fmt::format("loss of {} bytes at {}", size, from);
  }

  static std::string difference(const KeptModel& found, const KeptModel& before, const KeptModel& after) {
    return fmt::format("{} blocks, {} volumes, {}; before {}, {}, after {}, {}", found.frames.size(),
                       found.epochs.size(), found.sealed ? "sealed" : "serving", before.frames.size(),
                       before.epochs.size(), after.frames.size(), after.epochs.size());
  }

  uint64_t& states_;
  bool opened_ = false;
  bool& cannot_step_;
  std::mt19937_64 random_;
  const KeptHistory history_;
  std::span<std::byte> memory_;
  std::span<std::byte> scratch_;  // a copy that is opened
  std::span<std::byte> other_;    // one that a process is killed at, as it opens it
  KeptProgress* progress_ = nullptr;
};

}  // namespace

std::string KeptExplorer::run(uint64_t seed) { return KeptWorld(seed, states_, cannot_step_).run(); }

}  // namespace brickfs
