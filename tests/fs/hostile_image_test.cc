// SPDX-License-Identifier: Apache-2.0
// Volumes whose numbers somebody has made up, with checksums that are right: what is read never ends a program or keeps
// it for ever, and a volume that `check` calls clean can be mounted and used.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fs/operations/filesystem.h"
#include "fs/recovery/check.h"
#include "fs/recovery/repair.h"
#include "tests/support/embedded_volume.h"
#include "tests/support/mounted_volume.h"
#include "tests/support/volume_image.h"
#include "transport/base/log.h"

namespace brickfs {
namespace {

constexpr uint64_t kVolumeMemory = 48 * kMiB;
constexpr unsigned kSecondsOfAField = 60;  // in sanitizers' builds; it takes some milliseconds
constexpr std::array<uint64_t, 7> kExtremes = {
    0, 1, uint64_t{1} << 31, uint64_t{1} << 32, uint64_t{INT64_MAX}, uint64_t{1} << 63, UINT64_MAX};
// All fields are tried only where there is time: BRICKFS_EVERY_FIELD, set by a thorough test.
constexpr const char* kEveryField = "BRICKFS_EVERY_FIELD";
// A sanitizer makes each mount ten times as long: one of so many of those fields is enough to see what it sees.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr size_t kOneOf = 8;
#else
constexpr size_t kOneOf = 1;
#endif

std::unique_ptr<Filesystem> mounted(EmbeddedVolume& volume) {
  std::string why;
  auto filesystem = Filesystem::mount(volume.open(), {}, &why);
  EXPECT_TRUE(filesystem.ok()) << why;
  return filesystem.ok() ? std::move(*filesystem) : nullptr;
}

void write_some(Filesystem& filesystem, Ino ino) {
  std::array<std::byte, 5000> bytes{};
  bytes.fill(std::byte{7});
  const LocalSlice slice{bytes.data(), bytes.size(), 0};
  static_cast<void>(filesystem.write(ino, 0, {&slice, 1}, false, nullptr));
}

void fill(Filesystem& filesystem, const std::string& prefix) {
  const Caller root = root_caller();
  const Ino folder = filesystem.make_directory(kRootIno, prefix + "d", 0755, root)->ino;
  const Ino file = filesystem.create(folder, "file", 0644, root)->ino;
  write_some(filesystem, file);
  EXPECT_TRUE(filesystem.link(file, kRootIno, prefix + "linked").ok());
  EXPECT_TRUE(filesystem.set_xattr(file, "user.a", bytes_of(uint64_t{1}), 0, root).ok());
  EXPECT_TRUE(filesystem.make_symlink(kRootIno, prefix + "symlink", "d/file", root).ok());
  EXPECT_TRUE(filesystem.make_directory(folder, "inner", 0755, root).ok());
  const Ino unlinked = filesystem.create(folder, "unlinked", 0644, root)->ino;
  write_some(filesystem, unlinked);
  EXPECT_TRUE(filesystem.unlink(folder, "unlinked").ok());
}

// Rows of all kinds in the checkpoint, and in the journal behind it.
VolumeImage whole_image() {
  EmbeddedVolume volume(kVolumeMemory);
  {
    const auto filesystem = mounted(volume);
    fill(*filesystem, "a");
    EXPECT_TRUE(filesystem->checkpoint().ok());
    fill(*filesystem, "b");
    const Ino gone = filesystem->create(kRootIno, "gone", 0644, root_caller())->ino;
    write_some(*filesystem, gone);
    EXPECT_TRUE(filesystem->set_xattr(gone, "user.b", bytes_of(uint64_t{2}), 0, root_caller()).ok());
    EXPECT_TRUE(filesystem->remove_xattr(gone, "user.b").ok());
    EXPECT_TRUE(filesystem->set_attributes(gone, {.size_bytes = 1}, root_caller()).ok());
    filesystem->forget(gone, 1);
    EXPECT_TRUE(filesystem->unlink(kRootIno, "gone").ok());
    EXPECT_TRUE(filesystem->sync_all().ok());
  }
  return VolumeImage::of(*volume.open());
}

// All that a user may do with what is there. Errors are answers, too.
void use(Filesystem& filesystem, Ino directory, int depth) {
  struct Name {
    std::string name;
    Ino ino;
    uint8_t type;
  };
  std::vector<Name> names;
  static_cast<void>(filesystem.read_directory(directory, 0, true, [&](const DirectoryEntry& entry) {
    if (entry.name != "." && entry.name != "..") names.push_back({std::string(entry.name), entry.ino, entry.type});
    return names.size() < 100;
  }));
  const Caller caller = user_caller(1000, 1000);
  for (const Name& name : names) {
    static_cast<void>(filesystem.lookup(directory, name.name));
    static_cast<void>(filesystem.get_attributes(name.ino));
    static_cast<void>(filesystem.read_symlink(name.ino));
    static_cast<void>(filesystem.list_xattr(name.ino, caller));
    static_cast<void>(filesystem.link(name.ino, directory, name.name + ".link"));
    std::array<std::byte, 8192> bytes{};
    const LocalSlice slice{bytes.data(), bytes.size(), 0};
    static_cast<void>(filesystem.read(name.ino, 0, {&slice, 1}));
    write_some(filesystem, name.ino);
    static_cast<void>(filesystem.set_attributes(name.ino, {.size_bytes = 10'000}, caller));
    if (depth < 4) use(filesystem, name.ino, depth + 1);
    static_cast<void>(filesystem.rename(directory, name.name, kRootIno, name.name + ".moved", Rename::kReplace));
    static_cast<void>(filesystem.unlink(directory, name.name));
    static_cast<void>(filesystem.remove_directory(directory, name.name));
    filesystem.forget(name.ino, 2);
  }
}

struct HostileOutcome {
  bool clean = false;
  bool mounted = false;
  bool read_only = false;
  int created = 0;  // errno of a new file
  bool clean_after = false;
};

HostileOutcome go_through(const VolumeImage& image) {
  EmbeddedVolume volume(kVolumeMemory);
  EXPECT_TRUE(image.write_to(*volume.open()).ok());
  HostileOutcome seen;
  const auto clean = [&volume] {
    std::string why;
    const auto report = check_filesystem(*volume.open(OpenMode::kReadOnly), {}, &why);
    return report.ok() && !report->findings.damaged();
  };
  seen.clean = clean();
  std::string why;
  if (auto filesystem = Filesystem::mount(volume.open(), {}, &why); filesystem.ok()) {
    seen.mounted = true;
    seen.read_only = (*filesystem)->read_only();
    seen.created = (*filesystem)->create(kRootIno, "new", 0644, root_caller()).code();
    use(**filesystem, kRootIno, 0);
    static_cast<void>((*filesystem)->checkpoint());
    static_cast<void>((*filesystem)->unmount());
  }
  seen.clean_after = clean();
  if (!seen.clean_after) {
    static_cast<void>(repair_filesystem(*volume.open(), {}, &why));
    if (auto filesystem = Filesystem::mount(volume.open(), {}, &why); filesystem.ok()) use(**filesystem, kRootIno, 0);
  }
  return seen;
}

// What a child tells of a case that it may not outlive.
struct Report {
  char field[64];
  uint64_t value;
  char breach[128];
};

// A newer program's, that this one reads: what such a volume is for.
bool may_be_read_only(const StoredField& field) { return std::string_view(field.name) == "superblock ro_compat"; }

// Of each kind of row in the checkpoint the first and the third one (the root, a file), in the journal the first; or
// all.
std::vector<StoredField> fields_to_try(const VolumeImage& image) {
  std::map<std::pair<std::string_view, uint64_t>, size_t> had;  // by kind, and by the block that they are in
  std::vector<StoredField> fields = image.fields();
  const uint64_t journal = fields.back().address / kBlockBytes;
  if (::getenv(kEveryField) != nullptr) return fields;
  std::erase_if(fields, [&](const StoredField& field) {
    const uint64_t block = field.address / kBlockBytes;
    const size_t number = ++had[{field.name, block}];
    return number != 1 && (number != 3 || block == journal);
  });
  size_t index = 0;
  std::erase_if(fields, [&](const StoredField&) { return index++ % kOneOf != 0; });
  return fields;
}

void try_field(const VolumeImage& image, const StoredField& field, Report& report) {
  std::snprintf(report.field, sizeof(report.field), "%s at %#lx", field.name,
                static_cast<unsigned long>(field.address));
  const uint64_t most = field.bytes == 8 ? UINT64_MAX : (uint64_t{1} << (8 * field.bytes)) - 1;
  uint64_t former = image.get(field);
  for (const uint64_t extreme : kExtremes) {
    const uint64_t value = std::min(extreme, most);
    if (value == former) continue;
    former = value;
    report.value = value;
    VolumeImage changed = image;
    changed.set(field, value);
    const HostileOutcome seen = go_through(changed);
    const char* breach = nullptr;
    if (seen.clean && !seen.mounted) breach = "clean, but cannot be mounted";
    if (seen.clean && seen.read_only && !may_be_read_only(field)) breach = "clean, but mounted read-only";
    if (seen.clean && seen.created != 0 && seen.created != ENOSPC && !seen.read_only)
      breach = "clean, but nothing can be created";
    if (seen.clean && !seen.clean_after) breach = "clean, but not after it was used";
    if (breach != nullptr) std::snprintf(report.breach, sizeof(report.breach), "%s (%d)", breach, seen.created);
    if (breach != nullptr) return;
  }
}

TEST(HostileImage, NoNumberEndsOrHoldsAProgramAndWhatIsCleanCanBeUsed) {
  const VolumeImage image = whole_image();
  const HostileOutcome untouched = go_through(image);
  ASSERT_TRUE(untouched.clean && untouched.mounted && !untouched.read_only && untouched.created == 0 &&
              untouched.clean_after);
  const std::vector<StoredField> fields = fields_to_try(image);
  ASSERT_GT(fields.size(), 60u / kOneOf);  // fewer where several operations came to be one batch
  void* const shared = ::mmap(nullptr, sizeof(Report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  Report& report = *static_cast<Report*>(shared);
  for (const StoredField& field : fields) {
    report = {};
    const pid_t child = ::fork();
    if (child == 0) {
      log::set_level(log::Level::kOff);
      ::alarm(kSecondsOfAField);
      try_field(image, field, report);
      ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
        << report.field << " = " << std::hex << report.value << ": signal " << std::dec << WTERMSIG(status);
    EXPECT_STREQ(report.breach, "") << report.field << " = " << std::hex << report.value;
  }
  ::munmap(shared, sizeof(Report));
}

}  // namespace
}  // namespace brickfs
